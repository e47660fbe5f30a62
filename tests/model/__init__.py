"""Tests of the real weights."""
