"""The value of a hidden property is never sent, however own code copies the record."""

from __future__ import annotations

import copy
import hmac
import json
import logging
import pickle

import httpx2
import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from sqlalchemy import JSON, Column, Float, Integer, LargeBinary, MetaData, Table, Text

from alula import App
from alula._channels import Event
from alula._json_encoding import dumps, dumps_with_attachments
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.authentication import protect
from alula.express import error_handler, express, rest
from alula.logs._formatters import JsonFormatter
from alula.outgoing import HiddenValue, RedactedRecord, public_part
from alula.outgoing._redaction import HiddenValueError
from alula.realtime import socketio
from alula.realtime._bus._codec import decode_event, encode_event, read_header
from alula.schema import hidden, resolve, with_schema
from alula.testing import RealtimeClient

SECRETS = {
    "password": "hash-of-it",
    "key": b"\x00key",
    "pin": 1234,
    "salary": 1.5,
    "notes": ["private-note"],
    "address": {"street": "private-street"},
}
USER = {"id": 1, "name": "Ada", **SECRETS}
LEAKS = ("hash-of-it", "AGtleQ", "1234", "1.5", "private")


def redacted():
    return RedactedRecord(USER, {"id": 1, "name": "Ada"})


def by_protect(app):
    app.use("users", MemoryService([USER]))
    app.service("users").hooks(around=[protect(*SECRETS)])


def by_schema(app):
    properties = {name: {} for name in USER}
    app.use(
        "users", with_schema(MemoryService([USER]), {"properties": properties}, hidden=[*SECRETS])
    )


def by_resolver(app):
    schema = {"properties": {name: {} for name in USER}}
    external = resolve(dict.fromkeys(SECRETS, hidden))
    app.use("users", with_schema(MemoryService([USER]), schema, external=external))


WAYS = {
    "unpacked": lambda user: {**user},
    "dict": dict,
    "in a list": lambda user: [{**user}],
    "nested": lambda user: {"user": {"of": [{**user}]}},
    "merged": lambda user: {"a": 1} | dict(user),
    "items": lambda user: dict(user.items()),
    "copied": lambda user: copy.deepcopy({**user}),
    "pickled": lambda user: pickle.loads(pickle.dumps({**user})),  # our own
    "one value": lambda user: {"value": user["password"]},
    "bytes": lambda user: {"value": user["key"]},
    "integer": lambda user: {"value": user["pin"]},
    "float": lambda user: {"value": user["salary"]},
    "list": lambda user: {"value": user["notes"]},
    "object": lambda user: {"value": user["address"]},
    "key": lambda user: {user["password"]: 1},
    "tuple": lambda user: (user["password"],),
}


@pytest.fixture(params=[by_protect, by_schema, by_resolver])
def web(request):
    """Makes an application whose service `mine` copies users in one of these ways."""

    def make(way):
        class Mine:
            async def find(self, params):
                return WAYS[way](await app.service("users").get(1))

            async def create(self, data, params):
                result = WAYS[way](await app.service("users").get(1))
                return result[0] if isinstance(result, tuple) else result

        app = express(App())
        app.configure(rest())
        app.configure(socketio())
        request.param(app)
        app.use("mine", Mine())
        app.service("mine").publish(lambda *_: app.channel("all"))
        app.on("connection", lambda connection: app.channel("all").join(connection))
        app.use(error_handler())
        return app

    return make


@pytest.mark.parametrize("way", WAYS)
async def test_no_copy_is_sent_over_rest(web, caplog, way):
    transport = httpx2.ASGITransport(web(way))
    async with httpx2.AsyncClient(transport=transport, base_url="http://a") as client:
        response = await client.get("/mine")
    assert response.status_code == 500
    assert not any(leak in response.text for leak in LEAKS)
    logged = caplog.text
    assert "is the hidden property" in logged
    assert not any(leak in logged for leak in LEAKS)


@pytest.mark.parametrize("way", ["unpacked", "nested", "one value"])
async def test_no_copy_is_sent_over_sockets(web, caplog, way):
    async with RealtimeClient(web(way)) as client, RealtimeClient(web("unpacked")):
        with pytest.raises(Exception, match=r"^(?!.*hash-of-it)") as caught:
            await client.call("create", "mine", {})
        assert getattr(caught.value, "code", None) == 500
        assert client.events == []
    assert "hidden property 'password'" in caplog.text
    assert not any(leak in caplog.text for leak in LEAKS)


