"""The common query syntax: query strings, the grammar, and what a query means for records."""

from alula.query._grammar import EMPTY_QUERY, And, Grammar, Or, Query, Where
from alula.query._match import SUPPORTED_OPERATORS, predicate
from alula.query._order import ordered
from alula.query._string import parse, stringify
from alula.query._validated import ValidatedQuery

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
