"""The built-in middleware, one module each."""
