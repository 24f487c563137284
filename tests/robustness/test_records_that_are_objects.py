"""What is hidden stays hidden where records are objects, and wherever a custom method has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tests.express.asgi_client import call

from alula import App, Page
from alula.authentication import protect
from alula.express import error_handler, express, rest
from alula.express import json as json_bodies
from alula.outgoing import register_json_encoder
from alula.outgoing._encoders import JSON_ENCODERS
from alula.schema import hidden, resolve, resolve_external, with_schema

SECRET = "DE89 3704"


class Account(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    owner: str = "Ada"
    number: str = Field(default=SECRET, alias="iban")


@dataclass(frozen=True)
class Row:
    owner: str = "Ada"
    iban: str = SECRET
    _origin: str = "a cache"


class Mapped:
    """A class of an application that says what it looks like in JSON."""


class Spelled(Mapped):
    """One that says so by inheritance."""


RECORD = {"owner": "Ada", "iban": SECRET}
SHOWN = {"owner": "Ada"}
RECORDS: dict[str, Any] = {
    "dict": lambda: dict(RECORD),
    "model": Account,
    "dataclass": Row,
    "mapped": Spelled,
}


class Accounts:
    def __init__(self, make):
        self.make = make

    async def find(self, params):
        return [self.make()]

    async def get(self, id, params):
        return self.make()

    async def create(self, data, params):
        return self.make()

    async def answer(self, data, params):
        record = self.make()
        page = Page(total=1, limit=1, skip=0, data=[record])
        return {
            "record": record,
            "list": [record, (record,)],
            "page": page,
            "page within": {"found": page},
            "list within": {"data": [record], "count": 1},
            "deeper": {"by": {"Ada": {"accounts": [record]}}},
            "other values": {"count": 1, "kind": Account, "none": None},
        }[data["shape"]]


@pytest.fixture(params=["protect", "resolve_external", "with_schema"])
def guard(request):
    return request.param


@pytest.fixture(params=RECORDS)
def app(guard, request, monkeypatch):
    monkeypatch.setitem(JSON_ENCODERS, Mapped, None)
    register_json_encoder(Mapped, lambda _: dict(RECORD))
    service: Any = Accounts(RECORDS[request.param])
    methods = {"methods": ["find", "get", "create", "answer"]}
    app = express(App())
    app.use(json_bodies()).configure(rest())
    if guard == "with_schema":
        app.use("accounts", with_schema(service, Account, hidden=["iban"]), **methods)
    else:
        app.use("accounts", service, **methods)
        hooks = {"after": [protect("iban")]}
        if guard == "resolve_external":
            hooks = {"around": [resolve_external(resolve({"iban": hidden}))]}
        app.service("accounts").hooks(hooks)
    return app.use(error_handler(logger=False))


async def sent(app, verb, url, data=None, method=None):
    headers = {"content-type": "application/json"}
    if method:
        headers["x-service-method"] = method
    body = b"" if data is None else json.dumps(data).encode()
    answer = await call(app, verb, url, body, headers)
    assert answer.status < 300, answer.body
    assert SECRET.encode() not in answer.body
    return json.loads(answer.body)


async def test_objects_leave_without_what_is_hidden(app):
    assert await sent(app, "GET", "/accounts") == [SHOWN]
    assert await sent(app, "GET", "/accounts/1") == SHOWN
    assert await sent(app, "POST", "/accounts", {}) == SHOWN


PAGE = {"total": 1, "limit": 1, "skip": 0, "data": [SHOWN]}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("record", SHOWN),
        ("list", [SHOWN, [SHOWN]]),
        ("page", PAGE),
        ("page within", {"found": PAGE}),
        ("list within", {"data": [SHOWN], "count": 1}),
        ("deeper", {"by": {"Ada": {"accounts": [SHOWN]}}}),
    ],
)
async def test_custom_methods_hide_it_at_any_depth(app, shape, expected):
    assert await sent(app, "POST", "/accounts", {"shape": shape}, "answer") == expected


async def test_what_is_no_record_stays_as_it_is(app):
    internal = await app.service("accounts").answer({"shape": "other values"})
    assert internal == {"count": 1, "kind": Account, "none": None}


async def test_internal_calls_get_all_of_it_bound_to_what_may_leave(app):
    record = await app.service("accounts").get(1)
    assert record["iban" if "iban" in record else "number"] == SECRET
    assert SECRET not in repr(record)


async def test_models_leave_under_their_aliases():
    app = express(App()).configure(rest())
    app.use("accounts", Accounts(Account))
    answer = await call(app, "GET", "/accounts/1")
    assert json.loads(answer.body) == RECORD
