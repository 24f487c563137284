"""Checks of external data."""

from alula.errors import BadRequest


def text_of(data: object, name: str, max_length: int) -> str:
    """Return a text of the data without surrounding blanks.

    Raises:
        BadRequest: It is not a text, empty or too long.
    """
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value.strip() or len(value) > max_length:
        rule = f"must be a text of 1 to {max_length} characters"
        raise BadRequest(f"{name} {rule}", errors={name: rule})
    return value.strip()
