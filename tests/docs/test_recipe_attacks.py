"""Attacks on the recipes of the pages: people copy them, so they are safe as they are printed.

Each test runs the code of its page, and attacks what that has made. So a recipe that is changed is
attacked as it is then.
"""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.docs.test_code_blocks import FILE, blocks_of
from tests.express.asgi_client import call, post_json

from alula import App, HookContext, Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    FrameworkError,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    TooManyRequests,
)
from alula.outgoing import public_part
from alula.testing import RealtimeClient

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
KIND = {"content-type": "application/json"}


@cache
def run_page(
    name: str, *, block: str = "", without: str | None = None, until: str | None = None
) -> dict[str, Any]:
    """Run the code of a page, and return what it has defined.

    Args:
        name: The name of the page.
        block: A text in the one block that is run; empty for all blocks.
        without: A line that is left out, such as one that ends the application.
        until: A text in the first block that is left out, with all that follow it.
    """
    namespace: dict[str, Any] = {"__name__": "documentation"}
    seen = set()
    blocks = blocks_of((DOCS / name).read_text(encoding="utf-8"))
    if block:
        (only,) = (each for each in blocks if block in each.code)
        blocks = [only]
    for line, code, _ in blocks:
        if until is not None and until in code:
            seen.add(until)
            break
        if without is not None and without in code:
            seen.add(without)
        kept = code if without is None else code.replace(without, "")
        # Pages have no `from __future__ import annotations`, which this module would hand on.
        exec(compile("\n" * line + kept, name, "exec", dont_inherit=True), namespace)
    assert seen == {text for text in (without, until) if text is not None}, "the page has changed"
    return namespace


async def refusal(call: Any) -> type[FrameworkError] | None:
    """Return the type of the error that a call raises, None for a call that succeeds."""
    try:
        await call
    except FrameworkError as error:
        return type(error)
    return None


class TestAuthentication:
    @pytest.fixture
    def page(self):
        return run_page("authentication.md")

    @pytest.fixture
    async def people(self, page):
        """The headers of Ada, and of Eve, who has just registered."""
        app = page["app"]
        users = app.service("users")
        if not await users.find(query={"email": "eve@example.com"}):
            eve = {"email": "eve@example.com", "password": "of Eve alone", "id": 9}
            made = await post_json(
                app, {**eve, "role": "admin", "certificate": "x", "roles": ["a"]}, "/users"
            )
            assert made.status == 201
        (record,) = await users.find(query={"email": "eve@example.com"})
        token = app.service("authentication").service.create_access_token
        ada, eve = ({"authorization": f"Bearer {token({}, str(n))}"} for n in (0, record["id"]))
        return ada, eve, record

    async def test_nobody_reaches_the_account_of_another(self, page, people):
        app, (_, eve, _) = page["app"], people
        before = await app.service("users").get(0)
        stolen = json.dumps({"email": "ada@example.com", "password": "of Eve now"}).encode()
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            body = stolen if method in {"PUT", "PATCH"} else None
            for query in ("", "?email=ada@example.com", "?id=0"):
                answer = await call(app, method, f"/users/0{query}", body, {**KIND, **eve})
                assert answer.status == 404
                assert (await call(app, method, f"/users/0{query}", body, KIND)).status == 401
        found = (await call(app, url="/users?email=ada@example.com", headers=eve)).json
        assert found == []
        assert await app.service("users").get(0) == before

    async def test_nobody_chooses_a_role_or_a_certificate(self, page, people):
        app, (_, eve, record) = page["app"], people
        assert record.keys() == {"id", "email", "password"}
        body = json.dumps({"role": "admin", "certificate": "mine"}).encode()
        url = f"/users/{record['id']}"
        assert (await call(app, "PATCH", url, body, {**KIND, **eve})).status == 200
        assert (await app.service("users").get(record["id"])).keys() == {"id", "email", "password"}
        headers = {"x-client-certificate": "mine"}
        assert (await call(app, url="/status", headers=headers)).status == 401

    async def test_nobody_takes_an_address_twice(self, page):
        data = {"email": "ada@example.com", "password": "of Eve alone"}
        assert (await post_json(page["app"], data, "/users")).status == 409

    async def test_nobody_reaches_the_notes_of_another(self, page, people):
        app, (ada, eve, _) = page["app"], people
        made = await post_json(app, {"text": "of Ada", "ownerId": 9}, "/notes", ada)
        assert made.json["ownerId"] == 0
        url = f"/notes/{made.json['id']}"
        body = b'{"text":"of Eve","ownerId":9}'
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            answer = await call(
                app, method, url, body if method[0] == "P" else None, {**KIND, **eve}
            )
            assert answer.status == 404
        assert (await call(app, url="/notes", headers=eve)).json == []
        for method in ("PUT", "PATCH"):
            assert (await call(app, method, url, body, {**KIND, **ada})).json["ownerId"] == 0

    async def test_the_database_has_no_key(self, page):
        machines, key = page["machines"], page["api_key"]
        (stored,) = await machines.service("credentials").find(query={"kind": "key"})
        secret = key.split("_")[2]
        assert secret not in json.dumps(stored, default=str)
        # What somebody reads in the database is not a key.
        for wrong in (stored["secret"], stored["id"], key.replace(secret, stored["secret"][:43])):
            headers = {"authorization": f"ApiKey {wrong}"}
            assert (await call(machines, url="/export", headers=headers)).status == 401

    async def test_a_sign_up_is_no_way_around(self, page):
        app = page["app"]
        data = {"email": "dan@example.com", "password": "of Dan alone", "role": "admin", "id": 0}
        made = await post_json(app, data, "/sign-up")
        assert made.json["user"].keys() == {"id", "email"}
        assert "role" not in await app.service("users").get(made.json["user"]["id"])
        taken = {"email": "ada@example.com", "password": "of Dan alone"}
        assert (await post_json(app, taken, "/sign-up")).status == 409
        for more in ({}, {"user_id": 0}, {"user": {"id": 0}}):
            data = {"strategy": "application", **more}
            assert (await post_json(app, data, "/authentication")).status == 401

    async def test_users_of_the_other_application_are_closed(self, page):
        assert page["pages"].service("users").methods == ()


