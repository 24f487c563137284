"""Services on tables of PostgreSQL and SQLite. Needs the extra ``sql`` or ``postgresql``."""

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401  # checks that it is installed
except ImportError as error:
    raise ImportError(
        "alula.adapters.sql needs sqlalchemy, which is not installed; install it with:"
        " pip install 'alula[sql]' for SQLite, or pip install 'alula[postgresql]'"
    ) from error

from alula.adapters.relations import belongs_to, has_many
from alula.adapters.sql._database import Database, Transaction
from alula.adapters.sql._service import SQLService
from alula.adapters.sql._transactions import transaction

__all__ = ["Database", "SQLService", "Transaction", "belongs_to", "has_many", "transaction"]
