"""The engine: neutral requests in, neutral events out; it knows nothing of HTTP."""