class TestSessions:
    @pytest.fixture
    def page(self):
        return run_page("sessions.md")

    async def test_users_are_closed_but_for_registration(self, page):
        for app in ("app", "private", "people"):
            assert page[app].service("users").methods == ("create",)

    async def test_nobody_chooses_a_role_or_sees_a_hash(self, page):
        data = {"email": "mallory@example.com", "password": "of Mallory", "role": "admin"}
        context = await self.create(page, "app", data)
        assert context.dispatch.keys() == {"id", "email"}
        assert "role" not in context.result

    @pytest.mark.parametrize(
        "name", ["Ada", "\uff21DA", " ada ", "\u00ad", "", None, ["Ada"], "x" * 101, "\ufdfa" * 9]
    )
    async def test_one_account_per_name(self, page, name):
        people = page["people"]
        if not await people.service("users").find(query={"nameKey": "ada"}):
            await self.create(page, "people", {"name": "ADA", "password": "a" * 8})
        with pytest.raises((Conflict, BadRequest)):
            data = {"name": name, "nameKey": "other", "password": "of Eve alone"}
            await self.create(page, "people", data)

    async def create(self, page, app, data):
        users = page[app].service("users")
        context = HookContext(page[app], users, "create", Params(provider="rest"), data=data)
        await users.run(context)
        return context


# A text in the block of each service of the page.
COMMON_HOOKS = {
    "notes": "timestamps()], before=[only_own",
    "news": "editors = allow(",
    "files": "before=[soft_delete()]",
    "users": 'keep("email", "address.town")',
    "articles": "iff(every(",
    "pages": "params_from_client(",
}


