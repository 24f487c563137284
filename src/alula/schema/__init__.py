"""What data is: validators, the schema of queries, resolvers. Needs the extra ``schema``."""

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

try:
    # Not imported: applications whose schemas are models need not load it.
    if _find_spec("jsonschema") is None:
        raise ModuleNotFoundError("No module named 'jsonschema'", name="jsonschema")
    import pydantic as _pydantic  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        f"alula.schema needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[schema]'"
    ) from error

from alula._late_imports import late_names
from alula.schema._failures import SchemaError
from alula.schema._hidden_and_queryable import hidden, virtual
from alula.schema._resolvers.hooks import (
    resolve_all,
    resolve_data,
    resolve_external,
    resolve_query,
    resolve_result,
)
from alula.schema._resolvers.resolver import Resolver, resolve
from alula.schema._service_schema import with_schema
from alula.schema._validation_hooks import validate_data, validate_query
from alula.schema._validators import get_validator, query_syntax

if TYPE_CHECKING:
    from alula.schema._json_schema.formats import DATE_SCHEMA, keyword_date
    from alula.schema._json_schema.validator import Validator

__all__ = [
    "DATE_SCHEMA",
    "Resolver",
    "SchemaError",
    "Validator",
    "get_validator",
    "hidden",
    "keyword_date",
    "query_syntax",
    "resolve",
    "resolve_all",
    "resolve_data",
    "resolve_external",
    "resolve_query",
    "resolve_result",
    "validate_data",
    "validate_query",
    "virtual",
    "with_schema",
]

if not TYPE_CHECKING:  # otherwise, checkers would accept every name
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "DATE_SCHEMA": "_json_schema.formats",
            "Validator": "_json_schema.validator",
            "keyword_date": "_json_schema.formats",
        },
    )
