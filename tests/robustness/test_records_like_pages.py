"""A record that looks like a page is still a record, and a page hides its records everywhere.

The properties of a record are what clients sent; so nothing may follow from their names.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from tests.express.asgi_client import call

from alula import App, Page
from alula.adapters.memory import MemoryService
from alula.authentication import protect
from alula.errors import Conflict
from alula.express import error_handler, express, rest
from alula.express import json as json_bodies
from alula.outgoing import public_part
from alula.schema import resolve, resolve_external, with_schema
from alula.types import UNSET

SECRET = "DE89 3704"
HIDE = resolve({"iban": lambda: UNSET})
METHODS = ["find", "get", "create", "update", "patch", "remove", "make"]


class Invoice(BaseModel):
    model_config = ConfigDict(extra="allow")

    customer: str | None = None
    total: float = 0
    limit: int | None = None
    skip: int | None = None
    data: Any = None
    iban: str | None = None


class Invoices(MemoryService):
    """Has a method of its own, which returns what a function makes."""

    def __init__(self, **options):
        super().__init__(start_id=1, multi=True, **options)
        self.answer = lambda: None

    async def make(self, data, params):
        return await self.answer()


def guarded(app, guard, **options):
    service = Invoices(**options)
    methods = {"methods": METHODS}
    if guard.startswith("with_schema"):
        brought = {"external": HIDE} if guard.endswith("external") else {"hidden": ["iban"]}
        app.use("invoices", with_schema(service, Invoice, **brought), **methods)
    else:
        app.use("invoices", service, **methods)
        hook = protect("iban") if guard.startswith("protect") else resolve_external(HIDE)
        kind = "after" if guard.endswith("after") else "around"
        app.service("invoices").hooks({kind: [hook]})
    return service


GUARDS = ["protect", "protect after", "resolve_external", "with_schema external", "with_schema"]


@pytest.fixture(params=GUARDS)
def guard(request):
    return request.param


@pytest.fixture
def app(guard):
    app = express(App())
    app.use(json_bodies()).configure(rest())
    guarded(app, guard)
    app.use(error_handler(logger=None))
    return app


LOOKS = {
    "few": {"total": 0, "data": []},
    "all": {"total": 1, "limit": 1, "skip": 0, "data": []},
    "with records": {"total": 1, "limit": 1, "skip": 0, "data": [{"iban": "inner"}]},
    "of scalars": {"total": 1, "limit": 1, "skip": 0, "data": ["x", None, 3]},
    "no list": {"total": 1, "limit": 1, "skip": 0, "data": {"a": {"data": []}}},
}


async def sent(app, verb, url, body=None):
    headers = {"content-type": "application/json"} if body is not None else {}
    raw = b"" if body is None else json.dumps(body).encode()
    answer = await call(app, verb, url, raw, headers)
    assert answer.status < 500, answer.text
    return answer


async def made(app):
    return await call(app, "POST", "/invoices", b"", {"x-service-method": "make"})


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
class TestRecord:
    async def test_leaves_without_what_is_hidden_by_every_method(self, app, look):
        await app.service("invoices").create({"customer": "Ada", "iban": SECRET})
        told = [
            await sent(app, "PATCH", "/invoices/1", look),
            await sent(app, "GET", "/invoices/1"),
            await sent(app, "GET", "/invoices"),
            await sent(app, "GET", "/invoices/1?$select[]=total&$select[]=data"),
            await sent(app, "POST", "/invoices", {**look, "iban": SECRET}),
            await sent(app, "POST", "/invoices", [{**look, "iban": SECRET}] * 2),
            await sent(app, "PUT", "/invoices/1", {**look, "iban": SECRET}),
            await sent(app, "DELETE", "/invoices/1"),
        ]
        for answer in told:
            assert answer.status < 300, answer.text
            assert SECRET not in answer.text
        assert told[1].json["total"] == look["total"]
        assert told[2].json[0]["total"] == look["total"]

    async def test_is_whole_for_the_application(self, app, look):
        service = app.service("invoices")
        made = await service.create({**look, "iban": SECRET})
        assert (await service.get(made["id"]))["iban"] == SECRET
        assert (await service.find())[0]["iban"] == SECRET
        assert SECRET not in json.dumps(public_part({"by": [await service.get(made["id"])]}))

    async def test_leaves_a_custom_method_without_it(self, app, look):
        record = {**look, "customer": "Ada", "iban": SECRET}
        service = app.service("invoices")
        for returned in (record, [record], [[record]], (record,), {"total": 1, **record}):

            async def answer(returned=returned):
                return returned

            service.service.answer = answer
            told = await made(app)
            assert SECRET not in told.text
            assert "Ada" in told.text
            inside = await service.make({})
            assert SECRET in json.dumps(inside)
            assert SECRET not in json.dumps(public_part({"in": inside}))

    async def test_leaves_an_event_or_an_error_without_it(self, app, look):
        heard = []
        app.service("invoices").on("created", lambda data, _: heard.append(public_part(data)))
        await sent(app, "POST", "/invoices", {**look, "iban": SECRET})
        assert heard
        assert SECRET not in json.dumps(heard)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("guard", ["resolve_external", "with_schema external"])
async def test_an_error_of_a_hook_inside_does_not_tell_it(app, look):
    def fail(context):
        raise Conflict("no", {"of": context.result})

    app.service("invoices").hooks(after={"create": [fail]})
    answer = await sent(app, "POST", "/invoices", {**look, "iban": SECRET})
    assert answer.status == 409
    assert SECRET not in answer.text


def copied(page):
    return {**page, "data": list(page["data"])}


def paged(page):
    return Page(**page)


PAGES = {
    "the page itself": lambda page: page,
    "a copy": copied,
    "a page by name": paged,
    "a copy with more": lambda page: {**page, "cursor": "next"},
    "a page with more": lambda page: page | {"cursor": "next"},
    "a page in place": lambda page: page.update(cursor="next") or page,
    "a page with a tuple": lambda page: page | {"data": tuple(page["data"])},
    "a copy with a hidden property": lambda page: {**page, "iban": SECRET},
}


@pytest.mark.parametrize("change", PAGES.values(), ids=PAGES)
class TestPage:
    @pytest.fixture
    async def service(self, app, guard):
        await app.unuse("invoices")
        guarded(app, guard, paginate={"default": 5})
        app.use("plain", MemoryService(start_id=1, paginate={"default": 5}))
        for path in ("invoices", "plain"):
            await app.service(path).create({"customer": "Ada", "iban": SECRET})
        return app.service("invoices")

    async def test_hides_in_its_records_after_a_hook_has_changed_it(
        self, app, guard, service, change
    ):
        def hook(context):
            context.result = change(context.result)

        again = [protect("iban")] if guard == "protect after" else []  # after hooks go in order
        service.hooks(after={"find": [hook, *again]})
        told = await sent(app, "GET", "/invoices")
        assert SECRET not in told.text
        assert told.json["total"] == 1
        assert told.json["data"][0]["customer"] == "Ada"
        inside = await service.find()
        assert inside["data"][0]["iban"] == SECRET
        assert SECRET not in json.dumps(public_part([inside]))

    async def test_hides_in_them_where_a_custom_method_returns_it(self, app, service, change):
        async def answer():
            return change(await app.service("plain").find())

        service.service.answer = answer
        told = await made(app)
        assert told.status == 200
        assert SECRET not in told.text
        assert told.json["total"] == 1
        assert told.json["data"][0]["customer"] == "Ada"
        inside = await service.make({})
        assert inside["data"][0]["iban"] == SECRET
        assert SECRET not in json.dumps(public_part([inside]))


class Own:
    """A service of one's own that knows nothing of `Page`."""

    def __init__(self, page):
        self.page = page

    async def find(self, params):
        return self.page


RECORD = {"customer": "Ada", "iban": SECRET}
OWN = {
    "plain": {"total": 1, "limit": 1, "skip": 0, "data": [RECORD]},
    "with more": {"total": 1, "limit": 1, "skip": 0, "data": [RECORD], "next": {"a": 1}},
    "with less": {"total": 1, "data": [RECORD]},
    "data alone": {"data": [RECORD]},
    "one record": RECORD,
    "one like a page": {"total": 1, "limit": 1, "skip": 0, "data": [], "iban": SECRET},
}


@pytest.mark.parametrize(
    "hook", [protect("iban"), resolve_external(HIDE)], ids=["protect", "resolve"]
)
@pytest.mark.parametrize("page", OWN.values(), ids=OWN)
async def test_a_service_of_ones_own_hides_in_plain_pages(hook, page):
    app = express(App())
    app.configure(rest())
    app.use("own", Own(page))
    app.service("own").hooks(around=[hook])
    told = await sent(app, "GET", "/own")
    assert SECRET not in told.text
    shown = json.loads(json.dumps(page).replace(f', "iban": "{SECRET}"', ""))
    assert told.json == shown
    inside = await app.service("own").find()
    assert inside == page
    assert SECRET not in json.dumps(public_part({"in": inside}))
