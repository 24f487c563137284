"""Records of their owners alone, and roles."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field
from tests.common_hooks.conftest import ADA, BOB, app_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate
from alula.common_hooks import (
    allow,
    iff,
    is_external,
    only_own,
    rate_limit,
    set_owner,
    stash_before,
)
from alula.errors import (
    BadRequest,
    Forbidden,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    TooManyRequests,
)
from alula.schema import with_schema

SCHEMA = {
    "properties": {"text": {"type": "string"}, "userId": {"type": "integer"}},
    "required": ["text", "userId"],
}


class Custom:
    """A service with a method of its own."""

    async def find(self, params):
        return []

    async def shout(self, data, params):
        return data


class TestOnlyOwn:
    async def test_each_store_tests_the_owner_in_every_method(self, notes):
        notes.hooks(before=[only_own()])
        ada, bob = {"id": 1, "text": "A", "userId": 7}, {"id": 2, "text": "B", "userId": 8}
        await notes.create([ada, bob, {"id": 3, "text": "C"}])
        for call in (
            notes.get(2, ADA),
            notes.patch(2, {"text": "x"}, ADA),
            notes.update(2, {"text": "x", "userId": 8}, ADA),
            notes.remove(2, ADA),
            notes.get(3, ADA),
        ):
            with pytest.raises(NotFound):
                await call
        assert [note["id"] for note in await notes.find(ADA)] == [1]
        assert [note["id"] for note in await notes.patch(None, {"votes": 1}, ADA)] == [1]
        assert [note["id"] for note in await notes.remove(None, ADA)] == [1]
        assert [note["text"] for note in await notes.find()] == ["B", "C"]

    @pytest.mark.parametrize(
        "query",
        [
            {"userId": 8},
            {"userId": {"$ne": 7}},
            {"userId": None},
            {"$or": [{"userId": 8}, {"text": "Hello"}]},
            {"$and": [{"userId": 8}]},
            {"userId": {"$gt": 0}, "$and": {"0": {"text": "Hello"}}},
        ],
    )
    async def test_what_a_client_asks_for_only_narrows(self, memory, query):
        notes = app_of(memory, before=[only_own()])
        records = await notes.find(query=query, **ADA)
        assert {note["id"] for note in records} <= {1}

    @pytest.mark.parametrize("wrong", [{"a": {}}, {}, "x", ["x"]])
    async def test_what_is_not_a_list_of_queries_is_refused(self, memory, wrong):
        notes = app_of(memory, before=[only_own()])
        with pytest.raises(BadRequest, match=r"\$and"):
            await notes.find(query={"userId": {"$gt": 0}, "$and": wrong}, **ADA)

    async def test_a_query_of_the_same_field_still_counts(self, memory):
        notes = app_of(memory, before=[only_own()])
        assert await notes.find(query={"userId": 8}, **ADA) == []
        assert len(await notes.find(query={"userId": 7}, **ADA)) == 1
        assert len(await notes.find(query={"userId": {"$lt": 8}}, **ADA)) == 1

    async def test_the_caller_keeps_its_query(self, memory):
        notes = app_of(memory, before=[only_own()])
        query = {"userId": {"$lt": 8}, "$and": [{"text": "Hello"}]}
        await notes.find(query=query, **ADA)
        assert query == {"userId": {"$lt": 8}, "$and": [{"text": "Hello"}]}

    async def test_calls_of_the_application_pass(self, memory):
        notes = app_of(memory, before=[only_own()])
        assert len(await notes.find()) == 3

    @pytest.mark.parametrize("user", [{}, {"user": None}, {"user": ["Ada"]}])
    async def test_without_a_user_it_says_what_to_do(self, memory, user):
        notes = app_of(memory, before=[only_own()])
        with pytest.raises(NotAuthenticated, match="register only_own behind authenticate"):
            await notes.find(provider="rest", **user)

    def test_before_authenticate_it_is_an_error(self, memory):
        with pytest.raises(TypeError, match=r"only_own of service .* would run before"):
            app_of(memory, around=[only_own(), authenticate("jwt")])

    @pytest.mark.parametrize("user", [{"_id": 7}, {"id": None}])
    async def test_a_user_without_an_id_owns_nothing(self, memory, user):
        notes = app_of(memory, before=[only_own()])
        with pytest.raises(RuntimeError, match='of="_id"'):
            await notes.find(provider="rest", user=user)

    async def test_names_are_chosen(self):
        service = MemoryService([{"id": 1, "owner": 5}, {"id": 2, "owner": 6}])
        notes = app_of(service, around=[only_own("owner", of="_id")])
        assert [note["id"] for note in await notes.find(provider="rest", user={"_id": 5})] == [1]

    async def test_a_custom_method_is_refused(self):
        from alula import App

        app = App().use("notes", Custom(), methods=["find", "shout"])
        notes = app.service("notes").hooks(before=[only_own()])
        with pytest.raises(RuntimeError, match="custom method `shout`"):
            await notes.shout({}, ADA)
        assert await notes.shout({}) == {}
        assert await notes.find(ADA) == []

    async def test_create_passes(self, memory):
        notes = app_of(memory, before=[only_own()])
        assert (await notes.create({"text": "x"}, ADA))["text"]

    async def test_create_passes_in_a_condition_too(self, memory):
        notes = app_of(memory, before=[iff(is_external(), only_own())])
        assert (await notes.create({"text": "x"}, ADA))["text"] == "x"
        assert [note["id"] for note in await notes.find(ADA)] == [1]

    async def test_a_call_that_is_tried_again_has_one_condition(self, memory):
        attempts = []

        async def again(context, next):
            await next()
            await next()
            attempts.append(context.params.query)

        notes = app_of(memory, around=[again], before=[only_own()])
        await notes.find(ADA)
        assert attempts == [{"userId": 7}]

    async def test_a_checked_query_stays_checked(self):
        service = MemoryService([{"id": 1, "text": "x", "userId": 7}], operators=["$regex"])
        extensions = {"text": {"$regex": {"type": "string"}}}
        bundle = with_schema(service, SCHEMA, extensions=extensions)
        notes = app_of(bundle, before=[only_own()])
        for query in ({"text": {"$regex": "x"}}, {"text": {"$regex": "x"}, "userId": {"$gt": 1}}):
            assert len(await notes.find(query=query, **ADA)) == 1

    @pytest.mark.parametrize("name", ["", "$or", "a.b"])
    def test_a_name_that_is_not_one_of_a_property_is_refused(self, name):
        with pytest.raises(ValueError, match="cannot be the name of a property"):
            only_own(name)

    def test_names_are_text(self):
        with pytest.raises(TypeError, match="names of properties, one by one"):
            only_own(["userId"])

    def test_it_is_made_by_a_call(self, memory):
        with pytest.raises(TypeError, match=r"write only_own\(\"userId\"\)"):
            app_of(memory, before=[only_own])
        with pytest.raises(TypeError, match="register it as before or around hook"):
            app_of(memory, after=[only_own()])


class TestSetOwner:
    async def test_the_user_owns_what_they_create(self, notes):
        notes.hooks(around=[set_owner()])
        assert (await notes.create({"id": 1, "text": "x"}, ADA))["userId"] == 7
        assert (await notes.create({"id": 2, "text": "x", "userId": 8}, ADA))["userId"] == 7
        several = await notes.create([{"id": 3, "userId": 8}, {"id": 4}], BOB)
        assert [note["userId"] for note in several] == [8, 8]

    async def test_nobody_changes_the_owner(self, notes, has_operators, updates_by_operators):
        notes.hooks(around=[set_owner()])
        await notes.create({"id": 1, "text": "x", "votes": 1}, ADA)
        assert (await notes.patch(1, {"userId": 8, "text": "y"}, BOB))["userId"] == 7
        assert (await notes.update(1, {"userId": 8, "text": "z", "votes": 1}, BOB))["userId"] == 7
        assert (await notes.update(1, {"text": "z", "votes": 1}, BOB))["userId"] == 7
        if has_operators:
            await notes.patch(1, {"$inc": {"userId": 1, "votes": 1}}, BOB)
            await notes.patch(1, {"$set": {"userId": 8}, "text": "a"}, BOB)
            note = await notes.get(1)
            assert (note["userId"], note["votes"]) == (7, 2)
        if updates_by_operators:
            note = await notes.update(1, {"$inc": {"votes": 1, "userId": 1}}, BOB)
            assert (note["userId"], note["votes"]) == (7, 3)

    async def test_in_a_condition_methods_without_data_pass(self, memory):
        notes = app_of(memory, before=[iff(is_external(), set_owner())])
        assert (await notes.create({"text": "x", "userId": 8}, ADA))["userId"] == 7
        assert (await notes.get(2, ADA))["userId"] == 8
        assert (await notes.remove(2, ADA))["userId"] == 8

    async def test_an_update_of_a_record_without_an_owner_sets_none(self, memory):
        notes = app_of(memory, before=[set_owner()])
        assert await notes.update(3, {"text": "x", "userId": 7}, ADA) == {"id": 3, "text": "x"}

    @pytest.mark.parametrize("hooks", [[only_own(), set_owner()], [set_owner(), only_own()]])
    async def test_an_update_reads_with_the_query_of_the_call(self, memory, hooks):
        notes = app_of(memory, before=hooks)
        with pytest.raises(NotFound):
            await notes.update(2, {"text": "x"}, ADA)

    async def test_an_update_that_creates_has_the_caller_as_owner(self):
        class Own:
            async def get(self, id, params):
                raise NotFound("no such record")

            async def update(self, id, data, params):
                return {"id": id, **data, "condition": params.query["userId"]}

        notes = app_of(Own(), around=[set_owner()])
        note = await notes.update(1, {"text": "x", "userId": 8}, ADA)
        assert note == {"id": 1, "text": "x", "userId": 7, "condition": None}

    async def test_an_update_needs_a_get(self):
        class Own:
            async def update(self, id, data, params):
                return data

        notes = app_of(Own(), around=[set_owner()])
        with pytest.raises(RuntimeError, match="the service needs a `get`; it has none"):
            await notes.update(1, {"text": "x"}, ADA)

    async def test_an_update_whose_result_a_hook_has_set_reads_nothing(self):
        class Own:
            async def update(self, id, data, params):
                raise AssertionError("the method ran")

        def answer(context):
            context.result = {"text": "from a hook"}

        notes = app_of(Own(), around=[set_owner()], before=[answer])
        assert await notes.update(1, {"text": "x"}, ADA) == {"text": "from a hook"}

    @pytest.mark.parametrize(
        ("method", "arguments"),
        [
            ("create", ({"text": "x", "userId": 7},)),
            ("create", ([{"text": "x"}, {"text": "x", "userId": 7}],)),
            ("patch", (1, {"userId": 7})),
            ("patch", (1, {"$set": {"userId": 7}})),
            ("patch", (1, {"$rename": {"text": "userId"}})),
            ("patch", (1, {"userId.x": 7})),
            ("update", (1, {"text": "x", "userId": 7})),
        ],
    )
    async def test_it_refuses_by_option(self, memory, method, arguments):
        notes = app_of(memory, before=[set_owner(refuse=True)])
        with pytest.raises(BadRequest, match="names userId, which the server sets") as caught:
            await notes.call(method, *arguments[:-1], data=arguments[-1], params=ADA)
        assert caught.value.errors == {"userId": "is set by the server"}
        assert (await notes.create({"text": "x"}, ADA))["userId"] == 7
        assert (await notes.patch(1, {"text": "y"}, ADA))["userId"] == 7

    async def test_the_application_chooses(self, memory):
        notes = app_of(memory, before=[set_owner()])
        assert "userId" not in await notes.create({"text": "x"})
        assert (await notes.create({"userId": 9}, user={"id": 7}))["userId"] == 9
        assert (await notes.create({"text": "x"}, user={"id": 7}))["userId"] == 7
        assert (await notes.patch(1, {"userId": 9}, user={"id": 7}))["userId"] == 9

    @pytest.mark.parametrize("method", ["create", "patch", "update"])
    async def test_it_needs_a_user(self, memory, method):
        notes = app_of(memory, before=[set_owner()])
        with pytest.raises(NotAuthenticated, match="register set_owner behind authenticate"):
            await notes.call(method, 1, {"text": "x"}, provider="rest")

    @pytest.mark.parametrize("method", ["find", "get", "remove"])
    async def test_other_methods_pass(self, memory, method):
        notes = app_of(memory, around=[set_owner()])
        assert await notes.call(method, 1, provider="rest")

    @pytest.mark.parametrize("data", ["text", 5, None, ["text"]])
    async def test_data_that_is_not_an_object_is_refused(self, memory, data):
        notes = app_of(memory, before=[set_owner()])
        with pytest.raises(BadRequest, match="must be an object"):
            await notes.create(data, ADA)

    async def test_a_list_is_refused_as_the_service_would(self):
        notes = app_of(MemoryService(), before=[set_owner()])
        with pytest.raises(MethodNotAllowed):
            await notes.create([{"text": "x"}], ADA)

    async def test_a_schema_may_require_it(self):
        notes = app_of(with_schema(MemoryService(), SCHEMA), around=[set_owner()])
        assert (await notes.create({"text": "x"}, ADA))["userId"] == 7

    @pytest.mark.parametrize("place", ["service", "application", "mount"])
    async def test_another_name_that_a_model_reads_changes_no_owner(self, place):
        class Note(BaseModel):
            model_config = ConfigDict(populate_by_name=True)
            text: str
            owner_id: int = Field(alias="userId")

        inner = App().use("notes", with_schema(MemoryService(start_id=1), Note))
        app = App().use("outer", inner.service("notes")) if place == "mount" else inner
        notes = app.service("outer" if place == "mount" else "notes")
        (app if place == "application" else notes).hooks(around=[set_owner()])
        note = await notes.create({"text": "x", "owner_id": 8}, ADA)
        assert note == {"id": 1, "text": "x", "userId": 7}
        for data in ({"owner_id": 8}, {"owner_id": 8, "userId": 9}):
            assert (await notes.patch(1, data, ADA))["userId"] == 7
            assert (await notes.update(1, {"text": "y", **data}, ADA))["userId"] == 7

    async def test_the_data_of_the_caller_stays(self, memory):
        notes = app_of(memory, before=[set_owner()])
        data = {"text": "x", "userId": 8}
        await notes.create(data, ADA)
        assert data == {"text": "x", "userId": 8}


class TestAllow:
    @pytest.mark.parametrize(
        "user", [{"roles": "admin"}, {"roles": ["reader", "admin"]}, {"roles": ("admin",)}]
    )
    async def test_one_of_the_roles_is_enough(self, memory, user):
        notes = app_of(memory, before=[allow("admin", "editor")])
        assert len(await notes.find(provider="rest", user=user)) == 3

    @pytest.mark.parametrize(
        "user",
        [{}, {"roles": None}, {"roles": []}, {"roles": "administrator"}, {"roles": {"admin": 1}},
         {"roles": [["admin"], 5]}, {"roles": True}],
    )  # fmt: skip
    async def test_others_are_refused(self, memory, user):
        notes = app_of(memory, around=[allow("admin")])
        with pytest.raises(Forbidden, match="does not allow `find` of notes"):
            await notes.find(provider="rest", user=user)

    async def test_it_needs_a_user(self, memory):
        notes = app_of(memory, before=[allow("admin")])
        with pytest.raises(NotAuthenticated):
            await notes.find(provider="rest")

    async def test_the_application_passes(self, memory):
        notes = app_of(memory, around=[allow("admin", field="role")])
        assert len(await notes.find()) == 3
        assert len(await notes.find(provider="rest", user={"role": "admin"})) == 3

    @pytest.mark.parametrize("roles", [(), (["admin"],), (None,)])
    def test_roles_are_named(self, roles):
        with pytest.raises(TypeError, match="allow takes the names of roles"):
            allow(*roles)


async def test_of_two_owners_one_wins():
    """The condition is part of the statement: what is read before does not count."""

    class Busy(MemoryService):
        async def remove(self, id, params=None):
            assert params.before["userId"] == 7
            await self.patch(1, {"userId": 8})
            return await super().remove(id, params)

    notes = app_of(Busy([{"id": 1, "userId": 7}]), before={"remove": [only_own(), stash_before()]})
    with pytest.raises(NotFound):
        await notes.remove(1, ADA)


class TestUsersOfAnotherName:
    """An authentication service with ``entity="account"`` puts the user into `params.account`."""

    @pytest.fixture
    async def app(self, memory):
        app = App().use("users", MemoryService([{"id": 7, "role": "admin"}])).use("notes", memory)
        service = AuthenticationService(
            app, secret="s" * 32, entity="account", strategies=["jwt"], throttle=False
        )
        await app.use("authentication", service).setup()
        yield app
        await app.teardown()

    async def test_it_is_named(self, app):
        notes = app.service("notes").hooks(
            around=[authenticate("jwt"), set_owner(entity="account")],
            before=[
                only_own(entity="account"),
                allow("admin", field="role", entity="account"),
                rate_limit(3, window=60, by="user", entity="account"),
            ],
        )
        token = app.service("authentication").service.create_access_token({}, "7")
        params = {
            "provider": "rest",
            "authentication": {"strategy": "jwt", "accessToken": token},
        }
        assert [note["id"] for note in await notes.find(params)] == [1]
        assert (await notes.create({"text": "mine"}, params))["userId"] == 7
        with pytest.raises(NotFound):
            await notes.remove(2, params)
        with pytest.raises(NotAuthenticated):
            await notes.find(provider="rest", user={"id": 7, "role": "admin"})
        assert (await notes.create({"text": "ours"}, account={"id": 7}))["userId"] == 7
        assert "userId" not in await notes.create({"text": "ours"}, user={"id": 7})
        for _ in range(2):
            await notes.find(params)
        with pytest.raises(TooManyRequests):
            await notes.find(params)

    @pytest.mark.parametrize("make", [only_own, set_owner])
    async def test_an_id_that_is_not_there_is_told_with_its_name(self, memory, make):
        notes = app_of(memory, before=[make(entity="account", of="key")])
        with pytest.raises(RuntimeError, match=r"params\.account has no 'key'"):
            await notes.create({}, provider="rest", account={"id": 7})
            await notes.find(provider="rest", account={"id": 7})

    @pytest.mark.parametrize(
        "make",
        [
            only_own,
            set_owner,
            lambda **options: allow("admin", **options),
            lambda **options: rate_limit(1, window=60, by="user", **options),
        ],
    )
    def test_the_name_is_checked(self, make):
        with pytest.raises(TypeError, match="takes names of properties"):
            make(entity=None)
        with pytest.raises(ValueError, match="cannot be the name"):
            make(entity="params.account")
