"""All resolvers in one hook."""

from __future__ import annotations

import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.schema import hidden, resolve, resolve_all, virtual
from alula.types import UNSET

NAMED = resolve({"name": lambda name: name if name is UNSET else name.title()})


def people(**resolvers):
    app = App()
    app.use("people", MemoryService(start_id=1))
    seen = []

    async def note(context, next):
        await next()
        seen.append(context.dispatch)

    app.hooks(around=[note])
    return app.service("people").hooks(around=[resolve_all(**resolvers)]), seen


async def test_runs_each_in_its_place():
    people_, seen = people(
        query=resolve({"name": lambda name: name if name is UNSET else name.title()}),
        data=NAMED,
        result=resolve({"size": virtual(lambda record: len(record["name"]))}),
        external=resolve({"size": lambda size: f"{size} letters", "password": lambda: UNSET}),
    )
    await people_.create({"name": "ada", "password": "x"})
    assert await people_.find(query={"name": "ada"}) == [
        {"id": 1, "name": "Ada", "password": "x", "size": 3}
    ]
    assert seen[1] == [{"id": 1, "name": "Ada", "size": "3 letters"}]


async def test_resolves_data_by_method():
    people_, _ = people(data={"create": NAMED, "patch": resolve({"at": lambda: 5})})
    assert await people_.create({"name": "ada"}) == {"id": 1, "name": "Ada"}
    assert await people_.update(1, {"name": "eve"}) == {"id": 1, "name": "eve"}
    assert await people_.patch(1, {"name": "bob"}) == {"id": 1, "name": "bob", "at": 5}
    assert await people_.get(1) == {"id": 1, "name": "bob", "at": 5}


async def test_one_resolver_stands_for_all_methods_with_data():
    people_, _ = people(data=NAMED)
    await people_.create({"name": "ada"})
    assert (await people_.update(1, {"name": "eve"}))["name"] == "Eve"
    assert (await people_.patch(1, {"name": "bob"}))["name"] == "Bob"


async def test_takes_every_resolver_by_method():
    people_, seen = people(
        query={"find": resolve({"name": lambda name: name.title()})},
        result={"get": resolve({"size": virtual(lambda record: len(record["name"]))})},
        external={"find": resolve({"id": hidden})},
    )
    await people_.create({"name": "Ada"})
    assert await people_.get(1, query={"name": "Ada"}) == {"id": 1, "name": "Ada", "size": 3}
    assert await people_.find(query={"name": "ada"}) == [{"id": 1, "name": "Ada"}]
    assert seen[2] == [{"name": "Ada"}]
    assert seen[:2] == [UNSET, UNSET]


def test_invalid_arguments_are_refused():
    with pytest.raises(TypeError, match=r"resolve_all needs .*query, data"):
        resolve_all()
    with pytest.raises(ValueError, match="resolve_data: find has no data; use create"):
        resolve_all(data={"find": NAMED})
    with pytest.raises(TypeError, match=r"resolve_data takes what resolve\("):
        resolve_all(data={"create": {"name": 1}})
    with pytest.raises(TypeError, match=r"resolve_external takes what resolve\("):
        resolve_all(external={"name": 1})
