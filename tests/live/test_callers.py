"""Which lists share their reads: only those between whose callers hooks of `find` cannot tell."""

from __future__ import annotations

import asyncio
import copy
import pickle
from types import SimpleNamespace

import pytest
from tests.live.test_lists import Client, Link

from alula import App
from alula._connection import Connection
from alula._context import Params
from alula._live import _callers as callers_module
from alula._live import live_lists_of
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
from alula.errors import Forbidden

TEAMS = [{"id": 1, "team": "red"}, {"id": 2, "team": "blue"}]


@pytest.fixture
async def app():
    people = MemoryService([{"id": 1, "name": "Ann"}])
    author = belongs_to("people", "person")
    todos = MemoryService(TEAMS, start_id=3, relations={"author": author})
    app = App().use("people", people).use("todos", todos)
    app.service("todos").live(pause=0.001)
    live_lists_of(app)
    await app.setup()
    yield app
    await app.teardown()


@pytest.fixture
def todos(app):
    return app.service("todos")


@pytest.fixture
def lists(app):
    return live_lists_of(app)


def connection(team, **attributes):
    headers = {"x-team": team, "cookie": f"other={id(attributes)}"}
    return Connection(Link(), provider="sse", headers=headers, ip=team, **attributes)


def by_team(find_team):
    """Return a hook that shows the records of one team."""

    async def restrict(context):
        if context.params.live:
            context.params.query["team"] = find_team(context.params)

    return restrict


async def test_what_nobody_looks_at_may_differ(todos, lists):
    clients = [Client(lists, todos, connection(team), n=1) for team in ["red", "blue"]]
    await asyncio.gather(*(client.open() for client in clients))
    assert len(lists._groups) == 1


def popped(attributes):
    """Return attributes that `popitem` takes out one by one; they are put in again."""
    taken = dict(attributes.popitem() for _ in [*attributes])
    attributes.update(taken)
    return taken


LOOKS = [
    lambda params: params.headers["x-team"],
    lambda params: params.headers.get("x-team"),
    lambda params: dict(params.headers)["x-team"],
    lambda params: params["headers"]["x-team"],
    lambda params: params.copy(paginate=False).headers["x-team"],
    lambda params: Params(params).headers["x-team"],
    lambda params: params.ip,
    lambda params: params["ip"],
    lambda params: params.get("ip"),
    lambda params: {**params}["ip"],
    lambda params: Params(params).ip,
    lambda params: params.copy().ip,
    lambda params: params.connection.ip,
    lambda params: params["connection"].headers["x-team"],
    lambda params: len(params.headers) and params.get("connection").ip,
    lambda params: getattr(params, "".join("ip")),
    lambda params: object.__getattribute__(params, "connection").ip,
    lambda params: vars(params)["ip"],
    lambda params: params.__dict__.get("connection").ip,
    lambda params: vars(params).pop("ip"),
    lambda params: vars(params).setdefault("ip", None),
    lambda params: dict(vars(params))["ip"],
    lambda params: {**vars(params)}["ip"],
    lambda params: SimpleNamespace(**vars(params)).ip,
    lambda params: vars(params).copy()["ip"],
    lambda params: ({} | vars(params))["ip"],
    lambda params: (vars(params) | {})["ip"],
    lambda params: dict(vars(params).items())["ip"],
    lambda params: next(
        each for each in vars(params).values() if isinstance(each, str) and each in {"red", "blue"}
    ),
    lambda params: popped(vars(params))["ip"],
    lambda params: "red" if "'red'" in repr(vars(params)) else "blue",
    lambda params: "{ip}".format_map(vars(params)),
    lambda params: copy.copy(params).ip,
    lambda params: copy.copy(vars(params))["ip"],
    lambda params: copy.copy(params.headers)["x-team"],
    lambda params: pickle.loads(pickle.dumps(params.headers))["x-team"],
    lambda params: "red" if vars(params) == {**vars(params), "ip": "red"} else "blue",
    lambda params: "blue" if vars(params) != {**vars(params), "ip": "red"} else "red",
]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("together", [True, False])
async def test_nobody_gets_the_rows_of_another_caller(todos, lists, look, together):
    todos.hooks(before={"find": [by_team(look)]})
    clients = [Client(lists, todos, connection(team)) for team in ["red", "blue"]]
    if together:  # before it is known what the hook looks at
        await asyncio.gather(*(client.open() for client in clients))
    else:
        for client in clients:
            await client.open()
    await todos.create({"team": "red"})
    for client, row in zip(clients, TEAMS, strict=True):
        await client.rest()
        assert client.told[0].body["rows"] == [row]
    assert [client.kinds for client in clients] == [["snapshot", "entered"], ["snapshot"]]


