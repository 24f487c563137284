"""JSON encoders: in which form values that JSON does not know are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar

from alula.types import SCALAR_TYPES, is_mapping

__all__ = ["JSON_ENCODERS", "as_mapping", "dump_model", "json_encoder_of", "register_json_encoder"]

T = TypeVar("T")

JSON_ENCODERS: Final[dict[type, Callable[[Any], object]]] = {}
"""By type: the function that turns its instances into a value that JSON knows."""

_SENT_AS_THEY_ARE: Final[Any] = (Mapping, str, int, float, list, tuple)


def register_json_encoder(type_: type[T], encoder: Callable[[T], object]) -> None:
    """Send instances of a type, and of its subclasses, in a JSON form that you choose.

    Args:
        type_: The type. Subclasses of ``str``, ``int``, ``float``, ``list`` and ``dict`` are always
            sent as these, with or without an encoder.
        encoder: Takes an instance; returns a value that JSON knows, or one that has an encoder.

    Raises:
        TypeError: ``type_`` is not a type, or ``encoder`` is not callable.

    Examples:
        >>> from decimal import Decimal
        >>> class Money(Decimal): ...
        >>> register_json_encoder(Money, lambda money: f"{money} EUR")
    """
    if not isinstance(type_, type) or not callable(encoder):
        raise TypeError(
            f"register_json_encoder takes a type and a function, not {type_!r} and {encoder!r}"
        )
    JSON_ENCODERS[type_] = encoder


def json_encoder_of(type_: type) -> Callable[[Any], object] | None:
    """Return the encoder registered for a type or its nearest base class, None without one."""
    return next((JSON_ENCODERS[base] for base in type_.__mro__ if base in JSON_ENCODERS), None)


def as_mapping(value: object) -> Any:
    """Return the mapping that an object is sent as; values that are not sent as one are unchanged.

    Code that hides properties needs them by the names that clients see. For a Pydantic model,
    these are its aliases.
    """
    type_ = type(value)
    if type_ in SCALAR_TYPES or isinstance(value, _SENT_AS_THEY_ARE):
        return value
    if (encoder := json_encoder_of(type_)) is not None:
        encoded = encoder(value)
        return encoded if is_mapping(encoded) else value
    # A class has the attributes of its instances (model_dump, the fields), but is not a record.
    if isinstance(value, type):
        return value
    if hasattr(value, "model_dump"):
        return dump_model(value, "python")
    if is_dataclass(value):
        names = (field.name for field in fields(value))
        return {name: getattr(value, name) for name in names if not name.startswith("_")}
    return value


def dump_model(model: Any, mode: str) -> dict[str, Any]:
    """Return an object with ``model_dump`` as a mapping, under the aliases of its fields.

    Args:
        model: A Pydantic model, or an object with the same method.
        mode: ``"python"`` or ``"json"``.
    """
    # Others than Pydantic may have a model_dump that takes no by_alias.
    by_alias = {"by_alias": True} if hasattr(type(model), "model_fields") else {}  # pyright: ignore[reportUnknownArgumentType]  # as in `public_part`
    dumped: dict[str, Any] = model.model_dump(mode=mode, **by_alias)
    return dumped
