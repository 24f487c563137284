"""Validation by Pydantic models, and by all other types that Pydantic can validate."""
