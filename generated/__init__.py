# Generated from openapi.json by `python -m codegen`; do not edit.
"""Models and routes of the API, generated from openapi.json; never edited by hand."""
