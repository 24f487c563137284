"""Resolvers of what goes out, and that nothing hidden leaves on any way."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, Conflict, NotFound
from alula.outgoing import RedactedRecord, public_part
from alula.schema import hidden, virtual
from alula.schema._resolvers.hooks import resolve_external, resolve_result
from alula.schema._resolvers.resolver import resolve
from alula.types import UNSET, Page

HIDE = resolve({"password": lambda: UNSET})
LOUD = resolve({"name": lambda name: name if name is UNSET else name.upper()})
SIZE = resolve({"size": virtual(lambda record: len(record["name"]))})


async def people(*hooks, paginate=None):
    """Return the handle of a service with two people in it."""
    app = App()
    app.use("people", MemoryService(start_id=1, multi=True, paginate=paginate))
    service = app.service("people")
    await service.create([{"name": "ada", "password": "a"}, {"name": "bob", "password": "b"}])
    return service.hooks(around=list(hooks))


def dispatch_of(service):
    """Have the dispatch of every call noted, as a transport sees it."""
    seen = []

    async def note(context, next):
        await next()
        seen.append(context.dispatch)

    service.app.hooks(around=[note])
    return seen


class TestResult:
    async def test_resolves_lists_records_and_pages(self):
        service = await people(resolve_result(LOUD, SIZE))
        ada = {"id": 1, "name": "ADA", "password": "a", "size": 3}
        assert await service.get(1) == ada
        assert (await service.find())[0] == ada
        page = await service.find(paginate={"default": 1})
        assert page == {"total": 2, "limit": 1, "skip": 0, "data": [ada]}
        assert await service.patch(1, {"name": "eve"}) == {**ada, "name": "EVE"}
        assert [each["size"] for each in await service.remove(None)] == [3, 3]

    async def test_does_not_change_what_is_stored(self):
        service = await people(resolve_result(LOUD))
        await service.find()
        assert (await service.service.get(1))["name"] == "ada"

    async def test_resolves_what_is_selected_only(self):
        calls = []
        resolver = resolve({"name": LOUD_CALL, "size": virtual(lambda: calls.append(1))})
        service = await people(resolve_result(resolver))
        assert await service.get(1, query={"$select": ["name"]}) == {"id": 1, "name": "ADA"}
        assert await service.get(1, query={"$select": ["password"]}) == {"id": 1, "password": "a"}
        assert calls == []

    async def test_loads_whole_records_for_a_virtual_property(self):
        service = await people(resolve_result(SIZE))
        seen = []
        service.hooks(before=[lambda context: seen.append(dict(context.params.query))])
        query = {"$select": ["size"], "name": "ada"}
        assert await service.find(query=query) == [{"id": 1, "size": 3}]
        assert seen == [{"name": "ada"}]
        assert query == {"$select": ["size"], "name": "ada"}

    async def test_gives_the_query_back_to_those_outside(self):
        seen = []

        async def note(context, next):
            try:
                await next()
            finally:
                seen.append(context.params.query)

        service = await people(note, resolve_result(SIZE))
        await service.find(query={"$select": ["size"]})
        with pytest.raises(NotFound):
            await service.get(9, query={"$select": ["size"]})
        assert seen == [{"$select": ["size"]}] * 2

    async def test_a_dotted_name_selects_the_property_it_begins_with(self):
        user = resolve({"user": virtual(lambda: {"name": "x", "age": 1})})
        service = await people(resolve_result(user))
        assert await service.get(1, query={"$select": ["user.name"]}) == {
            "id": 1,
            "user": {"name": "x", "age": 1},
        }

    async def test_a_service_without_an_id_keeps_what_is_selected(self):
        class Plain:
            async def get(self, id, params):
                return {"id": id, "name": "ada", "more": 1}

        app = App()
        app.use("plain", Plain())
        app.service("plain").hooks(around=[resolve_result(LOUD)])
        assert await app.service("plain").get(1, query={"$select": ["name"]}) == {"name": "ADA"}

    async def test_a_selection_that_is_none_is_a_400(self):
        service = await people(resolve_result(LOUD))
        with pytest.raises(BadRequest, match=r"\$select"):
            await service.find(query={"$select": {"a": "b"}})

    async def test_leaves_what_is_no_record(self):
        class Answers:
            async def get(self, id, params):
                return {"none": None, "list": [1, None], "empty": [], "text": "x"}[id]

        app = App()
        app.use("answers", Answers())
        service = app.service("answers").hooks(
            around=[resolve_external(LOUD), resolve_result(LOUD)]
        )
        assert [await service.get(name) for name in ("none", "list", "empty", "text")] == [
            None,
            [1, None],
            [],
            "x",
        ]
        assert await service.get("list", query={"$select": ["a"]}) == [1, None]

    async def test_properties_of_a_page_are_under_way_at_the_same_time(self):
        begun = []
        gate = asyncio.Event()

        async def wait(record, context):
            begun.append(record["id"])
            if len(begun) == 2:
                gate.set()
            await gate.wait()
            return context.method

        service = await people(
            resolve_result(resolve({"how": virtual(wait)})), paginate={"default": 9}
        )
        async with asyncio.timeout(30):
            page = await service.find()
        assert [each["how"] for each in page["data"]] == ["find", "find"]

    async def test_a_failure_to_resolve_is_shown_by_property(self):
        async def missing():
            raise NotFound("no user")

        service = await people(resolve_result(resolve({"user": virtual(missing)})))
        with pytest.raises(BadRequest) as caught:
            await service.find()
        assert caught.value.data["user"]["name"] == "NotFound"

    async def test_a_value_error_is_a_failure_of_the_server(self):
        def fail():
            raise ValueError("internal")

        for hook in (resolve_result, resolve_external):
            service = await people(hook(resolve({"name": fail})))
            with pytest.raises(ValueError, match="internal"):
                await service.get(1)


def LOUD_CALL(name):
    return name.upper()


class TestExternal:
    async def test_the_application_sees_all_and_the_outside_does_not(self):
        service = await people(resolve_external(HIDE))
        dispatch = dispatch_of(service)
        assert await service.get(1) == {"id": 1, "name": "ada", "password": "a"}
        assert dispatch == [{"id": 1, "name": "ada"}]

    async def test_hides_in_lists_and_pages(self):
        service = await people(resolve_external(HIDE), paginate={"default": 1})
        dispatch = dispatch_of(service)
        page = await service.find()
        assert page["data"][0]["password"] == "a"
        await service.find(paginate=False)
        await service.patch(None, {"age": 3})
        assert dispatch[0] == {
            "total": 2,
            "limit": 1,
            "skip": 0,
            "data": [{"id": 1, "name": "ada"}],
        }
        assert dispatch[1] == [{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}]
        assert dispatch[2] == [
            {"id": 1, "name": "ada", "age": 3},
            {"id": 2, "name": "bob", "age": 3},
        ]

    async def test_hides_what_is_selected(self):
        service = await people(resolve_external(HIDE))
        dispatch = dispatch_of(service)
        await service.get(1, query={"$select": ["password"]})
        assert dispatch == [{"id": 1}]

    @pytest.mark.parametrize(
        "hide",
        [
            lambda name, record: UNSET if "password" in record else name,
            lambda name, record, context: UNSET if "password" in record else name,
        ],
    )
    async def test_what_is_not_selected_decides_as_well(self, hide):
        service = await people(resolve_external(resolve({"name": hide})))
        dispatch = dispatch_of(service)
        query = {"$select": ["name"]}
        await service.get(1, query=query)
        await service.find(query=query)
        await service.patch(1, {"age": 4}, query=query)
        assert dispatch == [{"id": 1}, [{"id": 1}, {"id": 2}], {"id": 1}]

    async def test_computes_what_only_the_outside_gets(self):
        service = await people(resolve_external(SIZE))
        dispatch = dispatch_of(service)
        assert "size" not in await service.get(1)
        await service.get(1, query={"$select": ["size"]})
        await service.get(1, query={"$select": ["name"]})
        assert dispatch == [
            {"id": 1, "name": "ada", "password": "a", "size": 3},
            {"id": 1, "size": 3},
            {"id": 1, "name": "ada"},
        ]

    async def test_sees_what_resolve_result_made(self):
        loud = resolve({"size": lambda size: f"{size} letters"})
        service = await people(resolve_external(HIDE, loud), resolve_result(SIZE))
        dispatch = dispatch_of(service)
        assert (await service.get(1))["size"] == 3
        assert dispatch == [{"id": 1, "name": "ada", "size": "3 letters"}]

    async def test_goes_together_with_another_one_outside(self):
        service = await people(
            resolve_external(resolve({"name": lambda: UNSET})), resolve_external(HIDE)
        )
        dispatch = dispatch_of(service)
        assert await service.get(1) == {"id": 1, "name": "ada", "password": "a"}
        assert public_part(await service.get(1)) == {"id": 1}
        assert dispatch == [{"id": 1}] * 2

    async def test_hides_more_than_a_hook_that_has_set_dispatch(self):
        async def protect(context, next):
            await next()
            context.dispatch = {"id": context.result["id"], "password": "***"}

        service = await people(resolve_external(HIDE), protect)
        dispatch = dispatch_of(service)
        record = await service.get(1)
        assert dispatch == [{"id": 1}]
        assert record == {"id": 1, "name": "ada", "password": "a"}
        assert public_part(record) == {"id": 1, "name": "ada"}

    async def test_custom_methods_hide_at_any_depth(self):
        class Pairs:
            async def pair(self, data, params):
                user = {"name": data["name"], "password": "secret"}
                return {"users": [user], "password": "key"}

        app = App().use("pairs", Pairs(), methods=["pair"])
        service = app.service("pairs")
        service.hooks(around=[resolve_external(resolve({"password": hidden}))])
        result = await service.pair({"name": "ada"})
        assert result["password"] == "key"
        assert public_part(result) == {"users": [{"name": "ada"}]}

    async def test_a_wrong_order_hides_still(self):
        service = await people(resolve_result(SIZE), resolve_external(HIDE))
        record = await service.get(1)
        assert record == {"id": 1, "name": "ada", "password": "a", "size": 3}
        assert public_part(record) == {"id": 1, "name": "ada", "size": 3}

    async def test_resolves_once_what_comes_back_through_a_second_call(self):
        calls = []

        class Nested(MemoryService):
            async def get(self, id, params=None):
                if id == "first":
                    return await app.service("people").get(1)
                return await super().get(id, params)

        def count(name):
            calls.append(name)
            return f"<{name}>"

        app = App()
        app.use("people", Nested(start_id=1))
        service = app.service("people").hooks(around=[resolve_external(resolve({"name": count}))])
        await service.create({"name": "ada"})
        calls.clear()
        assert public_part(await service.get("first")) == {"id": 1, "name": "<ada>"}
        assert calls == ["ada"]


async def chat(app=None):
    """Return an application with a user who has a password, and a message of theirs."""
    app = app or App()
    app.use("users", MemoryService(start_id=1))
    app.service("users").hooks(around=[resolve_external(HIDE)])
    app.use("messages", MemoryService(start_id=1, paginate={"default": 5}))

    async def user(record, context):
        return await context.app.service("users").get(record["userId"])

    app.service("messages").hooks(around=[resolve_result(resolve({"user": virtual(user)}))])
    await app.service("users").create({"name": "ada", "password": "secret"})
    await app.service("messages").create({"text": "hi", "userId": 1})
    return app


class TestErrorsOfHooksInside:
    """They see the whole result before anything is hidden."""

    @pytest.fixture
    async def failing(self):
        """Make a service whose after hook raises what a function makes of the context."""

        async def make(error_of, *, paginate=None):
            service = await people(resolve_external(HIDE), paginate=paginate)

            def fail(context):
                raise error_of(context)

            return service.hooks(after=[fail])

        return make

    @pytest.mark.parametrize(
        "data_of",
        [
            lambda result: result,
            lambda result: {"deep": [{"by": result}]},
            lambda result: {"copied": {**result}},
            lambda result: {"several": (result, 5)},
        ],
        ids=["itself", "deep", "a copy", "a tuple"],
    )
    async def test_tell_nothing_hidden(self, failing, data_of):
        service = await failing(
            lambda context: Conflict(
                "taken", data_of(context.result), errors={"all": [context.result]}
            )
        )
        with pytest.raises(Conflict) as caught:
            await service.get(1)
        shown = json.dumps(public_part(caught.value.to_dict()))
        assert "password" not in shown
        assert shown.count('"ada"') == 2
        assert "password" in str(dict(caught.value.errors["all"][0]))  # the application sees it

    @pytest.mark.parametrize("paginate", [None, {"default": 5}])
    async def test_of_several_records(self, failing, paginate):
        service = await failing(
            lambda context: Conflict("taken", {"found": context.result}), paginate=paginate
        )
        with pytest.raises(Conflict) as caught:
            await service.find()
        shown = json.dumps(public_part(caught.value.data))
        assert "password" not in shown
        assert "bob" in shown

    async def test_keep_what_is_guarded_already(self, failing):
        other = RedactedRecord({"a": 1, "b": 2}, {"a": 1})
        service = await failing(lambda _: Conflict("taken", {"other": other}))
        with pytest.raises(Conflict) as caught:
            await service.get(1)
        assert caught.value.data["other"] is other

    @pytest.mark.parametrize("error", [Conflict("taken"), Conflict("taken", 5), KeyError("a")])
    async def test_that_tell_nothing_stay(self, failing, error):
        service = await failing(lambda _: error)
        with pytest.raises(type(error)) as caught:
            await service.get(1)
        assert caught.value is error

    async def test_before_there_is_a_result(self):
        service = await people(resolve_external(HIDE))
        data = {"query": {"name": "ada"}}

        def fail(_):
            raise Conflict("taken", data)

        service.hooks(before=[fail])
        with pytest.raises(Conflict) as caught:
            await service.get(1)
        assert caught.value.data == data


class TestNothingHiddenLeaves:
    """Every way out of the application, for a user whose password is hidden."""

    @pytest.fixture
    async def client(self):
        from alula.express import error_handler, express, rest
        from alula.express import json as json_body

        app = express(App(debug=True))
        app.use(json_body())
        app.configure(rest())
        await chat(app)

        class Login:
            async def create(self, data, params):
                return {"accessToken": "x", "user": (await app.service("users").find())[0]}

            async def get(self, id, params):
                raise Conflict(
                    "taken",
                    {"by": await app.service("users").get(1)},
                    errors={"a": [await app.service("users").get(1)]},
                )

            async def remove(self, id, params):
                raise Conflict("taken", await app.service("users").get(1))

        app.use("login", Login())

        async def route(req, res):
            res.json({"users": await app.service("users").find()})

        app.get("/route", route)
        app.use(error_handler(logger=False))
        return app

    @pytest.mark.parametrize(
        ("verb", "path", "body"),
        [
            ("GET", "/users", None),
            ("GET", "/users/1", None),
            ("POST", "/users", {"name": "eve", "password": "secret"}),
            ("PUT", "/users/1", {"name": "eve", "password": "secret"}),
            ("PATCH", "/users/1", {"name": "eve"}),
            ("DELETE", "/users/1", None),
            ("GET", "/messages", None),
            ("GET", "/messages/1", None),
            ("GET", "/messages?$select[]=user", None),
            ("POST", "/messages", {"text": "a", "userId": 1}),
            ("POST", "/login", {}),
            ("GET", "/login/1", None),
            ("DELETE", "/login/1", None),
            ("GET", "/route", None),
        ],
    )
    async def test_over_http(self, client, verb, path, body):
        given = None if body is None else json.dumps(body).encode()
        answer = await call(client, verb, path, given, {"content-type": "application/json"})
        assert "name" in answer.text
        assert "secret" not in answer.text

    async def test_in_a_form_of_ones_own(self):
        from alula.express import express, rest

        app = express(App())
        app.configure(rest(lambda _, res: res.send(repr(res.data["user"].values()))))
        await chat(app)
        answer = await call(app, "GET", "/messages/1")
        assert answer.text == "dict_values(['ada', 1])"

    async def test_to_middleware_behind_the_service(self):
        from alula.express import express, rest

        async def load(_, params):
            return {"user": await app.service("users").get(1)}

        def show(_, res, next):
            return res.send(repr(dict(res.data["user"])))

        app = express(App())
        app.configure(rest())
        await chat(app)
        app.use("me", SimpleNamespace(get=load), show)
        assert (await call(app, "GET", "/me/1")).text == "{'name': 'ada', 'id': 1}"

    async def test_in_an_event(self):
        from alula._json_encoding import dumps

        app = await chat()
        heard = []
        app.service("users").on("patched", lambda user, context: heard.append((user, context)))
        app.service("messages").on("patched", lambda message, _: heard.append((message, None)))
        await app.service("users").patch(1, {"name": "eve"})
        await app.service("messages").patch(1, {"text": "b"})
        (user, context), (message, _) = heard
        assert user["password"] == "secret"  # within the application
        assert isinstance(user, RedactedRecord)
        assert context.dispatch == {"id": 1, "name": "eve"}
        assert message["user"]["password"] == "secret"
        assert b"secret" not in dumps([user, message])

    async def test_in_the_text_of_an_error(self):
        app = await chat()
        user = await app.service("users").get(1)
        assert "secret" not in str(Conflict(f"taken by {user}"))

    async def test_from_another_application(self):
        inner = await chat()
        outer = App()
        outer.use("inner", inner)
        dispatch = dispatch_of(outer.service("inner/users"))
        await outer.service("inner/users").find()
        message = await outer.service("inner/messages").get(1)
        assert dispatch[0] == [{"id": 1, "name": "ada"}]
        assert "secret" not in json.dumps(public_part(message))


@pytest.mark.parametrize("hook", [resolve_result, resolve_external])
def test_what_is_not_a_resolver_is_refused(hook):
    with pytest.raises(TypeError, match=f"{hook.__name__} needs a resolver"):
        hook()
    app = App()
    app.use("people", MemoryService())
    with pytest.raises(TypeError, match=r"after hook .*expected a function of .context"):
        app.service("people").hooks(after=[hook(HIDE)])


class TestFurtherEntriesOfAPage:
    """Beside its records a page may have entries that look like properties of a record."""

    async def found(self, *hooks):
        class Store:
            async def find(self, params):
                record = {"id": 1, "name": "Ada", "password": "x"}
                return Page(total=1, limit=1, skip=0, data=[record], name="all", password="key")

        app = App()
        app.use("people", Store())
        return await app.service("people").hooks(around=list(hooks)).find()

    async def test_are_resolved_where_they_are_present(self):
        page = await self.found(resolve_result(LOUD, SIZE))
        assert page["name"] == "ALL"
        assert page["data"] == [{"id": 1, "name": "ADA", "password": "x", "size": 3}]
        assert "size" not in page

    async def test_are_hidden_from_clients(self):
        page = await self.found(resolve_external(HIDE))
        assert page["password"] == "key"
        assert public_part(page) == {
            "total": 1,
            "limit": 1,
            "skip": 0,
            "data": [{"id": 1, "name": "Ada"}],
            "name": "all",
        }
