"""The common query syntax: query strings, the grammar, and which records a query selects."""

from alula.query._grammar import Grammar
from alula.query._match import SUPPORTED_OPERATORS, predicate
from alula.query._order import ordered
from alula.query._parse import parse
from alula.query._query import EMPTY_QUERY, And, Or, Query, ValidatedQuery, Where
from alula.query._stringify import stringify

__all__ = [
    "EMPTY_QUERY",
    "SUPPORTED_OPERATORS",
    "And",
    "Grammar",
    "Or",
    "Query",
    "ValidatedQuery",
    "Where",
    "ordered",
    "parse",
    "predicate",
    "stringify",
]