class TestCommonHooks:
    @pytest.fixture
    def page(self):
        """The service of each block, by its name; and two people."""
        found = {
            name: run_page("common-hooks.md", block=text) for name, text in COMMON_HOOKS.items()
        }
        services = {name: page[name] for name, page in found.items()}
        return {**services, "ada": found["notes"]["ada"], "bob": found["notes"]["bob"]}

    async def test_nobody_reaches_or_guesses_the_notes_of_another(self, page):
        notes, ada, bob = page["notes"], page["ada"], page["bob"]
        note = await notes.create({"text": "pear", "userId": 8}, ada)
        for query in ({}, {"text": {"$gt": "m"}}, {"text": {"$lt": "m"}}, {"userId": 7}):
            for data in ({"text": "x"}, {"text": "x", "userId": 8}, {"userId": 8}):
                for method in ("update", "patch"):
                    changing = notes.call(method, note["id"], data, {**bob, "query": query})
                    assert await refusal(changing) is NotFound
            assert await refusal(notes.get(note["id"], {**bob, "query": query})) is NotFound
            assert await refusal(notes.remove(note["id"], {**bob, "query": query})) is NotFound
        assert (await notes.update(note["id"], {"text": "y", "userId": 8}, ada))["userId"] == 7

    async def test_readers_change_no_news(self, page):
        news, reader = page["news"], {"provider": "rest", "user": {"role": "reader"}}
        made = await news.create({"text": "of the editor"})
        for changing in (
            news.create({"text": "x"}, reader),
            news.update(made["id"], {"text": "x"}, reader),
            news.patch(made["id"], {"text": "x"}, reader),
            news.remove(made["id"], reader),
        ):
            assert await refusal(changing) is Forbidden

    async def test_nobody_sees_what_is_deleted(self, page):
        files, client = page["files"], {"provider": "rest"}
        made = await files.create({"name": "secret.txt"})
        await files.remove(made["id"])
        for reading in (
            files.get(made["id"], client),
            files.patch(made["id"], {"deletedAt": None}, client),
            files.update(made["id"], {"deletedAt": None}, client),
            files.remove(made["id"], client),
        ):
            assert await refusal(reading) is NotFound
        assert await files.find({**client, "query": {"deletedAt": {"$gt": 0}}}) == []

    async def test_nobody_changes_an_address_or_a_role(self, page):
        users, client = page["users"], {"provider": "rest"}
        made = await users.create({"email": "a@example.com", "role": "admin"}, client)
        assert "role" not in made
        for data in ({"email": "eve@example.com"}, {"role": "admin"}, {"email.x": 1}):
            assert await refusal(users.patch(made["id"], data, client)) is BadRequest
            assert await refusal(users.update(made["id"], data, client)) is BadRequest
        assert (await users.get(made["id"]))["email"] == "a@example.com"

    @pytest.mark.parametrize("provider", ["rest", "socketio", "sse"])
    async def test_a_condition_holds_for_each_transport(self, page, provider):
        drafting = page["articles"].create({"draft": True}, provider=provider)
        assert await refusal(drafting) is Forbidden

    async def test_clients_set_only_what_is_named(self, page):
        for given in ({"user": {"id": 1}}, {"provider": None}, {"language": "no", "user": 1}):
            setting = page["pages"].find(query={"$client": given}, provider="rest")
            assert await refusal(setting) is BadRequest


