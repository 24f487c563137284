"""Writes applications, and what is added to them: `alula new` and `alula generate`."""
