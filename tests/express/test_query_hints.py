"""What developers learn of a name in a query that is not known."""

from __future__ import annotations

import html
import logging

import pytest
from pydantic import BaseModel
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, rest
from alula.schema import with_schema


class Note(BaseModel):
    id: int
    text: str


NOTE = {"properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
OPERATORS = "$gt, $gte, $in, $lt, $lte, $ne, $nin"


def application(service, *, debug=True):
    app = express(App(debug=debug)).configure(rest())
    app.use("notes", service)
    return app.use(error_handler())


SERVICES = {
    "plain": MemoryService,
    "pydantic": lambda: with_schema(MemoryService(), Note),
    "json": lambda: with_schema(MemoryService(), NOTE),
}


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("text[$gtt]=a", "'$gtt' is not known here; did you mean '$gt'?; allowed: "),
        ("text[$like]=a", "'$like' is not known here"),
        ("limit=2", "'limit' is not known here; did you mean '$limit'?; allowed: "),
    ],
)
async def test_the_log_and_the_page_suggest_what_is_allowed(kind, query, said, caplog):
    caplog.set_level(logging.INFO, "alula.express")
    if kind == "plain" and query == "limit=2":
        return  # a service without a schema has any field
    app = application(SERVICES[kind]())
    page = (await call(app, "GET", f"/notes?{query}", headers={"accept": "text/html"})).text
    for text in (html.unescape(page), caplog.text):
        assert said in text
        assert all(name in text for name in OPERATORS.split(", "))
    answer = await call(app, "GET", f"/notes?{query}")
    assert (answer.status, "did you mean" in answer.text) == (400, False)


async def test_outside_of_debug_mode_the_page_says_no_more(caplog):
    app = application(SERVICES["pydantic"](), debug=False)
    page = (await call(app, "GET", "/notes?limit=2", headers={"accept": "text/html"})).text
    assert "did you mean" not in page


async def test_a_value_that_is_not_valid_needs_no_hint(caplog):
    caplog.set_level(logging.INFO, "alula.express")
    for kind in ("pydantic", "json"):
        assert (await call(application(SERVICES[kind]()), "GET", "/notes?id=x")).status == 400
    assert "allowed" not in caplog.text


async def test_a_long_name_is_not_compared(caplog):
    caplog.set_level(logging.INFO, "alula.express")
    await call(application(MemoryService()), "GET", f"/notes?text[${'g' * 2000}]=a")
    assert "did you mean" not in caplog.text


async def test_json_has_the_hint_only_under_alula_dev(monkeypatch):
    app = application(MemoryService())
    assert "hint" not in (await call(app, "GET", "/notes?text[$gtt]=a")).json
    monkeypatch.setenv("ALULA_HINTS", "1")
    answer = await call(app, "GET", "/notes?text[$gtt]=a")
    assert answer.status == 400
    assert answer.json["hint"].startswith("'$gtt' is not known here; did you mean '$gt'?")
    assert "hint" not in (await call(app, "GET", "/notes/5")).json
