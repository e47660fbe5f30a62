"""Build time only: turns openapi.json into the package `generated`."""
