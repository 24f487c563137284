"""The hook that keeps fields of records from leaving."""

from __future__ import annotations

from functools import partial

import pytest
from tests.authentication.building import app_with_notes, proof_for

from alula.authentication import authenticate, protect
from alula.errors import BadRequest
from alula.outgoing import RedactedRecord, public_part


@pytest.fixture
async def app():
    return await app_with_notes()


class Records:
    """Answers records of every shape."""

    async def find(self, params):
        return params.query.get("shape")

    async def get(self, id, params):
        return {"id": id, "password": "hash", "data": [{"password": "inner"}]}

    async def create(self, data, params):
        return data


PASSWORD, HIDDEN = {"id": 1, "password": "hash", "salt": 2}, {"id": 1}


class TestProtect:
    @pytest.fixture(autouse=True, params=["after", "around"])
    def _hook(self, request, app):
        app.use("records", Records())
        app.service("records").hooks({request.param: [protect("password", "salt")]})

    @pytest.fixture
    def seen(self, app):
        """Every context of a call."""
        contexts = []

        async def note(context, next):
            await next()
            contexts.append(context)

        app.hooks(around=[note])
        return contexts

    @pytest.mark.parametrize(
        ("shape", "shown"),
        [
            (PASSWORD, HIDDEN),
            ([PASSWORD, PASSWORD], [HIDDEN, HIDDEN]),
            ({"total": 1, "data": [PASSWORD]}, {"total": 1, "data": [HIDDEN]}),
            ({"data": "text", "password": 1}, {"data": "text"}),
            ("text", "text"),
            (None, None),
            ([5, None], [5, None]),
        ],
    )
    async def test_clients_do_not_get_the_fields(self, app, seen, shape, shown):
        internal = await app.service("records").find(query={"shape": shape})
        assert internal == shape
        assert seen[0].dispatch == shown
        external = await app.service("records").find(query={"shape": shape}, provider="rest")
        assert external == shape
        assert (seen[1].dispatch, public_part(seen[1].result)) == (shown, shown)

    async def test_what_internal_calls_get_is_bound_to_what_may_leave(self, app):
        records = app.service("records")
        one = await records.find(query={"shape": PASSWORD})
        (several,) = await records.find(query={"shape": [PASSWORD]})
        page = await records.find(query={"shape": {"total": 1, "data": [PASSWORD]}})
        for record in (one, several, page["data"][0]):
            assert record["password"] == "hash"
            assert public_part({"owner": record}) == {"owner": HIDDEN}
            assert "hash" not in repr(record)

    async def test_of_custom_methods_at_any_depth(self, app):
        class Reports:
            async def report(self, data, params):
                return {"pages": [{"total": 1, "data": [PASSWORD]}]}

        app.use("reports", Reports(), methods=["report"])
        app.service("reports").hooks(after=[protect("password", "salt")])
        shown = await app.service("reports").report({}, provider="rest")
        assert public_part(shown) == {"pages": [{"total": 1, "data": [HIDDEN]}]}

    async def test_what_is_hidden_already_stays_so(self, app):
        class Guarded:
            async def get(self, id, params):
                return RedactedRecord({**PASSWORD, "inner": 3}, {"id": 1, "salt": 2}, "me")

        app.use("guarded", Guarded())
        app.service("guarded").hooks(after=[protect("salt")])
        record = await app.service("guarded").get(1)
        assert record == {**PASSWORD, "inner": 3}
        assert (record.public, record.redacted_by) == (HIDDEN, "me")

    async def test_the_user_of_a_call_is_bound_to_it_too(self, app):
        app.service("users").hooks(around=[protect("role")])
        app.service("notes").hooks(before=[authenticate("jwt")])
        found = await app.service("notes").find(authentication=proof_for(app))
        assert found["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}
        assert public_part(found)["user"] == {"id": 1, "email": "ada@example.com"}

    async def test_only_pages_have_their_records_in_data(self, app, seen):
        await app.service("records").get(1)
        assert seen[0].dispatch == {"id": 1, "data": [{"password": "inner"}]}

    async def test_clients_do_not_get_them_in_events(self, app):
        seen = []
        app.service("records").on("created", lambda data, context: seen.append(data))
        await app.service("records").create(PASSWORD, provider="rest")
        assert seen == [PASSWORD]
        assert public_part(seen) == [HIDDEN]

    async def test_goes_on_from_what_others_show(self, app, seen):
        def show(context):
            context.dispatch = {"id": 1, "salt": 2, "shown": True}

        app.use("shown", Records())
        app.service("shown").hooks(after={"get": [show, protect("salt")]})
        await app.service("shown").get(1)
        assert seen[-1].dispatch == {"id": 1, "shown": True}


class TestQueriesByWhatIsProtected:
    @pytest.fixture(autouse=True, params=["around", "after"])
    def _hook(self, request, app):
        app.service("users").hooks({request.param: [protect("password")]})

    @pytest.mark.parametrize(
        "query",
        [
            {"$sort": {"password": "1"}},
            {"$sort": {"email": "1", "password.x": "1"}},
            {"$sort": "-password"},
            {"$sort": ["email", "password"]},
            {"$sort": [["password", -1]]},
            {"password": "x"},
            {"password": ["x"]},
            {"password": None},
            {"password": {}},
            {"password.0": "x"},
            {"password.x.y": "x"},
            {"password": {"$gt": "$2b$"}},
            {"password": {"$lte": "$2b$"}},
            {"password": {"$ne": "x"}},
            {"password": {"$in": ["x"]}},
            {"password": {"$in": ["x", "y"]}},
            {"password": {"$in": {"0": "x", "1": "y"}}},
            {"password": {"$nin": ["x", "y"]}},
            {"password": {"$regex": "^.2b"}},
            {"password": {"$exists": True}},
            {"password": {"x": "y"}},
            {"password.x": {"$gt": "a"}},
            {"$or": [{"email": "x"}, {"password": {"$gte": "$2b$"}}]},
            {"$or": [{"email": "x"}, {"password": "y"}]},
            {"$or": ({"password": "y"},)},
            {"$or": {"0": {"password": {"$gte": "$2b$"}}}},
            {"$or": {"password": "x"}},
            {"$and": [{"$or": [{"password": {"$gt": "a"}}]}]},
            {"$and": {"0": {"$or": {"0": {"password": "x"}}}}},
            {"$nor": [{"password": {"$gt": "a"}}]},
            {"$not": {"password": "a"}},
            {"$not": {"$x": {"password": {"$gt": "a"}}}},
            {"email": {"$gt": "a"}, "password": "x"},
        ],
    )
    async def test_are_refused(self, app, query):
        for method, arguments in (("find", ()), ("get", (1,)), ("patch", (1, {"role": "x"}))):
            with pytest.raises(BadRequest, match="is hidden"):
                await app.service("users").call(
                    method, *arguments, params={"query": query, "provider": "rest"}
                )

    @pytest.mark.parametrize("name", ["password", "password.x"])
    async def test_are_refused_before_anything_is_changed(self, app, name):
        service = app.service("users")
        with pytest.raises(BadRequest):
            await service.patch(1, {"role": "x"}, query={name: {"$gt": ""}}, provider="rest")
        assert (await service.get(1))["role"] == "admin"

    async def test_are_refused_whether_they_would_find_something_or_not(self, app):
        for value in ("", "~"):
            with pytest.raises(BadRequest):
                await app.service("users").get(
                    1, query={"password": {"$gt": value}}, provider="rest"
                )

    async def test_cannot_be_copied_by_an_operator_of_data(self, app):
        for renamed in ({"password": "note"}, {"password.x": "note"}):
            with pytest.raises(BadRequest, match="password"):
                await app.service("users").patch(1, {"$rename": renamed}, provider="rest")

    @pytest.mark.parametrize(
        "query",
        [
            {},
            {"$sort": {"email": "1"}},
            {"$limit": "1", "$select": ["password", "email"]},
            {"$select": ["email", "password.x"]},
            {"$limit": "1", "$select": {"0": "password"}},
            {"email": {"$gt": "a"}},
            {"email": "password"},
            {"email": {"$in": ["password", "ada@example.com"]}},
            {"passwords": {"$ne": "x"}},
            {"account.password": {"$ne": "x"}},
            {"account": {"password": {"$ne": "x"}}},
        ],
    )
    async def test_about_other_fields_are_answered(self, app, query):
        for each in await app.service("users").find(query=query, provider="rest"):
            assert "password" not in public_part(each)

    @pytest.mark.parametrize("query", [{"$sort": "email"}, {"$or": "x"}, {"$or": ["x"]}])
    async def test_that_are_none_are_left_to_the_service(self, app, query):
        with pytest.raises(BadRequest) as caught:
            await app.service("users").find(query=query, provider="rest")
        assert "hidden" not in caught.value.message

    async def test_of_hooks_inside_are_theirs(self, app):
        hash_ = (await app.service("users").get(1))["password"]

        def own(context):
            context.params.query["password"] = hash_

        app.service("users").hooks(before=[own])
        found = await app.service("users").find(provider="rest")
        assert [each["id"] for each in found] == [1]

    async def test_of_internal_calls(self, app):
        found = await app.service("users").find(query={"password": {"$gt": "$"}})
        assert len(found) == 1

    async def test_of_other_methods(self, app):
        with pytest.raises(BadRequest):
            await app.service("users").remove(1, query={"password": {"$gt": "$"}}, provider="rest")


async def test_queries_are_refused_by_an_after_hook_of_which_nobody_knows_what_it_is(app):
    app.service("users").hooks(after=[partial(protect("password"))])
    for value in ("", "~"):
        with pytest.raises(BadRequest, match="password"):
            await app.service("users").find(query={"password": {"$gt": value}}, provider="rest")


def test_protect_needs_fields():
    with pytest.raises(TypeError, match=r"protect\(\) needs names"):
        protect()


@pytest.mark.parametrize("kind", ["before", "error"])
async def test_protect_is_refused_where_it_would_do_nothing(app, kind):
    app.use("records", Records())
    with pytest.raises(TypeError, match=rf"{kind} hook .*protect.* as after or around hook"):
        app.service("records").hooks({kind: {"get": [protect("password")]}})


def test_protect_takes_no_names_of_inner_fields():
    with pytest.raises(ValueError, match=r"protect\('account.password'\): .* such as 'password'"):
        protect("email", "account.password")


async def test_protect_is_no_before_hook(app):
    app.use("records", Records())
    hide = protect("password")
    app.service("records").hooks(before=[partial(hide)])
    with pytest.raises(RuntimeError, match="after or an around hook"):
        await app.service("records").get(1)
