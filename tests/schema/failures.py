"""The failures of a value."""

from __future__ import annotations

from alula.errors import BadRequest
from alula.schema import Validator


def report(schema, value, **options):
    """Return the failures of a value, an empty list where it fits."""
    try:
        Validator(schema, **options).validate(value)
    except BadRequest as error:
        return error.data
    return []


def brief(failures):
    """Return only where something is wrong, and which keyword says so."""
    return [(each["instancePath"], each["schemaPath"], each["keyword"]) for each in failures]
