"""Alula: name your services; each gets a REST API, one query syntax, hooks and events."""

__version__ = "0.1.0"