class TestChannels:
    @pytest.fixture
    def page(self):
        return run_page("channels-cookbook.md", without="asyncio.run(try_it())")

    @pytest.fixture
    async def app(self, page):
        app = page["app"]
        await app.setup()
        users = app.service("users")
        if not await users.find():
            for number, name in enumerate(("ann", "bob", "eve"), 1):
                account = {"email": f"{name}@example.com", "password": "correct horse"}
                tenant = "blue" if name == "eve" else "red"
                made = await users.create({"name": name, "tenant": tenant, **account})
                assert made["id"] == number
        yield app
        await app.teardown()

    async def sign_in(self, client, name):
        account = {"email": f"{name}@example.com", "password": "correct horse"}
        await client.call("create", "authentication", {"strategy": "local", **account})

    async def heard(self, client, app):
        """Return the events that a client got until now; the last call brings its own."""
        await app.service("letters").create({"from": 3, "to": 3, "text": "the end"})
        events = []
        while True:
            event = await client.next_event()
            if event.data.get("text") == "the end":
                return events
            if not event.name.startswith("presence "):  # for everyone who is signed in
                events.append(event.data)

    async def test_who_is_not_in_a_room_reads_and_writes_nothing(self, app):
        async with RealtimeClient(app) as ann, RealtimeClient(app) as eve:
            await self.sign_in(ann, "ann")
            await self.sign_in(eve, "eve")
            await ann.call("enter", "rooms", {"room": 1})
            await ann.call("create", "messages", {"room": 1, "text": "for members"})
            calls = [
                ("enter", "rooms", {"room": 1}),
                ("create", "messages", {"room": 1, "text": "of Eve"}),
                ("create", "messages", {"text": "of Eve"}),
                ("tell", "typing", {"room": 1}),
            ]
            for call in calls:
                assert await refusal(eve.call(*call)) is Forbidden
            queries = [{}, {"room": 1}, {"$or": [{"room": 1}]}, {"$and": [{"room": 1}]}]
            for query in queries:
                assert await eve.call("find", "messages", query) == []
            assert len(await ann.call("find", "messages", {"room": 1})) == 1
            assert await self.heard(eve, app) == []

    async def test_a_letter_has_its_true_sender_and_one_reader(self, app):
        async with RealtimeClient(app) as bob, RealtimeClient(app) as eve:
            await self.sign_in(bob, "bob")
            await self.sign_in(eve, "eve")
            letter = {"from": 1, "to": 2, "text": "Your password, please"}
            await eve.call("create", "letters", letter)
            assert (await bob.next_event("letters created")).data["from"] == 3
            await eve.next_event("letters created")  # her own
            await bob.call("create", "letters", {"from": 3, "to": 1, "text": "Psst"})
            assert await self.heard(eve, app) == []

    @pytest.mark.parametrize("host", ["red.example", "blue.example", "localhost"])
    async def test_a_tenant_is_that_of_the_user(self, app, host):
        async with RealtimeClient(app, headers={"host": host}) as eve:
            assert await refusal(eve.call("find", "invoices")) is NotAuthenticated
            await self.sign_in(eve, "eve")
            invoices = app.service("invoices")
            red = await invoices.create({"tenant": "red", "euro": 5})
            assert await eve.call("find", "invoices", {"tenant": "red"}) == []
            for method, *data in (("get",), ("remove",), ("patch", {}), ("update", {})):
                reading = eve.call(method, "invoices", red["id"], *data, {"tenant": "red"})
                assert await refusal(reading) is NotFound
            made = await eve.call("create", "invoices", {"tenant": "red", "euro": 6})
            assert made["tenant"] == "blue"
            for method in ("patch", "update"):
                changed = await eve.call(method, "invoices", made["id"], {"tenant": "red"})
                assert changed["tenant"] == "blue"
            tenants = [event["tenant"] for event in await self.heard(eve, app)]
            assert set(tenants) == {"blue"}

    async def test_nobody_chooses_a_tenant_or_reaches_an_account(self, app):
        client = {"provider": "rest"}
        users = app.service("users")
        data = {"name": "Mallory", "email": "m@example.com", "password": "x" * 8, "tenant": "red"}
        if not await users.find(query={"email": "m@example.com"}):
            made = await users.create(data, client)
            assert "tenant" not in await users.get(made["id"])
        assert users.methods == ("find", "get", "create")
        for reading in (users.find(client), users.get(1, client)):
            assert await refusal(reading) is NotAuthenticated
        async with RealtimeClient(app) as eve:
            assert await refusal(eve.call("find", "presence")) is NotAuthenticated
            assert await refusal(eve.call("create", "orders", {})) is NotAuthenticated
            await self.sign_in(eve, "eve")
            assert await refusal(eve.call("get", "users", 1)) is NotFound
            assert [user["name"] for user in await eve.call("find", "users")] == ["eve"]
            assert await refusal(eve.call("patch", "users", 1, {})) is MethodNotAllowed


class TestSQL:
    @pytest.fixture
    def page(self):
        return run_page("sql-cookbook.md", until="run(app.teardown())")

    def test_a_tenant_reaches_only_its_own(self, page):
        page["run"](self.attack(page["app"].service("posts")))
        page["run"](page["app"].teardown())
        page["runner"].close()

    async def attack(self, posts):
        bob = {"provider": "rest", "user": {"id": 2}}
        of_ada = next(post for post in (await posts.find())["data"] if post["authorId"] == 1)
        for query in ({}, {"title": {"$gt": "A"}}, {"authorId": 1}, {"author.name": "Ada"}):
            given = {**bob, "query": query}
            for attack in (
                posts.get(of_ada["id"], given),
                posts.remove(of_ada["id"], given),
                posts.patch(of_ada["id"], {"title": "x"}, given),
                posts.update(of_ada["id"], {"title": "x", "authorId": 2}, given),
            ):
                assert await refusal(attack) is NotFound
            found = (await posts.find(given))["data"]
            assert all(post["authorId"] == 2 for post in found)
        made = await posts.create({"title": "of Bob", "authorId": 1}, bob)
        assert made["authorId"] == 2
        for method in ("patch", "update"):
            data = {"title": "of Bob", "authorId": 1}
            assert (await posts.call(method, made["id"], data, bob))["authorId"] == 2
        await posts.patch(None, {"body": "of Bob"}, bob)
        assert (await posts.get(of_ada["id"])) == of_ada
        await posts.remove(None, {**bob, "query": {"body": {"$ne": "x"}, "title": "of Bob"}})
        assert (await posts.get(of_ada["id"])) == of_ada


