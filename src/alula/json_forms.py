"""How values that JSON does not know look in it: forms that a room registers for its own types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FORMS", "register_json_form"]

FORMS: dict[type, Callable[[Any], Any]] = {}
"""The form of the instances of each type, and of its subclasses that have none of their own."""


def register_json_form(kind: type, form: Callable[[Any], Any]) -> None:
    """Have the instances of a type sent to clients in a form of their own.

    Args:
        kind: The type. A subclass of ``str``, ``int``, ``float``, ``list`` or ``dict`` is sent as
            that, whatever is registered.
        form: Gets a value and returns one that JSON knows, or one that has a form itself.

    Raises:
        TypeError: ``kind`` is no type, or ``form`` can not be called.
    """
    if not isinstance(kind, type) or not callable(form):
        raise TypeError(
            f"register_json_form takes a type and a function, not {kind!r} and {form!r}"
        )
    FORMS[kind] = form
