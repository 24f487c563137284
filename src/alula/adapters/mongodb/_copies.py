"""Copies of records, for callers that get the same one."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any, Final

from bson import Decimal128, Int64, ObjectId

from alula.adapters._data import ATOMS

__all__ = ["copied"]

_LEAVES: Final = ATOMS | {bytes, datetime, ObjectId, Decimal128, Int64}


def copied(value: Any) -> Any:
    """Return a value that shares nothing with the original that can be changed."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {name: copied(inner) for name, inner in value.items()}
    if kind is list:
        return [copied(inner) for inner in value]
    return deepcopy(value)
