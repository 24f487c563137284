"""A hidden property leaves through no door, and no query finds it out, however it is hidden."""

from __future__ import annotations

from json import dumps as to_json

import pytest
from pydantic import BaseModel, SecretStr
from tests.express.asgi_client import call
from tests.files.forms import FORM, field_part, file_part, form
from tests.realtime.test_sse import Stream

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.relations import Relations, belongs_to, has_many
from alula.authentication import AuthenticationService, authenticate, protect
from alula.common_hooks import populate
from alula.errors import BadRequest, Conflict, FrameworkError
from alula.express import error_handler, express, json, rest
from alula.files import LocalFileStore, UploadService, multipart
from alula.outgoing import public_part
from alula.realtime import socketio, sse
from alula.schema import hidden, resolve, resolve_external, with_schema
from alula.testing import RealtimeClient

SECRET = "hash-of-it"


class Account(BaseModel):
    name: str = ""
    title: str = ""
    bossId: int | None = None  # noqa: N815  # as on the wire
    password: SecretStr | None = None


def schema(**password):
    """Return a schema for users and for files."""
    names = ("id", "name", "title", "type", "contentKey", "createdAt", "sha256")
    number = {"type": ["integer", "null"]}
    properties = {name: {} for name in names} | {"bossId": number, "size": number}
    return {"properties": {**properties, "password": {"type": "string", **password}}}


def with_hook(hooks):
    """Return what registers a service with hooks."""

    def register(app, path, service):
        app.use(path, service)
        app.service(path).hooks(hooks)

    return register


def with_model(model, **options):
    """Return what registers a service with a schema."""

    def register(app, path, service):
        given = model if path == "users" else schema(writeOnly=True)
        app.use(path, with_schema(service, given, **options))

    return register


SPELLINGS = {
    "protect around": with_hook({"around": [protect("password")]}),
    "protect after": with_hook({"after": [protect("password")]}),
    "resolve_external": with_hook({"around": [resolve_external(resolve({"password": hidden}))]}),
    "hidden=": with_model(schema(), hidden=["password"]),
    "external=": with_model(schema(), external=resolve({"password": hidden})),
    "a function": with_model(schema(), external=resolve({"password": lambda _: None})),
    "writeOnly": with_model(schema(writeOnly=True)),
    "SecretStr": with_model(Account),
}


@pytest.fixture(params=SPELLINGS.values(), ids=SPELLINGS)
async def app(request, tmp_path):
    app = express(App())
    app.use(json(), multipart())
    app.configure(rest()).configure(socketio()).configure(sse())
    users = [
        {"id": 1, "name": "Ada", "bossId": 2, "password": SECRET},
        {"id": 2, "name": "Bob", "bossId": None, "password": f"{SECRET} of Bob"},
    ]
    relations = {
        "boss": belongs_to("users", "bossId", filter=["name"]),
        "staff": has_many("users", "bossId"),
    }
    request.param(app, "users", MemoryService(users, multi=True, relations=relations))
    uploads = UploadService(LocalFileStore(tmp_path), MemoryService(), fields=["title", "password"])
    request.param(app, "files", uploads)
    notes = [{"id": 1, "userId": 1}, {"id": 2, "userId": 2}]
    author = belongs_to("users", "userId", filter=["name"])
    app.use("notes", MemoryService(notes, relations={"author": author}))
    app.service("notes").hooks(after=[populate({"writer": belongs_to("users", "userId")})])
    app.on("connection", lambda connection: app.channel("all").join(connection))
    app.publish(lambda data, context: app.channel("all"))
    app.use("own", Own(app))
    app.use(error_handler(logger=False))
    await app.setup()
    yield app
    await app.teardown()


class Own:
    """A service of the application that passes on users in forms of its own."""

    def __init__(self, app):
        self.app = app

    async def get(self, id, params):
        return {"users": [{"user": await self.app.service("users").get(id)}]}

    async def find(self, params):
        user = await self.app.service("users").get(1)
        raise Conflict("no", {"user": user}, errors={"all": [user]})


class Me:
    """A service that returns the user who calls it, in several forms."""

    async def find(self, params):
        return params.user

    async def get(self, id, params):
        return {"me": params.user, "all": [params.user], "copy": params.user.copy()}

    async def create(self, data, params):
        return {"by": params.user, **data}


BODY = {"name": "Cleo", "password": SECRET}


async def send(app, verb, path, body=None):
    """Send a request with a JSON body."""
    sent = b"" if body is None else to_json(body).encode()
    return await call(app, verb, path, sent, [("content-type", "application/json")])


async def test_responses(app):
    user = {**BODY, "bossId": 1}
    for verb, path, body in (
        ("GET", "/users", None),
        ("GET", "/users/1", None),
        ("POST", "/users", BODY),
        ("POST", "/users", [user, user]),
        ("PUT", "/users/1", user),
        ("PATCH", "/users/1", {"password": SECRET}),
        ("PATCH", "/users?bossId=1", {"password": SECRET}),
        ("DELETE", "/users/3", None),
        ("GET", "/users/1?$include=boss", None),
        ("GET", "/users?$include[]=boss.staff&$include[]=staff", None),
        ("GET", "/notes", None),
        ("GET", "/notes/1?$include=author", None),
        ("GET", "/notes?$include=author.boss", None),
        ("GET", "/notes?author.name=Ada", None),
        ("GET", "/own/1", None),
    ):
        answer = await send(app, verb, path, body)
        assert answer.status in (200, 201), (path, answer.text)
        assert SECRET not in answer.text, path
        assert '"password":"' not in answer.text, path
    answer = await call(app, "GET", "/own")
    assert answer.status == 409
    assert SECRET not in answer.text


