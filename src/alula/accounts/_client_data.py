"""What clients send to the services of `account/`: its form, before anything else is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from alula.errors import BadRequest, MethodNotAllowed
from alula.types import Id, is_mapping

__all__ = ["checked_name", "fields_of", "one_id"]

_LONGEST_NAME: Final = 100


def fields_of(
    data: object, *, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return data that has these properties.

    Raises:
        BadRequest: It has others, or one is missing.
    """
    if not is_mapping(data) or not set(needed) <= set(data) <= {*needed, *optional}:
        names = ", ".join((*needed, *(f"{name} (optional)" for name in optional)))
        raise BadRequest(f"The data has to be an object with {names}, and nothing else")
    return data


def checked_name(name: object, what: str) -> str:
    """Return the name that somebody gives to a thing of theirs.

    Args:
        name: Any value.
        what: The thing, such as ``"a key"``, for the message.

    Raises:
        ValueError: It is not a text, or too long, or has characters that nobody can see.
    """
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        raise ValueError(f"the name of {what} is a text of at most {_LONGEST_NAME} characters")
    return name


def one_id(id: Id) -> str:
    """Return the id of one record.

    Raises:
        MethodNotAllowed: The call has none, so it is for all of them.
    """
    if id is None:
        raise MethodNotAllowed("Name one record by its id")
    return str(id)
