"""The example chat over HTTP: what its hooks let through, and what they refuse.

Everything is tried with the chat in memory and with the chat in a MongoDB.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time

import httpx2
import pytest
from argon2 import PasswordHasher
from examples.chat.app import make_app
from examples.chat.services import EMOJI, Messages
from pymongo import AsyncMongoClient
from tests.express.serving import living

from alula.authentication import HashedPassword

# Its services, sign-in and hooks have tests of their own, which try all versions of packages.
pytestmark = pytest.mark.slow

REACT = {"X-Service-Method": "react"}

NO_TEXTS = [None, "", "   ", "\n\t", 0, 1, True, 1.5, [], ["a"], {}, {"a": 1}]
GONE = "6b0000000000000000000000"
PASSWORD = "correct horse"
# Made once: each hash takes a tenth of a second.
HASHED = HashedPassword(PasswordHasher(1, 8, 1).hash(PASSWORD))
NO_MESSAGES = [None, True, 1.5, "", "x", 99, 10**30, [], [1], {}, {"$ne": None}, GONE]


@pytest.fixture(scope="module", params=["memory", "mongodb"])
async def database(request):
    """Where the chats keep what they have: None for their memory."""
    if request.param == "memory":
        yield None
        return
    url = request.getfixturevalue("mongodb_url")
    async with AsyncMongoClient(url) as client:
        yield client.example_chat
        await client.drop_database("example_chat")


@pytest.fixture
async def empty(database):
    """The same, after everything was removed from it."""
    if database is not None:
        for collection in (database.users, database.messages):
            await collection.delete_many({})
    return database


@pytest.fixture
async def app(empty):
    """A new chat that is set up."""
    app = make_app(empty)
    async with living(app):
        yield app


@pytest.fixture
async def chat(app):
    """A client of the chat."""
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://chat.example") as client:
        client.headers["Accept"] = "application/json"
        yield client


async def user_of(app, name):
    """Store a user; return the record as others see it, and the headers of who is signed in."""
    user = await app.service("users").create({"name": name, "password": HASHED})
    user = json.loads(json.dumps({"name": name, "_id": user["_id"]}, default=str))
    tokens = app.service("authentication").service
    token = tokens.create_access_token({}, str(user["_id"]))
    return user, {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def zoe(app, chat):
    """A user, who is signed in."""
    user, headers = await user_of(app, "Zoë")
    chat.headers.update(headers)
    return user


@pytest.fixture
async def ben(app):
    """The headers of another user."""
    _, headers = await user_of(app, "Ben")
    return headers


@pytest.fixture
async def message(chat, zoe):
    """A message of that user."""
    return created(await chat.post("/messages", json={"text": "Hello"}))


def created(answer):
    assert answer.status_code == 201, answer.text
    return answer.json()


def refused(answer, status, name=None):
    """Assert that an answer is a clear error of this status; return its message."""
    error = answer.json()
    assert (answer.status_code, error["code"]) == (status, status), answer.text
    assert error["message"]
    if name is not None:
        assert list(error["errors"]) == [name]
    return error["message"]


# -- what is there at the beginning ---------------------------------------------------------------


async def test_describes_itself(chat):
    description = (await chat.get("/openapi.json")).json()
    assert description["info"]["title"] == "Chat"
    assert {"/users", "/messages/{id}", "/authentication"} <= description["paths"].keys()
    assert (await chat.get("/docs", headers={"Accept": "text/html"})).status_code == 200


async def test_a_new_chat_says_hello(chat):
    page = (await chat.get("/messages")).json()
    assert page["total"] == 1
    assert page["data"][0]["user"]["name"] == "Alula"
    assert page["data"][0]["text"].startswith("Welcome!")


async def test_each_chat_in_memory_has_one_of_its_own(chat, message):
    other = make_app()
    assert (await other.service("users").find())["total"] == 0
    assert (await chat.get("/users")).json()["total"] == 2


async def test_a_chat_in_a_database_is_there_again(database, app, message):
    again = make_app(database)
    async with living(again):
        messages = await again.service("messages").find()
        users = await again.service("users").find()
    assert [each["text"][:7] for each in messages["data"]] == (
        ["Welcome"] if database is None else ["Welcome", "Hello"]
    )
    assert users["total"] == messages["total"]


async def test_there_is_no_other_place_to_count_reactions():
    with pytest.raises(NotImplementedError):
        await Messages().count(1, "👍")


async def test_the_page_and_its_parts_are_served(chat):
    page = await chat.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "<title>Alula chat</title>" in page.text
    assert (await chat.get("/chat.js")).headers["content-type"].startswith("text/javascript")
    assert (await chat.get("/style.css")).headers["content-type"].startswith("text/css")


@pytest.mark.parametrize("path", ["/app.py", "/../app.py", "/%2e%2e/app.py", "/..%2fapp.py"])
async def test_nothing_else_is_served(chat, path):
    refused(await chat.get(path), 404)


async def test_what_is_not_there_is_named(chat):
    assert refused(await chat.get("/nowhere?a=1"), 404) == "Page not found: /nowhere?a=1"


# -- users ----------------------------------------------------------------------------------------


def account(**more):
    return {"name": "Zoë", "password": PASSWORD, **more}


def login(**more):
    return {"strategy": "local", **account(**more)}


async def test_who_registers_can_sign_in_and_talk(chat):
    user = created(await chat.post("/users", json=account()))
    answer = created(await chat.post("/authentication", json=login()))
    assert answer["user"] == user
    headers = {"Authorization": f"Bearer {answer['accessToken']}"}
    message = created(await chat.post("/messages", json={"text": "Hi"}, headers=headers))
    assert message["user"] == user
    assert (await chat.delete("/authentication", headers=headers)).json()["user"] == user


async def test_a_user_has_a_name_and_nothing_else_that_was_sent(chat):
    sent = account(name="  Zoë  ", _id=77, admin=True, roles=["admin"], **{"$set": {"x": 1}})
    user = created(await chat.post("/users", json=sent))
    assert user.keys() == {"name", "_id"}
    assert (user["name"], user["_id"] != 77) == ("Zoë", True)
    assert (await chat.get(f"/users/{user['_id']}")).json() == user


async def test_no_password_is_shown(app, chat, message):
    for path in ("/users", "/users?$select[]=password", "/messages", "/messages?$select[]=userId"):
        answer = await chat.get(path)
        assert answer.json()["total"] == 2
        assert "password" not in answer.text
        assert "argon2" not in answer.text
    kept = await app.service("users").find(query={"name": "Zoë"})
    assert kept["data"][0]["password"].startswith("$argon2id$")


@pytest.mark.parametrize("more", [{"password": "wrong one"}, {"name": "zoe"}, {"name": "Alula"}])
async def test_who_is_somebody_else_is_refused(chat, zoe, more):
    assert refused(await chat.post("/authentication", json=login(**more)), 401) == "Invalid login"


async def test_guessing_is_slowed_down(app, chat, zoe):
    statuses = []
    for _ in range(11):
        wrong = login(password="a wrong one")
        answer = app.service("authentication").create(wrong, provider="rest", ip="192.0.2.1")
        statuses += await asyncio.gather(answer, return_exceptions=True)
    assert [error.code for error in statuses] == [401] * 10 + [429]


SPELLINGS = ["Zoë", " Zoë ", "ZOË", "zoë", "Zoe\u0308", "\uff3aoë", "Zo\u00adë"]


@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_name_is_taken_once(chat, zoe, name):
    refused(await chat.post("/users", json=account(name=name)), 409, "name")
    assert (await chat.get("/users?$limit=0")).json()["total"] == 2


async def test_the_name_of_the_guide_is_taken(chat):
    refused(await chat.post("/users", json=account(name="alula")), 409, "name")


@pytest.mark.parametrize("name", SPELLINGS)
async def test_a_name_is_the_same_however_it_is_written(chat, zoe, name):
    answer = created(await chat.post("/authentication", json=login(name=name)))
    assert answer["user"] == zoe


async def test_of_many_who_register_at_once_one_gets_the_name(chat):
    registrations = [chat.post("/users", json=account(name=name)) for name in SPELLINGS]
    answers = await asyncio.gather(*registrations)
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201] + [409] * (len(SPELLINGS) - 1)
    assert (await chat.get("/users?$limit=0")).json()["total"] == 2


@pytest.mark.parametrize("name", [*NO_TEXTS, "x" * 31])
async def test_a_bad_name_is_refused(chat, name):
    answer = await chat.post("/users", json=account(name=name))
    assert refused(answer, 400, "name") == "name must be a text of 1 to 30 characters"


@pytest.mark.parametrize("password", [*NO_TEXTS, "x" * 7])
async def test_a_bad_password_is_refused(chat, password):
    answer = await chat.post("/users", json=account(password=password))
    assert refused(answer, 400, "password") == "password must be a text of 8 characters or more"


@pytest.mark.parametrize("body", [{}, [], [{"name": "a"}], {"Name": "a"}, {"name": "a"}])
async def test_a_user_without_name_and_password_is_refused(chat, body):
    refused(await chat.post("/users", json=body), 400)
    assert (await chat.get("/users")).json()["total"] == 1


async def test_the_longest_name_is_taken(chat):
    assert created(await chat.post("/users", json=account(name="é" * 30)))["name"] == "é" * 30


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_users_stay_as_they_are(chat, zoe, method):
    for path in (f"/users/{zoe['_id']}", "/users"):
        refused(await chat.request(method, path, json={"name": "Bob"}), 405)
    assert (await chat.get(f"/users/{zoe['_id']}")).json() == zoe


# -- messages -------------------------------------------------------------------------------------


async def test_a_message_gets_its_time_and_its_user(chat, zoe):
    before = time.time() * 1000 - 1
    sent = {"text": " Hi <b> ", "userId": 1, "createdAt": 1, "reactions": {"👍": 9}, "_id": 7}
    message = created(await chat.post("/messages", json=sent))
    assert before < message.pop("createdAt") <= time.time() * 1000
    assert message.pop("_id")
    assert message == {"text": "Hi <b>", "userId": zoe["_id"], "reactions": {}, "user": zoe}


async def test_messages_go_out_with_their_users(chat, message, zoe):
    assert (await chat.get(f"/messages/{message['_id']}")).json() == message
    found = (await chat.get("/messages?$sort[createdAt]=-1&$sort[_id]=-1&$limit=1")).json()
    assert found == {"total": 2, "limit": 1, "skip": 0, "data": [message]}
    assert (await chat.delete(f"/messages/{message['_id']}")).json()["user"] == zoe


async def test_a_message_without_its_user_id_goes_out_without_its_user(chat, message):
    found = await chat.get(f"/messages/{message['_id']}?$select[]=text")
    assert found.json() == {"text": "Hello", "_id": message["_id"]}


async def test_a_list_of_messages_goes_out_with_its_users(app, message):
    found = await app.service("messages").find(paginate=False)
    assert [each["user"]["name"] for each in found] == ["Alula", "Zoë"]


async def test_users_stay_out_of_what_is_kept(app, message):
    kept = app.service("messages").service
    assert [each for each in await kept.find({"paginate": False}) if "user" in each] == []


@pytest.mark.parametrize("text", [*NO_TEXTS, "x" * 501])
async def test_a_bad_text_is_refused(chat, zoe, text):
    answer = await chat.post("/messages", json={"text": text})
    assert refused(answer, 400, "text") == "text must be a text of 1 to 500 characters"


async def test_the_longest_text_is_taken(chat, zoe):
    sent = {"text": "é" * 500}
    assert created(await chat.post("/messages", json=sent))["text"] == "é" * 500


async def test_only_who_is_signed_in_says_something(chat, message):
    del chat.headers["Authorization"]
    path = f"/messages/{message['_id']}"
    reaction = {"id": message["_id"], "emoji": "👍"}
    for answer in (
        await chat.post("/messages", json={"text": "Hi", "userId": message["userId"]}),
        await chat.post("/messages", json=reaction, headers=REACT),
        await chat.patch(path, json={"text": "New"}),
        await chat.delete(path),
    ):
        refused(answer, 401)
    assert (await chat.get(path)).json() == message


async def test_only_the_own_messages_can_be_changed(chat, message, ben):
    path = f"/messages/{message['_id']}"
    for answer in (
        await chat.patch(path, json={"text": "New"}, headers=ben),
        await chat.delete(path, headers=ben),
    ):
        refused(answer, 404)  # the query finds messages of the caller alone
    assert (await chat.get(path)).json() == message
    assert (await chat.delete(path)).status_code == 200


async def test_everybody_reacts_to_everything(chat, message, ben):
    reaction = {"id": message["_id"], "emoji": "👍"}
    answer = await chat.post("/messages", json=reaction, headers=REACT | ben)
    assert answer.json()["reactions"] == {"👍": 1}


async def test_an_edit_changes_the_text_and_nothing_else(chat, message, zoe):
    sent = {"text": " New ", "userId": 1, "_id": 9, "reactions": {"👍": 9}, "createdAt": 0, "x": 1}
    answer = await chat.patch(f"/messages/{message['_id']}", json=sent)
    edited = answer.json()
    assert edited.pop("editedAt") >= message["createdAt"]
    assert edited == {**message, "text": "New", "user": zoe}
    kept = (await chat.get(f"/messages/{message['_id']}")).json()
    assert {**edited, "editedAt": kept["editedAt"]} == kept


@pytest.mark.parametrize("text", [*NO_TEXTS, "x" * 501])
async def test_an_edit_to_a_bad_text_is_refused(chat, message, text):
    path = f"/messages/{message['_id']}"
    refused(await chat.patch(path, json={"text": text}), 400, "text")
    assert (await chat.get(path)).json() == message


async def test_a_removed_message_is_not_found(chat, message):
    path = f"/messages/{message['_id']}"
    assert (await chat.delete(path)).status_code == 200
    for answer in (
        await chat.get(path),
        await chat.patch(path, json={"text": "New"}),
        await chat.delete(path),
    ):
        refused(answer, 404)


async def test_many_at_a_time_are_refused(chat, message):
    refused(await chat.post("/messages", json=[{"text": "a"}]), 400)
    refused(await chat.patch("/messages", json={"text": "all"}), 405)
    refused(await chat.delete("/messages"), 405)
    assert (await chat.get("/messages")).json()["total"] == 2


async def test_messages_are_not_replaced(chat, message):
    for path in ("/messages", f"/messages/{message['_id']}"):
        answer = await chat.put(path, json={"text": "New"})
        refused(answer, 405)
        assert "PUT" not in answer.headers["allow"]


# -- reactions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("emoji", EMOJI)
async def test_reactions_are_counted(chat, message, emoji):
    for count in (1, 2):
        sent = {"id": message["_id"], "emoji": emoji, "count": 9}
        answer = await chat.post("/messages", json=sent, headers=REACT)
        assert answer.json() == {**message, "reactions": {emoji: count}}
    assert (await chat.get(f"/messages/{message['_id']}")).json()["reactions"] == {emoji: 2}


async def test_reactions_at_the_same_time_are_all_counted(chat, message):
    sent = {"id": message["_id"], "emoji": "🎉"}
    await asyncio.gather(*(chat.post("/messages", json=sent, headers=REACT) for _ in range(20)))
    assert (await chat.get(f"/messages/{message['_id']}")).json()["reactions"] == {"🎉": 20}


async def test_a_reaction_is_no_edit(chat, message):
    sent = {"id": message["_id"], "emoji": "😂"}
    answer = await chat.post("/messages", json=sent, headers=REACT)
    assert "editedAt" not in answer.json()


@pytest.mark.parametrize(
    "emoji", [None, "", "x", "👎", "👍👍", 1, ["👍"], {"a": "👍"}, "__proto__"]
)
async def test_an_unknown_emoji_is_refused(chat, message, emoji):
    sent = {"id": message["_id"], "emoji": emoji}
    answer = await chat.post("/messages", json=sent, headers=REACT)
    assert refused(answer, 400) == "emoji must be one of 👍 ❤️ 😂 🎉"


@pytest.mark.parametrize("body", [[], [{"id": 1, "emoji": "👍"}], {}, {"id": 1}])
async def test_a_reaction_without_an_emoji_is_refused(chat, zoe, body):
    refused(await chat.post("/messages", json=body, headers=REACT), 400)


@pytest.mark.parametrize("id", NO_MESSAGES)
async def test_a_reaction_to_no_message_is_refused(chat, zoe, id):
    answer = await chat.post("/messages", json={"id": id, "emoji": "👍"}, headers=REACT)
    refused(answer, 400 if id is None else 404)


@pytest.mark.parametrize("method", ["find", "update", "setup", "service", "_react", "React", "x"])
async def test_no_other_method_can_be_called(chat, message, method):
    answer = await chat.post("/messages", json={}, headers={"X-Service-Method": method})
    refused(answer, 405)


async def test_users_have_no_reactions(chat, zoe):
    sent = {"id": zoe["_id"], "emoji": "👍"}
    refused(await chat.post("/users", json=sent, headers=REACT), 405)


# -- limits ---------------------------------------------------------------------------------------


async def test_pages_have_50_records_and_200_at_most(chat):
    for path in ("/messages", "/users"):
        assert (await chat.get(path)).json()["limit"] == 50
        assert (await chat.get(f"{path}?$limit=1000")).json()["limit"] == 200


async def test_a_page_of_messages_costs_one_look_at_the_users(app, chat, zoe, caplog):
    for _ in range(5):
        created(await chat.post("/messages", json={"text": "Hi"}))
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="chat"):
        await chat.get("/messages")
    assert [record.args[:3] for record in caplog.records] == [
        ("users", "find", "ok"),
        ("messages", "find", "ok"),
    ]


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
async def test_a_body_over_100_kb_is_refused(chat, kind):
    body = f"text={'x' * 102_400}" if "form" in kind else json.dumps({"text": "x" * 102_400})
    answer = await chat.post("/messages", content=body, headers={"Content-Type": kind})
    refused(answer, 413)


async def test_a_form_is_taken_too(chat, zoe):
    assert created(await chat.post("/users", data=account(name="Form")))["name"] == "Form"
    assert created(await chat.post("/messages", data={"text": "Hi"}))["user"] == zoe


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"name": "\\ud800"}',
        b'{"name": "a", "n": 1e999}',
        b"[" * 5000,
        b'{"a":' * 5000,
    ],
)
@pytest.mark.parametrize("path", ["/users", "/messages"])
async def test_a_hostile_body_is_refused(chat, path, body):
    for headers in ({}, REACT):
        answer = await chat.post(
            path, content=body, headers={"Content-Type": "application/json", **headers}
        )
        assert 400 <= answer.status_code < 500, answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "query",
    ["$limit=-1", "$sort[text]=up", "text[$where]=1", "$or=1", "text[$regex]=.", "$where=1"],
)
async def test_a_hostile_query_is_refused(chat, query):
    refused(await chat.get(f"/messages?{query}"), 400)


# -- the log --------------------------------------------------------------------------------------


async def test_each_call_is_logged_with_its_outcome_and_duration(chat, zoe, caplog):
    with caplog.at_level(logging.INFO, logger="chat"):
        await chat.get(f"/users/{zoe['_id']}")
        await chat.get("/users/99")
    lines = [record.getMessage() for record in caplog.records if record.name == "chat"]
    assert [line.split()[:3] for line in lines] == [
        ["users", "get", "ok"],
        ["users", "get", "NotFound"],
    ]
    assert all(line.endswith(" ms") and float(line.split()[3]) >= 0 for line in lines)