@pytest.mark.parametrize(
    "look",
    [
        lambda params: vars(params)["query"],
        lambda params: [*vars(params)],
        lambda params: getattr(params, "tenant", None),
        lambda params: vars(params).keys() & {"ip"},
    ],
)
async def test_who_looks_at_what_is_equal_or_at_names_still_shares(todos, lists, look):
    async def look_at(context):
        look(context.params)

    todos.hooks(before={"find": [look_at]})
    for team in ["red", "blue"]:
        await Client(lists, todos, connection(team), n=1).open()
    assert len(lists._groups) == 1


async def test_equal_callers_still_share_what_a_hook_looks_at(todos, lists):
    todos.hooks(before={"find": [by_team(LOOKS[0])]})
    callers = [connection(team) for team in ["red", "blue", "red", "blue", "red"]]
    await asyncio.gather(*(Client(lists, todos, each).open() for each in callers))
    await Client(lists, todos, connection("blue")).open()
    assert sorted(len(group.lists) for group in lists._groups.values()) == [3, 3]


async def test_a_hook_that_begins_to_look_divides_the_lists_that_were_equal(todos, lists):
    looks = False

    async def restrict(context):
        if looks and context.params.live:
            context.params.query["team"] = context.params.headers["x-team"]

    todos.hooks(before={"find": [restrict]})
    clients = [await Client(lists, todos, connection(team)).open() for team in ["red", "blue"]]
    assert len(lists._groups) == 1
    looks = True
    await todos.create({"team": "red"})
    for client in clients:
        await client.rest()
    assert clients[0].kinds == ["snapshot", "left", "entered"]
    assert clients[1].kinds == ["snapshot", "reset"]
    assert clients[1].told[1].body["rows"] == [TEAMS[1]]


async def test_hooks_that_look_at_very_much_have_a_read_for_each(todos, lists, monkeypatch):
    monkeypatch.setattr(callers_module, "MAX_HEADERS", 1)

    async def look(context):
        for name in ["a", "b"]:
            context.params.headers.get(name)

    todos.hooks(before={"find": [look]})
    for team in ["red", "red"]:
        await Client(lists, todos, connection(team)).open()
    assert len(lists._groups) == 2


async def test_hooks_may_change_params(todos, lists):
    async def change(context):
        params = context.params
        params.headers["x-more"] = "1"
        del params.headers["cookie"]
        params.ip = params.connection = None

    todos.hooks(before={"find": [change]})
    caller = connection("red")
    await Client(lists, todos, caller).open()
    assert caller.headers.keys() == {"x-team", "cookie"}


async def test_related_records_are_found_for_the_same_caller(app, todos, lists):
    seen = []

    async def look(context):
        seen.append((context.params.provider, context.params.headers["x-team"]))

    app.service("people").hooks(before={"find": [look]})
    await todos.patch(1, {"person": 1})
    clients = [Client(lists, todos, connection(team), **{"$include": ["author"]}) for team in "ab"]
    await asyncio.gather(*(client.open() for client in clients))
    assert {*seen} == {("sse", "a"), ("sse", "b")}
    assert len(lists._groups) == 2


