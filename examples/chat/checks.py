"""What is expected of data that comes in."""

from alula.errors import BadRequest


def text_of(data: object, name: str, longest: int) -> str:
    """Return one text of the data, without blanks at its ends; 400 if it is none."""
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        rule = f"must be a text of 1 to {longest} characters"
        raise BadRequest(f"{name} {rule}", errors={name: rule})
    return value.strip()
