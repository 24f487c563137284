"""Validation by JSON Schema, draft 2020-12: schemas are compiled to Python functions."""
