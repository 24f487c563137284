"""What data is: validators, the schema of queries, resolvers. Needs the extra ``schema``."""

try:
    import jsonschema as _jsonschema  # type: ignore[import-untyped]  # noqa: F401
    import pydantic as _pydantic  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        f"alula.schema needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[schema]'"
    ) from error

from alula.schema.all_hooks import resolve_all
from alula.schema.checking import validate_data, validate_query
from alula.schema.dates import DATE_SCHEMA, keyword_date
from alula.schema.failures import SchemaError
from alula.schema.properties import hidden, virtual
from alula.schema.resolver import Resolver, resolve
from alula.schema.resolver_hooks import resolve_data, resolve_query
from alula.schema.result_hooks import resolve_external, resolve_result
from alula.schema.service_schema import with_schema
from alula.schema.syntax import query_syntax
from alula.schema.validator import Validator
from alula.schema.validators import get_validator

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
