"""The form in which `authManagement` refuses something, which FeathersJS front ends read."""

from __future__ import annotations

from alula.errors import BadRequest

__all__ = ["refusal"]


def refusal(text: str, class_name: str | None = None, **errors: str) -> BadRequest:
    """Return an error with ``errors`` by property, and an empty ``data``.

    Args:
        text: The message.
        class_name: ``errors.$className``, by which front ends tell failures apart.
        errors: What is wrong, by property.
    """
    error = BadRequest(
        text, errors=errors if class_name is None else {**errors, "$className": class_name}
    )
    error.data = {}
    return error
