"""What type checkers see of the client; they read this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, assert_type

from written_client import People, calc, people, teams_team_tasks

import alula
from alula import CustomMethod, HookContext, Page
from alula.client import (
    AbortController,
    Client,
    ClientService,
    Connection,
    EventStream,
    LiveChange,
    LiveList,
    ServiceEvent,
    SocketConnection,
    SyncClient,
    SyncEventStream,
    SyncLiveList,
    SyncService,
    TypedService,
    TypedSyncService,
    authentication,
    create_client,
    create_sync_client,
    rest,
    socketio,
)


class Message(TypedDict):
    id: int
    text: str


class Archive(TypedDict):
    id: int


class Messages(TypedService[Message, Mapping[str, Any], Mapping[str, Any], Page[Message]]):
    archive: CustomMethod[Archive, Message]


class OfTheServer(alula.TypedService[Message]):
    """Has no pages to iterate and no streams of events."""


connection = rest("http://localhost:3030").fetch(options={"retries": 3})
assert_type(connection, Connection)
client = create_client()
assert_type(client, Client)
assert_type(client.configure(connection).configure(authentication()), Client)
assert_type(client.rest, Connection | None)

plain = client.service("plain")
assert_type(plain, ClientService)
messages = client.service("messages", Message, methods=["archive"])
assert_type(messages, TypedService[Message])
paged = client.service("messages", Messages, methods=["archive"])
assert_type(paged, Messages)
client.service("messages", OfTheServer)  # type: ignore[type-var]
client.service("messages", int)  # type: ignore[type-var]
client.service(Message)  # type: ignore[call-overload]


async def call_services() -> None:
    assert_type(await plain.find(), Any)
    assert_type(await messages.get(1), Message)
    assert_type((await messages.get(1))["text"], str)
    assert_type(await messages.create({"text": "hello"}), Message)
    assert_type(await messages.create([{"text": "hello"}]), list[Message])
    assert_type(await messages.update(1, {"text": "hello"}), Message)
    assert_type(await messages.patch(1, {"text": "hello"}), Message)
    assert_type(await messages.patch(None, {"read": True}, query={"id": 1}), list[Message])
    assert_type(await messages.remove("1"), Message)
    assert_type(await messages.remove(None, query={"read": True}), list[Message])
    found = await messages.find(query={"$limit": 2}, connection={"timeout": 1.5})
    assert_type(found, Page[Message] | list[Message])
    records = found if isinstance(found, list) else found["data"]
    assert_type(records, list[Message])
    async for message in messages.iterate({"$sort": {"id": 1}}, page_size=50):
        assert_type(message, Message)
    assert_type(await messages.call("archive", data={"id": 1}), Any)
    assert_type(await plain.archive({"id": 1}), Any)
    assert_type(await paged.archive({"id": 1}), Message)
    assert_type((await paged.find())["data"], list[Message])
    async for message in paged.iterate():
        assert_type(message, Message)
    await messages.archive({"id": 1})  # type: ignore[attr-defined]
    await paged.archive({"ids": 1})  # type: ignore[typeddict-item, typeddict-unknown-key]
    await messages.creat({"text": "hello"})  # type: ignore[attr-defined]
    await messages.get(None)  # type: ignore[arg-type]
    await plain.find(done=True)  # type: ignore[call-arg]  # a keyword
    await messages.find(qurey={"a": 1})  # type: ignore[call-arg]  # a keyword
    await messages.get(1, timeout=5)  # type: ignore[call-arg]  # a keyword
    (await messages.get(1))["name"]  # type: ignore[typeddict-item]
    await messages.create(5)  # type: ignore[call-overload]
    async with create_client() as closing:
        assert_type(closing, Client)
    assert_type(await client.login(strategy="local", email="a@b.c"), dict[str, Any])


async def listen() -> None:
    socket = socketio("http://localhost:3030", auth={"tenant": "acme"})
    assert_type(socket, SocketConnection)
    assert_type(create_client().configure(socket), Client)
    stream = messages.events("created")
    assert_type(stream, EventStream[Message])
    async for event in stream:
        assert_type(event, ServiceEvent[Message])
        assert_type(event.data["text"], str)
        event.data["name"]  # type: ignore[typeddict-item]
    messages.events(5)  # type: ignore[arg-type]
    assert_type("created" in messages.events, bool)
    async with plain.events() as everything:
        assert_type(await anext(everything), ServiceEvent[Any])


async def watch() -> None:
    async with messages.live({"done": False}) as open_messages:
        assert_type(open_messages, LiveList[Message])
        assert_type(open_messages.rows, list[Message])
        async for change in open_messages:
            assert_type(change, LiveChange[Message])
            assert_type(change.record, Message | None)
        async for changes in open_messages.batches():
            assert_type(changes, list[LiveChange[Message]])
        await open_messages.settled()
    assert_type(plain.live().rows, list[Any])
    messages.live(5)  # type: ignore[arg-type]


@messages.before("create")
def stamp(context: HookContext[Message, Mapping[str, Any]]) -> None: ...


@messages.on("created")
def hear(message: Message, context: HookContext) -> None: ...


def hear_data(message: Message) -> None: ...


messages.on("created", hear_data)
messages.on("creatd", hear_data)  # type: ignore[call-overload]
messages.hooks(befor=[stamp])  # type: ignore[call-arg]
client.hooks(setpu=[stamp])  # type: ignore[call-arg]  # a keyword

sync = create_sync_client()
assert_type(sync, SyncClient)
assert_type(sync.configure(connection), SyncClient)
assert_type(sync.service("plain"), SyncService)
assert_type(sync.service("plain").find(), Any)
letters = sync.service("messages", Message)
assert_type(letters, TypedSyncService[Message])
assert_type(letters.events("created"), SyncEventStream[Message])
assert_type(letters.events("created").get(timeout=1).data, Message)
for happened in letters.events():
    assert_type(happened, ServiceEvent[Message])
with letters.live({"done": False}) as open_letters:
    assert_type(open_letters, SyncLiveList[Message])
    assert_type(open_letters.rows, list[Message])
    for letter in open_letters:
        assert_type(letter.record, Message | None)
assert_type(letters.get(1), Message)
letters.find(done=True)  # type: ignore[call-arg]  # a keyword
sync.service("plain").find(done=True)  # type: ignore[call-arg]  # a keyword
assert_type(letters.create({"text": "hello"}), Message)
assert_type(letters.create([{"text": "hello"}]), list[Message])
assert_type(letters.patch(None, {}), list[Message])
assert_type(letters.patch(1, {}), Message)
assert_type(letters.remove(None), list[Message])
assert_type(letters.find(), Page[Message] | list[Message])
assert_type([each["id"] for each in letters.iterate()], list[int])
AbortController().abort("now")  # type: ignore[call-arg]


# -- what `alula client` writes -------------------------------------------------------------------


async def call_written() -> None:
    person = await people(client).get(1)
    assert_type(person, People)
    assert_type(person["name"], str)
    assert_type(person["place"]["city"] if person["place"] else None, str | None)
    task = await teams_team_tasks(client).get(1, route={"team": "a"})
    assert_type(task["tags"], list[str])
    assert_type(task["kind"], Literal["a", "b"])
    assert_type(calc(client), ClientService)
    assert_type(calc(sync), SyncService)
    assert_type(people(sync).get(1), People)
