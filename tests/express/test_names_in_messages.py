"""Names that a client chose are shown and logged only if they are short identifiers.

``curl -d '{"password": ...}'`` without a content type sends a form with one field, whose name is
the whole text.
"""

from __future__ import annotations

import json as stdlib
import logging
from urllib.parse import quote

import pytest
from pydantic import BaseModel, ConfigDict
from sqlalchemy import Column, Integer, MetaData, String, Table
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService
from alula.errors import shown_name
from alula.express import error_handler, express, json, rest, urlencoded
from alula.schema import with_schema

SECRET = '{"email": "ada@example.com", "password": "hunter2 & co"}'
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = ""


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "name", ["", "text", "$sort", "a.b", "items[0]", "größe", "first-name", "x" * 64]
)
def test_short_names_are_shown(name):
    assert shown_name(name) == name


@pytest.mark.parametrize("name", [SECRET, "a b", "a@b.example", "x" * 65, 'a"', "a\nb", "\0"])
def test_of_other_names_the_length_is_told(name):
    assert shown_name(name) == f"({len(name)} characters)"


def test_other_keys_are_shown_as_text():
    assert shown_name(5) == "5"


@pytest.fixture(scope="module")
async def application():
    users = Table(
        "users", MetaData(), Column("id", Integer, primary_key=True), Column("text", String)
    )
    database = Database("sqlite://")
    app = express(App()).use(json(), urlencoded()).configure(rest())
    app.use("memory", MemoryService())
    app.use("sql", SQLService(users, database))
    app.use("model", with_schema(MemoryService(), Strict))
    app.use("schema", with_schema(MemoryService(), SCHEMA))
    app.use(error_handler())
    await app.setup()
    await database.create()
    yield app
    await app.teardown()


@pytest.fixture
def web(application, caplog):
    caplog.set_level(logging.DEBUG)
    return application


SERVICES = ["memory", "sql", "model", "schema"]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("body", [SECRET, quote(SECRET), quote(f" {SECRET}"), f"[{SECRET}]"])
async def test_json_that_is_sent_as_a_form_is_a_415_that_says_what_to_send(
    web, caplog, service, body
):
    answer = await call(web, "POST", f"/{service}", body.encode(), FORM)
    assert answer.status == 415
    assert "application/json" in answer.json["message"]
    assert "hunter2" not in answer.text + caplog.text


@pytest.mark.parametrize("extended", [True, False])
@pytest.mark.parametrize("body", [b"text=%7B%22a%22%3A1%7D", b"[0]=a", b"[a]=b", b"", b"a={"])
async def test_other_forms_are_read_as_before(body, extended):
    app = express().use(urlencoded(extended=extended))
    app.post("/", lambda req, res: res.json(req.body))
    assert (await call(app, "POST", "/", body, FORM)).status == 200


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
@pytest.mark.parametrize(
    "data",
    [
        {SECRET: ""},
        {f"${SECRET}": ""},
        {f"${SECRET}": {"text": 1}},
        {f"text.{SECRET}": ""},
        {f"a.{SECRET}.$x": ""},
        {"$inc": {SECRET: 1}},
        {"text": {f"${SECRET}": 1}},
    ],
    ids=range(7),
)
async def test_refused_properties_are_not_shown(web, caplog, service, method, data):
    await call(web, "POST", f"/{service}", b'{"text":"a"}', JSON)
    caplog.clear()
    for record_id in (0, 1):
        url = f"/{service}" if method == "POST" else f"/{service}/{record_id}"
        answer = await call(web, method, url, stdlib.dumps(data).encode(), JSON)
        if answer.status >= 400:
            assert answer.status < 500, answer.text
            assert "hunter2" not in answer.json["message"]
            assert "hunter2" not in str(answer.json.get("errors"))
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "pattern", ["{}=1", "text[{}]=1", "${}=1", "$sort[{}.$x]=1", "$select[]=${}", "$sort[{}]=x"]
)
async def test_refused_names_of_queries_are_not_shown(web, caplog, service, pattern):
    answer = await call(web, url=f"/{service}?{pattern.format(quote(SECRET, safe=''))}")
    if answer.status >= 400:
        assert answer.status == 400
        assert "hunter2" not in answer.json["message"]
    assert "hunter2" not in caplog.text
