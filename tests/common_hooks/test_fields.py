"""Which properties data and results have."""

from __future__ import annotations

import pytest
from tests.common_hooks.conftest import ADA, app_of

from alula import UNSET
from alula.adapters.memory import MemoryService
from alula.authentication import protect
from alula.common_hooks import discard, keep, prevent_changes
from alula.errors import BadRequest, NotFound
from alula.outgoing import RedactedRecord, public_part

RECORD = {
    "id": 1,
    "text": "x",
    "author": {"name": "Ada", "email": "a@b"},
    "tags": [{"a": 1, "b": 2}],
}


class Echo:
    """Returns the data that it gets."""

    async def create(self, data, params):
        return data

    async def patch(self, id, data, params):
        return data

    async def shout(self, data, params):
        return data


class TestData:
    @pytest.mark.parametrize(
        ("hook", "expected"),
        [
            (lambda: keep("text"), {"text": "x"}),
            (lambda: keep("author.name", "id"), {"id": 1, "author": {"name": "Ada"}}),
            (lambda: keep("author", "author.name"), {"author": RECORD["author"]}),
            (lambda: keep("author.name", "author"), {"author": RECORD["author"]}),
            (lambda: keep("tags.a", "text.more"), {"tags": [{"a": 1}]}),
            (lambda: discard("text", "id"), {"author": RECORD["author"], "tags": RECORD["tags"]}),
            (
                lambda: discard("author.email", "tags.b", "text.more"),
                {"id": 1, "text": "x", "author": {"name": "Ada"}, "tags": [{"a": 1}]},
            ),
        ],
    )
    async def test_it_is_reduced(self, hook, expected):
        service = app_of(Echo(), before={"create": [hook()]})
        assert await service.create(RECORD) == expected
        assert RECORD["author"]["email"] == "a@b"

    async def test_each_record_of_a_list(self):
        service = app_of(MemoryService(multi=True), before=[keep("text")])
        assert await service.create([{"text": "x", "a": 1}, {"text": "y"}]) == [
            {"text": "x", "id": 0}, {"text": "y", "id": 1},
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("hook", "data", "expected"),
        [
            (lambda: discard("role"), {"$set": {"role": 1, "a": 2}}, {"$set": {"a": 2}}),
            (lambda: discard("role"), {"$set": {"role": 1}, "role.x": 1, "b": 1}, {"b": 1}),
            (lambda: discard("role"), {"$set": {"role.x": 1, "roles": 1}}, {"$set": {"roles": 1}}),
            (lambda: discard("role"), {"$rename": {"a": "role", "role": "b", "c": "d"}},
             {"$rename": {"c": "d"}}),
            (lambda: discard("role"), {"$set": {}, "$odd": 5}, {"$set": {}, "$odd": 5}),
            (lambda: discard("user.role"), {"$set": {"user": {"role": 1, "a": 2}, "user.role": 1}},
             {"$set": {"user": {"a": 2}}}),
            (lambda: discard("user.role"), {"$set": {"user": 5}, "user.role.x": 1},
             {"$set": {"user": 5}}),
            (lambda: discard("users.role"), {"$pull": {"users": {"role": 1}}, "$inc": {"a": 1}},
             {"$inc": {"a": 1}}),
            (lambda: discard("user.role"), {"$rename": {"a": "user"}}, {}),
            (lambda: discard("items.secret"), {"items.0.secret": 1, "a": 2}, {"a": 2}),
            (lambda: discard("items.secret"), {"items.0.secret.x": 1, "a": 2}, {"a": 2}),
            (lambda: discard("items.secret"), {"items.0": {"secret": 1, "a": 2}},
             {"items.0": {"a": 2}}),
            (lambda: discard("items.secret"), {"items.0.1": [{"secret": 1, "a": 2}]},
             {"items.0.1": [{"a": 2}]}),
            (lambda: discard("items.secret"), {"$set": {"items.$[].secret": 1, "items.$.a": 2}},
             {"$set": {"items.$.a": 2}}),
            (lambda: discard("items.secret"), {"$set": {"items.0": {"secret": 1, "a": 2}}},
             {"$set": {"items.0": {"a": 2}}}),
            (lambda: discard("items.secret"), {"$min": {"items.0": {"secret": 1}, "b": 1}},
             {"$min": {"b": 1}}),
            (lambda: discard("items.secret"), {"$min": {"items.0.secret": 1, "items.0.a": 1}},
             {"$min": {"items.0.a": 1}}),
            (lambda: discard("items.5"), {"items.5": 1, "items.6": 2}, {"items.6": 2}),
            (lambda: keep("items.a"), {"items.0.a": 1, "items.0.b": 2, "items.1": {"a": 1, "b": 2}},
             {"items.0.a": 1, "items.1": {"a": 1}}),
            (lambda: keep("a"), {"$inc": {"a": 1, "b": 1}, "$set": {"b": 1}, "$odd": 5, "a.x": 1},
             {"$inc": {"a": 1}, "a.x": 1}),
            (lambda: keep("a"), {"$rename": {"a": "b"}, "$unset": {"a": ""}},
             {"$unset": {"a": ""}}),
        ],
    )  # fmt: skip
    async def test_update_operators_are_changes_too(self, hook, data, expected):
        service = app_of(Echo(), before={"patch": [hook()]})
        assert await service.patch(1, data) == expected

    async def test_of_create_a_dollar_is_part_of_a_name(self):
        service = app_of(Echo(), before={"create": [discard("role")]})
        assert await service.create({"$set": {"role": 1}}) == {"$set": {"role": 1}}

    async def test_of_a_custom_method(self):
        from alula import App

        app = App().use("echo", Echo(), methods=["shout"])
        echo = app.service("echo").hooks(before={"shout": [keep("text")]})
        assert await echo.shout({"text": "x", "a": 1}) == {"text": "x"}
        assert await echo.shout([{"text": "x", "a": 1}]) == [{"text": "x"}]
        assert await echo.shout() is None