@pytest.mark.parametrize("door", ["rest", "socketio", "sse"])
async def test_queries(app, door):
    for query in (
        {"password": SECRET},
        {"password": {"$gt": "a"}},
        {"$or": [{"password": {"$lt": "z"}}, {"id": 1}]},
        {"$sort": {"password": 1}},
    ):
        with pytest.raises(BadRequest):
            await app.service("users").find(query=query, provider=door)
    for path, name in (("users", "boss.password"), ("notes", "author.password")):
        for one, other in (
            ({name: SECRET}, {name: "another"}),
            ({name: {"$gt": SECRET}}, {name: {"$lte": SECRET}}),
            ({"$sort": {name: 1}}, {"$sort": {name: -1}}),
        ):
            assert await ids(app, path, one, door) == await ids(app, path, other, door)
    for query in ({"$select": ["password"]}, {"$select": ["id", "name", "password"]}):
        try:
            found = await app.service("users").find(query=query, provider=door)
        except BadRequest:
            continue  # a schema of the query lacks the property
        assert SECRET not in str(public_part(found))
    # The application itself may use it.
    (found,) = await app.service("users").find(query={"password": SECRET})
    assert found["password"] == SECRET


async def ids(app, path, query, door):
    """Return the ids that a client gets, None for a query that is refused."""
    try:
        return [record["id"] for record in await app.service(path).find(query=query, provider=door)]
    except BadRequest:
        return None


async def test_sockets_and_their_events(app):
    async with RealtimeClient(app) as client:
        results = [
            await client.call("find", "users"),
            await client.call("get", "users", 1),
            await client.call("create", "users", BODY),
            await client.call("create", "users", [BODY, BODY]),
            await client.call("update", "users", 1, BODY),
            await client.call("patch", "users", 1, {"password": SECRET}),
            await client.call("remove", "users", 3),
            await client.call("find", "notes", {"$include": ["author"]}),
        ]
        await app.service("users").patch(1, {"name": "by the application"})
        while (event := await client.next_event()).data.get("name") != "by the application":
            results.append(event)
        results.append(event)
        with pytest.raises(FrameworkError) as caught:
            await client.call("find", "own")
    assert len([each for each in results if hasattr(each, "name")]) == 7
    assert SECRET not in str([*results, caught.value.to_dict()])


async def test_streams(app):
    stream = await Stream(app, "/users").started()
    await app.service("users").create({**BODY}, provider="rest")
    await app.service("users").patch(1, {"name": "Eve"})
    events = await stream.have(2)
    await stream.leave()
    assert [data["name"] for _, data in events] == ["Cleo", "Eve"]
    assert SECRET not in str(events)


async def test_files_and_their_metadata(app):
    body = form(file_part(b"hello"), field_part("title", "a"), field_part("password", SECRET))
    answers = [
        await call(app, "POST", "/files", body, FORM),
        await call(app, "GET", "/files"),
        await call(app, "GET", "/files/0"),
        await send(app, "PATCH", "/files/0", {"title": "b"}),
        await call(app, "DELETE", "/files/0"),
    ]
    assert [answer.status for answer in answers] == [201, 200, 200, 200, 200]
    assert SECRET not in "".join(answer.text for answer in answers)


async def test_errors_of_hooks_inside(app):
    def fail(context):
        raise Conflict("no", {"result": context.result, "copy": {**context.result}})

    app.service("users").hooks(after={"get": [fail]})
    answer = await call(app, "GET", "/users/1")
    assert SECRET not in answer.text


async def test_listeners_of_the_application_get_whole_records(app):
    seen = []
    app.service("users").on("patched", lambda record, context: seen.append(record))
    for provider in (None, "rest"):
        await app.service("users").patch(1, {"name": "Eve"}, provider=provider)
    assert [record["password"] for record in seen] == [SECRET, SECRET]
    assert SECRET not in str(public_part(seen))


async def test_relations_do_not_open_it(app, request):
    if "a function" in request.node.name:
        return  # it may show the property to some
    relation = belongs_to("users", "userId", filter=["name", "password"])
    with pytest.raises(ValueError, match="hides: clients could find out"):
        Relations({"author": relation}).connect(app)
    inner, outer = App(), App()
    request.node.callspec.params["app"](inner, "users", MemoryService())
    outer.use("inner", inner)
    relation = belongs_to("inner/users", "userId", filter=["password"])
    outer.use("late", MemoryService(relations={"author": relation}))
    with pytest.raises(ValueError, match=r"the filter of 'author' has 'password', which .* hides"):
        await outer.setup()


async def test_the_user_who_calls(app):
    service = AuthenticationService(app, secret="s" * 32, strategies=["jwt"])
    app.use("authentication", service).use("me", Me())
    app.service("me").hooks(before=[authenticate("jwt")])
    seen = []
    app.service("me").on("created", lambda data, context: seen.append(context.params.user))
    token = service.create_access_token({}, subject="1")
    signed_in = [("authorization", f"Bearer {token}"), ("content-type", "application/json")]
    async with RealtimeClient(app) as client:
        for verb, path, body in (
            ("GET", "/me", b""),
            ("GET", "/me/1", b""),
            ("POST", "/me", b"{}"),
        ):
            response = await call(app, verb, path, body, signed_in)
            assert response.status < 300
            assert "Ada" in response.text
            assert SECRET not in response.text
        event = await client.next_event()
    assert event.data["by"]["name"] == "Ada"
    assert SECRET not in str(event.data)
    assert seen[0]["password"] == SECRET
    assert SECRET not in str(public_part(seen))