class TestSecurity:
    @pytest.fixture
    def page(self):
        return run_page("security.md")

    async def test_nobody_reaches_the_notes_of_another(self, page):
        notes, ann, bob = page["notes"], *({"provider": "rest", "user": {"id": n}} for n in (7, 8))
        note = await notes.create({"text": "of Ann", "ownerId": 8}, ann)
        assert note["ownerId"] == 7
        for query in ({}, {"ownerId": 7}, {"$or": [{"ownerId": 7}]}, {"text": {"$gt": "m"}}):
            given = {**bob, "query": query}
            for attack in (
                notes.get(note["id"], given),
                notes.update(note["id"], {"text": "x"}, given),
                notes.patch(note["id"], {"ownerId": 8}, given),
                notes.remove(note["id"], given),
            ):
                assert await refusal(attack) is NotFound
            assert (await notes.find(given))["data"] == []
        assert (await notes.patch(note["id"], {"ownerId": 8}, ann))["ownerId"] == 7


class TestChat:
    @pytest.fixture
    def page(self):
        return run_page("chat.md")

    async def test_nobody_writes_in_the_name_of_another(self, page):
        app = page["make_chat"]()
        await app.setup()
        users, messages = app.service("users"), app.service("messages")
        ann = await users.create({"name": "Ann", "password": "correct horse"})
        eve = await users.create({"name": "Eve", "password": "correct horse"})
        for name in ("ANN", "\uff21nn", " ann ", "\u00ad", ""):
            data = {"name": name, "password": "correct horse", "nameKey": "other"}
            assert await refusal(users.create(data, provider="rest")) in {Conflict, BadRequest}
        token = app.service("authentication").service.create_access_token
        of_ann, of_eve = (
            {
                "provider": "rest",
                "authentication": {"strategy": "jwt", "accessToken": token({}, user_id)},
            }
            for user_id in (str(ann["id"]), str(eve["id"]))
        )
        made = await messages.create({"text": "of Ann", "userId": eve["id"]}, of_ann)
        assert made["userId"] == ann["id"]
        for attack in (
            messages.patch(made["id"], {"text": "of Eve"}, of_eve),
            messages.remove(made["id"], of_eve),
        ):
            assert await refusal(attack) is NotFound
        changed = await messages.patch(made["id"], {"userId": eve["id"], "reactions": {}}, of_ann)
        assert (changed["userId"], changed["text"]) == (ann["id"], "of Ann")
        assert await refusal(messages.create({"text": "x"}, provider="rest")) is NotAuthenticated
        answer = await call(app, url="/users")
        assert "password" not in answer.text
        assert "nameKey" not in answer.text
        await app.teardown()


class TestRecipes:
    @pytest.fixture
    def page(self):
        return run_page("recipes.md", until="def send_mail")

    async def test_others_see_what_is_published_and_no_more(self, page):
        app = page["app"]
        await app.setup()
        draft = await app.service("articles").create({"title": "A draft", "notes": "not yet"})
        published = app.service("published")
        assert published.methods == ("find", "get")
        for query in (
            {},
            {"isPublished": False},
            {"isPublished": {"$ne": True}},
            {"$or": [{"isPublished": False}, {"id": draft["id"]}]},
        ):
            given = {"provider": "rest", "query": query}
            assert await published.find(given) == []
            assert await refusal(published.get(draft["id"], given)) is NotFound
        for query in ({"notes": "not yet"}, {"$sort": {"notes": 1}}, {"$select": ["notes"]}):
            given = {"provider": "rest", "query": query}
            assert await refusal(published.find(given)) is BadRequest
        await app.teardown()


