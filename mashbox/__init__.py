"""The command line and everything that assembles engine and handlers into a server."""

__version__ = "0.1.0"