async def test_the_record_itself_is_sent_without_them(web):
    transport = httpx2.ASGITransport(web("unpacked"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://a") as client:
        assert (await client.get("/users/1")).json() == {"id": 1, "name": "Ada"}


def test_encoders_name_the_property_and_its_place():
    with pytest.raises(TypeError, match=r"value\['user'\]\['password'\] cannot be sent: it is the"):
        dumps({"user": {**redacted()}})
    with pytest.raises(TypeError, match="hidden property 'key'"):
        dumps_with_attachments({"key": redacted()["key"]}, [])
    with pytest.raises(TypeError, match="hidden property 'password'"):
        dumps({redacted()["password"]: 1})
    assert dumps(redacted()) == b'{"id":1,"name":"Ada"}'


def test_a_mask_hides_the_value_behind_it():
    record = RedactedRecord({"mail": "ada@a.b", "same": "x" * 5}, {"mail": "a***", "same": "x" * 5})
    assert isinstance(record["mail"], HiddenValue)
    assert not isinstance(record["same"], HiddenValue)
    # What a hook has put in place of the whole record hides all of it.
    assert isinstance(RedactedRecord({"mail": "a"}, "Ada")["mail"], HiddenValue)


def test_own_code_uses_the_values():
    user = redacted()
    assert user == USER
    assert user["password"] == "hash-of-it"
    assert hmac.compare_digest(user["password"], "hash-of-it")
    assert hmac.compare_digest(user["key"], b"\x00key")
    assert {user["password"]: 1}["hash-of-it"] == 1
    assert f"Your code: {user['pin']}, {user['salary']}" == "Your code: 1234, 1.5"
    assert f"{user['password']}, {user['notes']}, {user['address']}" == (
        "hash-of-it, ['private-note'], {'street': 'private-street'}"
    )
    assert "".join([user["password"], "!"]) == "hash-of-it!"
    assert user["pin"] + 1 == 1235
    assert user["address"]["street"] == "private-street"
    assert [type(value) for value in map(str, (user["pin"], user["password"]))] == [str, str]
    assert json.loads(json.dumps({"password": user["password"]})) == {"password": "hash-of-it"}


def test_values_without_a_form_to_hide_stay():
    record = RedactedRecord({"admin": True, "none": None}, {})
    assert record["admin"] is True
    assert record["none"] is None


def test_a_repr_shows_nothing():
    shown = repr({**redacted()})
    assert shown.startswith("{'id': 1, 'name': 'Ada', 'password': <hidden: password>")
    assert not any(leak in shown for leak in LEAKS)


@pytest.mark.parametrize("value", [redacted(), {**redacted()}, redacted()["password"]])
def test_a_log_of_json_shows_nothing(value):
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "Hi", (), None)
    record.created = record.msecs = 0.0  # the time of now may have what looks like a value
    record.user = value
    line = JsonFormatter().format(record)
    assert not any(leak in line for leak in LEAKS)


def test_a_bus_keeps_them_hidden():
    data = {"user": {**redacted()}}
    event = Event("mine", "created", data, data)
    decoded = decode_event(read_header(encode_event(event)))
    assert decoded.record == data
    with pytest.raises(TypeError, match="hidden property 'password'"):
        dumps(decoded.record)
    whole = Event("users", "created", redacted(), redacted().public)
    assert decode_event(read_header(encode_event(whole))).record == USER


def test_changes_of_a_record_keep_them_hidden():
    user = redacted() | {"online": True}
    assert public_part(user) == {"id": 1, "name": "Ada", "online": True}
    changed = user.changed({**user, "password": "other"})
    for record in (user, user.copy(), changed, copy.deepcopy(user)):
        assert isinstance(record["password"], HiddenValue)
    assert changed["password"] == "other"


@pytest.fixture(params=["memory", "mongodb", "sqlite"])
async def service(request, tmp_path):
    """A service on each store, with a user."""
    if request.param == "memory":
        yield MemoryService([USER])
    elif request.param == "mongodb":
        url = request.getfixturevalue("mongodb_url")
        async with AsyncMongoClient(url) as client:
            collection = client["alula_hidden"][f"c{ObjectId()}"]
            await collection.insert_one(dict(USER))
            yield MongoDBService(collection, id="id")
            await collection.drop()
    else:
        database = Database(f"sqlite:///{tmp_path}/users.sqlite")
        columns = [
            Column("id", Integer, primary_key=True),
            Column("name", Text),
            Column("password", Text),
            Column("key", LargeBinary),
            Column("pin", Integer),
            Column("salary", Float),
            Column("notes", JSON),
            Column("address", JSON),
        ]
        service = SQLService(Table("users", MetaData(), *columns), database)
        await database.create()
        await service.create(USER)
        yield service
        await database.close()


async def test_a_copy_is_written_back(service):
    app = App()
    app.use("users", service)
    await app.setup()
    users = app.service("users").hooks(around=[protect(*SECRETS)])
    user = await users.get(1)
    for data in (user, {**user}, {"name": "Ada", "password": user["password"]}):
        await users.patch(1, data)
    await users.update(1, {**user})
    stored = await service.get(1)
    stored.pop("_id", None)
    assert stored == USER
    assert not any(isinstance(value, HiddenValue) for value in stored.values())
    assert [found["id"] for found in await users.find(query={"password": user["password"]})] == [1]
    query = {"pin": {"$in": [user["pin"]]}, "salary": {"$gte": user["salary"]}}
    assert len(await users.find(query=query)) == 1
    assert (await users.get(user["id"]))["name"] == "Ada"


async def test_a_copy_within_another_record_is_not_stored(service):
    app = App()
    app.use("users", service)
    await app.setup()
    users = app.service("users").hooks(around=[protect(*SECRETS)])
    user = await users.get(1)
    for data in ({"notes": [{**user}]}, {"address": {"of": {"password": user["password"]}}}):
        with pytest.raises(HiddenValueError, match="hidden property"):
            await users.patch(1, data)
    await users.patch(1, {"address": user})
    assert (await service.get(1))["address"].keys() == {"id", "name", "_id"} & user.keys()
