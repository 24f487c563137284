"""Hooks and resolvers that somebody forgot to call where they are registered."""

import pytest

from alula import App, disallow
from alula.adapters.memory import MemoryService
from alula.schema import (
    SchemaError,
    resolve,
    resolve_all,
    resolve_data,
    resolve_external,
    resolve_query,
    resolve_result,
    validate_data,
    validate_query,
    virtual,
    with_schema,
)

MAKERS = [
    validate_query,
    validate_data,
    disallow,
    resolve_all,
    resolve_query,
    resolve_data,
    resolve_result,
    resolve_external,
]


@pytest.mark.parametrize("kind", ["around", "before", "after"])
@pytest.mark.parametrize("maker", MAKERS)
def test_what_makes_a_hook_is_not_one(maker, kind):
    app = App()
    app.use("tasks", MemoryService())
    name = maker.__name__
    with pytest.raises(TypeError, match=rf"{name} makes a hook.*write {name}"):
        app.service("tasks").hooks(**{kind: {"create": [maker]}})


def test_what_makes_a_resolver_is_not_one():
    with pytest.raises(TypeError, match=r"virtual makes one.*write virtual"):
        resolve({"user": virtual})


@pytest.mark.parametrize("more", [{}, {"additionalProperties": False}])
def test_a_required_property_that_nobody_can_send(more):
    schema = {"properties": {"text": {}}, "required": ["id", "txt"], **more}
    with pytest.raises(SchemaError, match=r"'txt' is required, but is not among .*: id, text$"):
        with_schema(MemoryService(), schema)


def test_a_required_property_of_an_open_schema_may_be_any():
    schema = {"properties": {"text": {}}, "required": ["txt"], "additionalProperties": True}
    with_schema(MemoryService(), schema)
    with pytest.raises(SchemaError, match="required"):
        with_schema(MemoryService(), {"properties": {"text": {}}, "required": "text"})
