"""Records before a change, params of clients, checks of data, lines in the log."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.common_hooks.conftest import ADA, app_of
from tests.waiting import settle

from alula import App
from alula.adapters.memory import MemoryService
from alula.common_hooks import (
    debug,
    iff,
    only_own,
    params_from_client,
    soft_delete,
    stash_before,
    validate,
)
from alula.errors import BadRequest, NotFound
from alula.query import ValidatedQuery
from alula.schema import with_schema


class TestStashBefore:
    async def test_each_store_returns_it(self, notes):
        seen = []
        notes.hooks(
            before={method: [stash_before()] for method in ("update", "patch", "remove", "create")},
            after=[lambda context: seen.append(context.params.get("before"))],
        )
        await notes.create({"id": 1, "text": "a", "votes": 1})
        await notes.patch(1, {"text": "b"}, ADA)
        await notes.update(1, {"text": "c"}, query={"$select": ["id"], "text": "b"}, **ADA)
        await notes.remove(1)
        # Between these are the results of the calls of `get`.
        texts = [record and record["text"] for record in seen]
        assert texts == [None, None, "a", None, "b", None, "c"]

    async def test_of_several_it_is_none(self, memory):
        seen = []
        notes = app_of(
            memory,
            before=[stash_before("old")],
            after={"remove": [lambda context: seen.append(context.params.old)]},
        )
        await notes.remove(None)
        assert seen == [None]

    @pytest.mark.parametrize(
        "hooks",
        [[only_own(), stash_before()], [stash_before(), only_own()]],
        ids=["behind", "before"],
    )
    async def test_it_is_found_by_the_query_of_the_call(self, memory, hooks):
        seen = []
        notes = app_of(
            memory,
            before=hooks,
            error={"patch": [lambda context: seen.append(context.params.before)]},
        )
        with pytest.raises(NotFound):
            await notes.patch(2, {"text": "x"}, ADA)
        assert seen == [None]

    async def test_before_hooks_do_not_have_it_yet(self, memory):
        seen = []
        notes = app_of(
            memory,
            before={"patch": [stash_before(), lambda context: seen.append(dict(context.params))]},
        )
        await notes.patch(1, {"text": "x"}, ADA)
        assert "before" not in seen[0]

    async def test_a_removal_that_only_marks_has_it_too(self, memory):
        seen = []
        notes = app_of(
            memory,
            before=[soft_delete(), stash_before(), stash_before("old")],
            after={"remove": [lambda context: seen.append(context.params)]},
        )
        await notes.remove(1, ADA)
        assert seen[0].before == seen[0].old == {"id": 1, "text": "Hello", "userId": 7}

    async def test_under_a_condition(self, memory):
        seen = []
        notes = app_of(
            memory,
            before=[iff(lambda context: context.params.ip is not None, stash_before())],
            after={"patch": [lambda context: seen.append(context.params.get("before"))]},
        )
        await notes.patch(1, {"text": "x"}, ADA)
        await notes.patch(1, {"text": "y"}, ip="192.0.2.1", **ADA)
        assert seen == [None, {"id": 1, "text": "x", "userId": 7}]

    async def test_of_another_application_its_guards_count(self, memory):
        seen = []
        inner = App().use("notes", memory)
        inner.service("notes").hooks(before=[only_own()])
        notes = App().use("notes", inner.service("notes")).service("notes")
        note_it = lambda context: seen.append(context.params.before)  # noqa: E731  # twice below
        notes.hooks(before=[stash_before()], after={"patch": [note_it]}, error=[note_it])
        await notes.patch(1, {"text": "x"}, ADA)
        with pytest.raises(NotFound):
            await notes.patch(2, {"text": "x"}, ADA)
        assert seen == [{"id": 1, "text": "Hello", "userId": 7}, None]

    async def test_it_takes_part_in_the_transaction(self):
        seen = []

        class Own:
            async def get(self, id, params):
                seen.append((params.sql, params.docdb, params.provider, params.tenant))
                return {"id": id}

            async def patch(self, id, data, params):
                return data

        def add(context):
            context.params.sql = {"connection": 5, "lock": True}
            context.params.docdb = {"upsert": True}
            context.params.tenant = "a"

        notes = app_of(Own(), before={"patch": [add, stash_before()]})
        await notes.patch(1, {}, ADA)
        assert seen == [({"connection": 5}, None, None, "a")]

    def test_the_name_is_free(self):
        for name in ("user", "query", "provider", "authenticated", "authenticated_by"):
            with pytest.raises(ValueError, match="has a meaning of its own"):
                stash_before(name)
        with pytest.raises(TypeError, match="stash_before takes names of params, not ''"):
            stash_before("")


class TestParamsFromClient:
    @pytest.fixture
    def locales(self, memory):
        seen = []

        def look(context):
            seen.append((context.params.get("locale"), dict(context.params.query)))

        notes = app_of(memory, around=[params_from_client("locale", "zone")], before=[look])
        return notes, seen

    async def test_they_are_set(self, locales):
        notes, seen = locales
        query = {"$client": {"locale": "de"}, "id": 1}
        await notes.find(query=query, **ADA)
        await notes.find(ADA)
        assert seen == [("de", {"id": 1}), (None, {})]
        assert query["$client"] == {"locale": "de"}

    @pytest.mark.parametrize("given", ["de", ["de"], None, {"user": {"id": 1}}, {"provider": None}])
    async def test_others_are_refused(self, locales, given):
        notes, _ = locales
        with pytest.raises(BadRequest, match=r"Invalid value for \$client"):
            await notes.find(query={"$client": given}, **ADA)

    async def test_what_the_server_has_set_stays(self, memory):
        def look(context):
            assert context.params.tenant == "ours"

        def set_tenant(context):
            context.params.tenant = "ours"

        notes = app_of(memory, before=[set_tenant, params_from_client("tenant"), look])
        await notes.find(query={"$client": {"tenant": "theirs"}}, **ADA)

    async def test_the_application_has_no_client(self, locales):
        notes, _ = locales
        with pytest.raises(BadRequest, match=r"\$client"):
            await notes.find(query={"$client": {"locale": "de"}})

    async def test_schemas_check_the_query_behind_it(self):
        schema = {"properties": {"text": {"type": "string"}}}
        notes = app_of(with_schema(MemoryService(), schema), around=[params_from_client("a")])
        assert await notes.find(query={"$client": {"a": 1}, "text": "x"}, **ADA) == []

    async def test_a_checked_query_stays_checked(self, memory):
        def check(context):
            context.params.query = ValidatedQuery({"$client": {}}, ["$regex"], ["$client"])

        def look(context):
            assert type(context.params.query) is ValidatedQuery

        notes = app_of(memory, before=[check, params_from_client("a"), look])
        assert len(await notes.find(ADA)) == 3

    def test_names_are_checked(self):
        with pytest.raises(TypeError, match="params_from_client takes names"):
            params_from_client()
        with pytest.raises(TypeError, match="takes names of params, not 5"):
            params_from_client(5)
        for name in (
            "user",
            "authentication",
            "authenticated",
            "provider",
            "sql",
            "ip",
            "keeps_session",
            "renews_password",
            "with_deleted",
        ):
            with pytest.raises(ValueError, match=f"params.{name} has a meaning of its own"):
                params_from_client("locale", name)


class TestValidate:
    async def test_errors_are_told_by_property(self, memory):
        def check(data):
            return {} if data.get("text") else {"text": "is missing"}

        notes = app_of(memory, before={"create": [validate(check)]})
        assert await notes.create([{"text": "x"}, {"text": "y"}])
        for data in ({}, [{"text": "x"}, {}]):
            with pytest.raises(BadRequest, match="The data is not valid") as caught:
                await notes.create(data, ADA)
            assert caught.value.errors == {"text": "is missing"}

    async def test_functions_may_be_asynchronous_and_take_the_context(self, memory):
        async def check(data, context):
            await asyncio.sleep(0)
            return {"user": "is unknown"} if context.params.get("user") is None else None

        notes = app_of(memory, before={"create": [validate(check)]})
        assert await notes.create({}, ADA)
        with pytest.raises(BadRequest):
            await notes.create({})

    async def test_a_value_error_is_a_bad_request(self, memory):
        def check(data):
            raise ValueError("too long")

        notes = app_of(memory, before={"create": [validate(check)]})
        with pytest.raises(BadRequest, match="too long"):
            await notes.create({})

    async def test_other_values_are_a_mistake(self, memory):
        notes = app_of(memory, before={"create": [validate(lambda data: True)]})
        with pytest.raises(TypeError, match="returned True; return what is wrong by property"):
            await notes.create({})

    async def test_data_is_an_object(self, memory):
        notes = app_of(memory, before={"create": [validate(lambda data: None)]})
        with pytest.raises(BadRequest, match="must be an object"):
            await notes.create("x", ADA)

    @pytest.mark.parametrize("check", [5, None, lambda: None, lambda a, b, c: None])
    def test_it_takes_a_function(self, check):
        with pytest.raises(TypeError, match="function of"):
            validate(check)


class TestDebug:
    async def test_a_line_for_each_call(self, memory, caplog):
        caplog.set_level(logging.DEBUG, "alula")
        app = App().use("notes", memory).hooks(around=[debug()])
        await app.service("notes").find(query={"text": "secret"})
        with pytest.raises(NotFound):
            await app.service("notes").get("secret", ADA)
        found, failed = caplog.messages
        assert found.startswith("notes find (server): ok in ")
        assert found.endswith(" ms")
        assert failed.startswith("notes get (rest): NotFound in ")
        assert "secret" not in caplog.text

    async def test_logger_and_level_are_chosen(self, memory, caplog):
        logger = logging.getLogger("shop.calls")
        notes = app_of(memory, around=[debug(logger, level=logging.INFO)])
        await notes.find()
        assert caplog.messages == []
        caplog.set_level(logging.INFO, "shop.calls")
        await notes.find()
        assert [(record.name, record.levelname) for record in caplog.records] == [
            ("shop.calls", "INFO")
        ]

    async def test_cancelled_calls_are_logged(self, caplog):
        class Slow:
            async def find(self, params):
                await asyncio.sleep(60)

        caplog.set_level(logging.DEBUG, "alula")
        task = asyncio.create_task(app_of(Slow(), around=[debug()]).find())
        await settle()
        task.cancel()
        await asyncio.wait([task])
        assert "CancelledError" in caplog.text