class TestAccounts:
    @pytest.fixture
    def page(self):
        return run_page("accounts.md")

    async def test_nobody_reaches_the_account_of_another(self, page):
        app = page["app"]
        users = app.service("users")
        eve = {"email": "eve@example.com", "password": "correct horse"}
        await users.create(eve, dict(page["client"]))
        sign_in = {"strategy": "local", **eve}
        result = await app.service("authentication").create(sign_in, dict(page["client"]))
        bearer = {"strategy": "jwt", "accessToken": result["accessToken"]}
        given = {**page["client"], "authentication": bearer}
        ada = page["user"]["id"]
        for attack in (
            users.get(ada, given),
            users.patch(ada, {"password": "battery staple"}, given),
            users.remove(ada, given),
        ):
            assert await refusal(attack) is NotFound
        assert [user["email"] for user in await users.find(given)] == ["eve@example.com"]
        changed = await users.patch(result["user"]["id"], {"role": "admin"}, given)
        assert "role" not in changed


class TestResolvers:
    @pytest.fixture
    def messages(self):
        return run_page("resolvers.md", block="def own_id(")["app"].service("messages")

    @pytest.fixture
    def users(self):
        """Users whose password is hidden."""
        page = run_page("resolvers.md", block='resolve({"password": hidden})')
        return page["app"].service("users")

    @pytest.fixture
    def notes(self):
        return run_page("resolvers.md", block="def own_notes(")["app"].service("notes")

    async def test_nobody_writes_in_the_name_of_another(self, messages):
        given = {"provider": "rest", "user": {"id": 1}}
        made = await messages.create({"text": "x", "userId": 7}, given)
        assert made["userId"] == 1
        assert await refusal(messages.create({"text": "x"}, provider="rest")) is BadRequest
        assert messages.methods == ("find", "get", "create")

    @pytest.mark.parametrize(
        "query",
        [
            {"password": {"$gt": "s"}},
            {"$or": [{"password": "secret"}]},
            {"$and": [{"$or": [{"password": {"$ne": "x"}}]}]},
            {"$sort": {"password": 1}},
            {"$select": ["password"]},
        ],
    )
    async def test_nobody_guesses_a_password(self, users, query):
        plain = await users.find(provider="rest")
        try:
            found = await users.find(query=query, provider="rest")
        except BadRequest:
            return
        assert "secret" not in json.dumps(public_part(found))
        # The query says nothing of the password: it selects all, in their order.
        assert [user["id"] for user in found] == [user["id"] for user in plain]

    def test_users_are_not_changed(self, users):
        assert users.methods == ("find", "get")

    async def test_a_stranger_finds_no_notes(self, notes):
        for query in ({}, {"userId": 1}, {"userId": {"$gt": 0}}, {"$or": [{"userId": 1}]}):
            assert await notes.find(query=query, provider="rest") == []
            assert await refusal(notes.get(1, query=query, provider="rest")) is NotFound
        assert notes.methods == ("find", "get", "patch")


class TestExtending:
    @pytest.fixture
    async def app(self):
        page: dict[str, Any] = {"__name__": "documentation"}
        files = dict(FILE.findall((DOCS / "extending.md").read_text(encoding="utf-8")))
        exec(files["code_strategy.py"], page)
        assert "methods=[])  # clients could read" in files["tests/test_code_strategy.py"]
        self.new_code = page["new_code"]
        app = App().use("users", MemoryService(start_id=1), methods=[])
        secret = "thirty-two random bytes at least"
        authentication = AuthenticationService(app, secret=secret, strategies=["jwt", "code"])
        authentication.register("code", page["CodeStrategy"]())
        app.use("authentication", authentication)
        for name in ("ada", "eve"):
            await app.service("users").create({"email": f"{name}@example.com"})
        await app.setup()
        yield app
        await app.teardown()

    async def sign_in(self, app, code, email="ada@example.com", **more):
        credentials = {"strategy": "code", "email": email, "code": code, **more}
        return await app.service("authentication").create(credentials, provider="rest")

    async def test_one_of_two_uses_at_once_succeeds(self, app):
        code = await self.new_code(app.service("users"), 1)
        results = await asyncio.gather(
            *(refusal(self.sign_in(app, code)) for _ in range(5)),
        )
        assert sorted(results, key=str) == [NotAuthenticated] * 4 + [None]

    async def test_a_code_is_for_one_account_and_some_time(self, app):
        users = app.service("users")
        code = await self.new_code(users, 1)
        assert await refusal(self.sign_in(app, code, "eve@example.com")) is NotAuthenticated
        await users.patch(1, {"codeUntil": 1})
        assert await refusal(self.sign_in(app, code)) is NotAuthenticated

    @pytest.mark.parametrize("email", [{"$gt": ""}, ["ada@example.com"], None, 5])
    async def test_an_address_is_no_query(self, app, email):
        code = await self.new_code(app.service("users"), 1)
        assert await refusal(self.sign_in(app, code, email)) in {NotAuthenticated, BadRequest}

    async def test_codes_are_not_guessed_nor_sent(self, app):
        code = await self.new_code(app.service("users"), 1)
        result = public_part(await self.sign_in(app, code))
        assert {"codeHash", "codeUntil"}.isdisjoint(result["user"])
        await self.new_code(app.service("users"), 1)
        refused = [await refusal(self.sign_in(app, f"{n:08}")) for n in range(30)]
        assert TooManyRequests in refused


