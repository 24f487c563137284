"""Values of models -> what every store holds and every answer can have.

Pydantic knows many more types than a database: each becomes what Pydantic writes into JSON.
Dates with a time, bytes, and the types of the database itself stay, since a store knows them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from pydantic import Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from alula.types import SCALAR_TYPES

__all__ = ["storable"]

_ATOMS: Final = SCALAR_TYPES | {datetime, bytes}
_KEPT: Final = (str, int, float, datetime, bytes)
_LISTS: Final = (list, tuple, deque)
_SETS: Final = (set, frozenset)
_SECRETS: Final = (Secret, SecretStr, SecretBytes)


def storable(value: Any) -> Any:
    """Return a value, at any depth, in the types that can be stored.

    Members of enumerations become their values, secrets what they hide, sets lists in a fixed
    order; UUIDs, addresses, decimals, times, and dates without a time become text.
    """
    if type(value) in _ATOMS:
        return value
    if type(value) is dict or isinstance(value, Mapping):  # the first is asked in no time
        return {
            key if type(key) is str else str(storable(key)): storable(item)
            for key, item in value.items()
        }
    if isinstance(value, _LISTS):
        return [storable(item) for item in value]
    return sorted(map(storable, value), key=repr) if isinstance(value, _SETS) else _leaf(value)


def _leaf(value: Any) -> Any:
    if isinstance(value, Enum):
        return storable(value.value)
    if isinstance(value, _SECRETS):
        return storable(value.get_secret_value())
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, _KEPT):
        return value
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return value  # a type of the database's own, such as ObjectId
