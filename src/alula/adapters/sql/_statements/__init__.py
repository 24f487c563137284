"""Statements as text: what a query means, what is read and written, in both dialects."""
