"""Who may do what in every order of hooks: as in FeathersJS, and never more with `with_schema`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.requirements import require_node, require_node_modules
from tests.schema.hook_orders import ORDERS, TASK, Task, answers_of, make_app, name_of

PACKAGES = ("authentication", "express", "feathers", "memory", "schema")


@pytest.fixture(scope="module")
def theirs():
    """What FeathersJS answers, by the name of the order."""
    modules = require_node_modules(*(f"@feathersjs/{name}" for name in PACKAGES))
    script = Path(__file__).with_name("hook_orders.mjs")
    ended = subprocess.run(
        [require_node(), str(script), str(modules)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(told) == 2 * len(ORDERS)
    return {name_of(each["order"]): each["answers"] for each in told}


@pytest.mark.parametrize("schema", ["before", "around"])
@pytest.mark.parametrize("order", ORDERS, ids=name_of)
async def test_hooks_one_by_one_answer_as_there(theirs, order, schema):
    order = {"schema": schema, **order}
    assert await answers_of(make_app(order)) == theirs[name_of(order)]


@pytest.mark.parametrize("model", [Task, TASK], ids=["model", "schema"])
@pytest.mark.parametrize("order", ORDERS, ids=name_of)
async def test_with_schema_answers_as_a_generated_application_there(theirs, order, model):
    """In a generated application of FeathersJS `authenticate` is an around hook."""
    generated = {"kind": "around", "for": order["for"], "on": "service", "when": "first"}
    expected = theirs[name_of({"schema": "before", **generated})]
    assert await answers_of(make_app(order, model)) == expected