@pytest.mark.parametrize(
    ("changed", "groups"),
    [
        ({"accessToken": "other", "payload": {"sub": "1", "exp": 9, "jti": "x"}}, 1),
        ({"accessToken": "other", "payload": {"sub": "1", "exp": 9, "scope": "admin"}}, 2),
        ({"strategy": "key", "payload": None}, 2),
    ],
)
async def test_tokens_of_a_user_that_say_the_same_are_equal(todos, lists, changed, groups):
    first = {"strategy": "jwt", "accessToken": "one", "payload": {"sub": "1", "exp": 8}}
    clients = []
    for authentication in [first, {"strategy": "jwt", **changed}]:
        caller = connection("red", user={"id": 1}, authentication=authentication)
        clients.append(await Client(lists, todos, caller).open())
    assert len(lists._groups) == groups
    assert clients[0].list.expires == 8
    assert clients[1].list.expires == (None if changed["payload"] is None else 9)


class SignIn:
    """What the authentication service keeps of a user."""

    error = hidden_user = None

    def check(self):
        if self.error is not None:
            raise self.error


async def test_the_end_of_one_token_leaves_the_other_lists_open(todos, lists):
    from alula.errors import NotAuthenticated

    clients = []
    for _ in range(2):
        caller = connection("red")
        caller.sign_in = SignIn()
        clients.append(await Client(lists, todos, caller).open())
    clients[0].connection.sign_in.error = NotAuthenticated("expired")
    await todos.create({"n": 1})
    assert await clients[1].rest() == ["snapshot", "entered"]
    assert clients[0].kinds == ["snapshot", "closed"]
    clients[1].connection.sign_in.error = NotAuthenticated("expired")
    await todos.create({"n": 1})
    assert await clients[1].rest() == ["snapshot", "entered", "closed"]
    assert lists._groups == {}


@pytest.mark.parametrize("looks", [True, False])
async def test_joining_a_channel_reads_lists_whose_hooks_look_at_channels(app, todos, lists, looks):
    reads = []

    async def only_members(context):
        reads.append(1)
        if looks and "red" not in context.params.connection.channels:
            context.params.query["team"] = "blue"

    todos.hooks(before={"find": [only_members]})
    client = await Client(lists, todos, connection("red")).open()
    app.channel("red").join(client.connection)
    assert await client.rest() == (["snapshot", "reset"] if looks else ["snapshot"])
    app.channel("red").leave(client.connection)
    assert await client.rest() == (["snapshot", "reset", "reset"] if looks else ["snapshot"])
    lists.close(client.list)
    app.channel("red").join(client.connection)
    assert len(reads) == (3 if looks else 1)


@pytest.mark.parametrize(
    ("given", "changed", "is_read"),
    [
        ({"user": {"id": 1}}, {"user": {"id": 2}}, True),
        ({"user": {"id": 1}}, {"user": {"id": 1}}, False),
        ({"friends": {1}}, {"friends": {2}}, True),  # sets cannot be keys
    ],
)
async def test_a_caller_that_has_changed_is_read_again(app, todos, lists, given, changed, is_read):
    client = await Client(lists, todos, connection("red", **given)).open()
    figures = app.channel_registry.list_figures
    client.connection.__dict__.update(changed)
    client.connection.changed()
    await client.rest()
    assert figures.reads == (2 if is_read else 1)
    assert client.kinds == ["snapshot"]


async def test_a_caller_that_changes_while_the_list_opens_is_read_anew(app, todos, lists):
    client = Client(lists, todos, connection("red"))

    async def join(context):
        app.channel("red").join(client.connection)

    todos.hooks(before={"find": [join]})
    await client.open()
    assert client.kinds == ["snapshot"]


async def test_an_error_is_that_of_one_caller(todos, lists):
    """It is not yet known what the hook looks at."""

    async def refuse(context):
        if context.params.live and context.params.headers["x-team"] == "red":
            raise Forbidden("not you")

    todos.hooks(before={"find": [refuse]})
    clients = [Client(lists, todos, connection(team)) for team in ["red", "blue"]]
    opened = await asyncio.gather(*(client.open() for client in clients), return_exceptions=True)
    assert isinstance(opened[0], Forbidden)
    assert clients[1].kinds == ["snapshot"]
