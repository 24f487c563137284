"""The suite is fair to stores whose fields are declared, and as strict as with all others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.testing import AdapterSuite

FIELDS = AdapterSuite.fields
DECLARED = {
    "free names": "the fields are declared",
    "lists": "a field has one type",
    "mixed types": "a field has one type",
    "own fields": "a field that was not given is null",
    "regular expressions": "they are no text",
}
FILTERS = {"$limit", "$skip", "$sort", "$select", "$or", "$and"}


def items(value):
    """Return the items of a list, which may come as an object with index keys."""
    return list(value.values()) if isinstance(value, dict) else value


class DeclaredFields(MemoryService):
    """A store as strict as a table: other fields and other types are errors."""

    async def find(self, params=None):
        found = await super().find(params)
        self._check_query((params or {}).get("query") or {})
        return found

    def _read(self, params, options, **more):
        query = super()._read(params, options, **more)
        self._check_query(params.query or {})
        return query

    def _check_query(self, query):
        for name, value in query.items():
            if name in {"$or", "$and"}:
                for part in items(value):
                    self._check_query(part)
            elif name in {"$sort", "$select"}:
                for field in items(value) if name == "$select" else value:
                    self._type_of(field)
            elif name not in FILTERS and name != self.id:
                self._check_operand(name, value)

    def _check_operand(self, name, value):
        column = self._type_of(name)
        for operand in items(value) if isinstance(value, dict) else [value]:
            for item in items(operand) if isinstance(operand, list | dict) else [operand]:
                self._check_type(name, column, item)

    def _check_type(self, name, column, value):
        allowed = {str: str, int: int | float}.get(column, object)
        if value is not None and (not isinstance(value, allowed) or isinstance(value, bool)):
            raise BadRequest(f"{name!r} takes no {type(value).__name__}")

    def _type_of(self, name):
        first = str(name).partition(".")[0]
        if first != self.id and first not in FIELDS:
            raise BadRequest(f"There is no field {name!r}")
        return object if "." in str(name) else FIELDS.get(first)

    def _read_data(self, method, data, params, options):
        data = super()._read_data(method, data, params, options)
        for name, value in data.items() if isinstance(data, Mapping) else ():
            column = self._type_of(name)
            if name != self.id and column in {str, int}:
                self._check_type(name, column, value)
        return data

    def _add(self, records):
        return super()._add([dict.fromkeys(FIELDS) | record for record in records])

    def _replace(self, old, new):
        return super()._replace(old, dict.fromkeys(FIELDS) | new)


class TestDeclaredFields(AdapterSuite):
    unsupported = DECLARED

    async def make_service(self, **options):
        return DeclaredFields(**options)


def test_every_field_has_a_type():
    assert set(FIELDS.values()) == {str, int, dict, list}
    with pytest.raises(TypeError):
        FIELDS["name"] = int
