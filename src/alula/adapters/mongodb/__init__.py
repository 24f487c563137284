"""Services on collections of MongoDB. Needs the extra ``mongodb``."""

try:
    import pymongo as _pymongo  # noqa: F401  # checks that it is installed
except ImportError as error:
    raise ImportError(
        "alula.adapters.mongodb needs pymongo, which is not installed;"
        " install it with: pip install 'alula[mongodb]'"
    ) from error

from alula.adapters.mongodb._bson_types import (
    JSON_ENCODERS,
    ObjectIdSchema,
    keyword_object_id,
    resolve_object_id,
    resolve_query_object_id,
)
from alula.adapters.mongodb._changes import publish_changes
from alula.adapters.mongodb._database import Database
from alula.adapters.mongodb._errors import check_connection
from alula.adapters.mongodb._service import MongoDBService
from alula.adapters.mongodb._transactions import transaction

__all__ = [
    "JSON_ENCODERS",
    "Database",
    "MongoDBService",
    "ObjectIdSchema",
    "check_connection",
    "keyword_object_id",
    "publish_changes",
    "resolve_object_id",
    "resolve_query_object_id",
    "transaction",
]