class TestResults:
    @pytest.mark.parametrize("paginate", [None, {"default": 5}])
    async def test_each_record_is_reduced(self, paginate):
        service = MemoryService([RECORD], paginate=paginate)
        notes = app_of(service, after=[keep("id", "author.name")])
        expected = {"id": 1, "author": {"name": "Ada"}}
        found = await notes.find()
        assert (found["data"] if paginate else found) == [expected]
        assert await notes.get(1) == expected
        assert (await service.get(1))["text"] == "x"

    async def test_what_clients_get_is_reduced_too(self):
        notes = app_of(MemoryService([RECORD]), after=[protect("text"), discard("tags")])
        seen = []
        notes.around()(seen_by(seen))
        await notes.get(1)
        (result, dispatch) = seen[0]
        assert "tags" not in result
        assert dispatch == {"id": 1, "author": RECORD["author"]}

    async def test_a_redacted_record_stays_redacted(self):
        class Own:
            async def get(self, id, params):
                author = RedactedRecord(
                    {"name": "Ada", "hash": "x", "b": 1}, {"name": "Ada", "b": 1}
                )
                return RedactedRecord({"a": 1, "pin": 2, "author": author}, {"a": 1, "author": 0})

        own = app_of(Own(), after=[discard("author.b")])
        result = await own.get(1)
        assert result == {"a": 1, "pin": 2, "author": {"name": "Ada", "hash": "x"}}
        assert public_part(result)["a"] == 1
        assert "pin" not in public_part(result)
        assert "hash" not in str(public_part(result))

    async def test_what_is_no_record_stays(self):
        class Own:
            async def get(self, id, params):
                return [None, 5, "text"][id]

        own = app_of(Own(), after=[keep("a")])
        assert [await own.get(n) for n in range(3)] == [None, 5, "text"]


def seen_by(seen):
    async def look(context, next):
        await next()
        seen.append((context.result, context.dispatch))
        assert context.dispatch is not UNSET

    return look


@pytest.mark.parametrize("make", [keep, discard, prevent_changes])
def test_names_are_checked(make):
    with pytest.raises(TypeError, match=r"takes names of properties: \w+\('text'\)"):
        make()
    with pytest.raises(TypeError, match="one by one"):
        make(["text"])
    with pytest.raises(ValueError, match="cannot be the name of a property"):
        make("$set")
    with pytest.raises(ValueError, match="cannot be the name of a property"):
        make("a..b" if make is not prevent_changes else "a.b")


def test_they_work_before_or_after():
    with pytest.raises(TypeError, match="register it as before or after hook"):
        app_of(MemoryService(), around=[keep("a")])
    with pytest.raises(TypeError, match="register it as before hook"):
        app_of(MemoryService(), after=[prevent_changes("a")])


class TestPreventChanges:
    @pytest.mark.parametrize(
        "data",
        [
            {"userId": 8},
            {"userId": 7},
            {"userId.x": 8},
            {"text": "y", "$set": {"userId": 8}},
            {"$inc": {"userId": 1}},
            {"$rename": {"text": "userId"}},
            {"$unset": {"userId": ""}},
        ],
    )
    async def test_a_patch_that_names_one_is_refused(self, memory, data):
        notes = app_of(memory, before=[prevent_changes("userId", "email")])
        with pytest.raises(BadRequest, match="changes userId, which clients cannot") as caught:
            await notes.patch(1, data, ADA)
        assert caught.value.errors == {"userId": "cannot be changed"}

    async def test_or_is_ignored(self, notes, has_operators, updates_by_operators):
        notes.hooks(before=[prevent_changes("userId", discard=True)])
        await notes.create({"id": 1, "userId": 7, "votes": 1}, ADA)
        assert (await notes.patch(1, {"userId": 8, "votes": 2}, ADA))["userId"] == 7
        note = await notes.update(1, {"userId": 8, "votes": 3}, ADA)
        assert (note["userId"], note["votes"]) == (7, 3)
        if has_operators:
            note = await notes.patch(1, {"$inc": {"userId": 8, "votes": 1}}, ADA)
            assert (note["userId"], note["votes"]) == (7, 4)
        if updates_by_operators:
            note = await notes.update(1, {"$inc": {"userId": 8, "votes": 1}}, ADA)
            assert (note["userId"], note["votes"]) == (7, 5)

    async def test_an_update_keeps_what_is_stored(self, memory):
        notes = app_of(memory, before=[prevent_changes("userId")])
        assert (await notes.update(1, {"text": "y"}, ADA))["userId"] == 7
        assert (await notes.update(1, {"text": "y", "userId": 7}, ADA))["userId"] == 7
        for data in (
            {"userId": 8}, {"userId": None}, {"$inc": {"userId": 1}}, {"$inc": {}, "userId": 7},
        ):  # fmt: skip
            with pytest.raises(BadRequest, match="changes userId"):
                await notes.update(1, data, ADA)
        with pytest.raises(BadRequest, match="changes userId"):
            await notes.update(3, {"userId": 7}, ADA)
        with pytest.raises(NotFound):
            await notes.update(9, {"text": "y"}, ADA)

    async def test_the_application_passes(self, memory):
        notes = app_of(memory, before=[prevent_changes("userId")])
        assert (await notes.patch(1, {"userId": 8}))["userId"] == 8
        assert (await notes.create({"userId": 5}, ADA))["userId"] == 5
        assert (await notes.patch(1, {"text": "y"}, ADA))["text"] == "y"