class TestFromFeathersJS:
    @pytest.fixture
    async def app(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        page = run_page("from-feathersjs.md", without="asyncio.run(talk())")
        folder = tmp_path / "files"
        folder.mkdir()
        settings = page["Settings"](
            host="localhost",
            port=0,
            public=str(folder),
            origins=["http://localhost"],
            paginate={"default": 10, "max": 50},
            sqlite={"connection": str(tmp_path / "chat.sqlite")},
            authentication={"secret": "of thirty-two characters or more"},
        )
        app = page["make_chat"](settings)
        await app.setup()
        for name in ("ada", "bob"):
            data = {"email": f"{name}@example.com", "password": "a long one"}
            await app.service("users").create(data, provider="rest")
        yield app
        await app.teardown()

    def params(self, app, user_id):
        token = app.service("authentication").service.create_access_token({}, str(user_id))
        return {
            "provider": "rest",
            "authentication": {"strategy": "jwt", "accessToken": token},
        }

    async def test_nobody_reaches_the_messages_of_another(self, app):
        messages, ada, bob = app.service("messages"), self.params(app, 1), self.params(app, 2)
        made = await messages.create({"text": "x", "userId": 2, "createdAt": 5}, ada)
        assert (made["userId"], made["createdAt"] > 5) == (1, True)
        for attack in (
            messages.get(made["id"], bob),
            messages.patch(made["id"], {"text": "y"}, bob),
            messages.remove(made["id"], bob),
        ):
            assert await refusal(attack) is NotFound
        assert "update" not in messages.methods
        assert (await messages.patch(made["id"], {"userId": 2}, ada))["userId"] == 1
        assert await refusal(messages.find(provider="rest")) is NotAuthenticated

    async def test_nobody_reaches_the_account_of_another(self, app):
        users, bob = app.service("users"), self.params(app, 2)
        for attack in (
            users.get(1, bob),
            users.patch(1, {"password": "mine"}, bob),
            users.remove(1, bob),
        ):
            assert await refusal(attack) is NotFound
        assert await refusal(users.patch(2, {"email": "ada@example.com"}, bob)) is Conflict
        data = {"email": "ada@example.com", "password": "mine"}
        assert await refusal(users.create(data, provider="rest")) is Conflict

    async def test_nobody_sees_or_guesses_a_hash(self, app):
        users, bob = app.service("users"), self.params(app, 2)
        found = await users.find(bob)
        assert all("password" not in public_part(user) for user in found["data"])
        for query in ({"password": {"$gt": "$"}}, {"$sort": {"password": 1}}):
            assert await refusal(users.find({**bob, "query": query})) is BadRequest


def test_nobody_fills_the_stock_by_an_order():
    page = (DOCS / "mongodb.md").read_text(encoding="utf-8")
    recipe = page[page.index("async def take(") :].partition("\n\n\n")[0]
    namespace: dict[str, Any] = {"HookContext": object, "BadRequest": BadRequest}
    exec(recipe, namespace)
    for count in (-100, 0, 1.5, True, "1", None):
        context = SimpleNamespace(data={"what": "plums", "count": count})
        with pytest.raises(BadRequest, match="a whole number from 1 on"):
            namespace["take"](context).send(None)
