"""What descriptions say of methods that stream; the typed endpoints show the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel

from alula import App, Params, answers
from alula.express import express, rest
from alula.openapi import describe, typescript
from alula.openapi._asyncapi import describe_events
from alula.realtime import socketio, sse


class Item(BaseModel):
    n: int


class Items:
    async def find(self, params):
        yield 1

    @answers(202)
    async def create(self, data: Any, params: Params) -> AsyncIterator[Item]:
        yield Item(n=1)


def application():
    app = express(App()).configure(rest()).configure(sse()).use("items", Items())
    app.service("items").publish(lambda *_: [])
    return app


def test_a_stream_of_unknown_items_beside_events():
    found = describe(application())["paths"]["/items"]["get"]["responses"]
    item = {"schema": {"type": "string"}, "x-itemSchema": {}}
    assert found["200"]["content"] == {"text/event-stream": item, "application/jsonl": item}
    assert "204" not in found


def test_the_status_of_a_stream():
    found = describe(application())["paths"]["/items"]["post"]["responses"]
    assert {"202", "default"} <= found.keys()
    assert not {"200", "201", "204"} & found.keys()


def test_a_create_that_streams_has_no_event():
    assert describe_events(application())["components"].get("messages", {}) == {}


def test_types_of_a_stream():
    module = typescript(application())
    assert "  find(params?: ItemsParams): Promise<AsyncIterable<unknown>>" in module
    assert "  create(data: ItemsData, params?: ItemsParams): Promise<AsyncIterable<Item>>" in module
    assert "created: unknown" in module


def test_a_client_reads_streams_over_socketio_where_it_is_configured():
    assert "streamReader" not in typescript(application())
    app = application().configure(socketio())
    module = typescript(app)
    assert 'client.service("items").hooks({ after: { create: [read], find: [read] } })' in module
    assert "streamReader" not in typescript(app, declarations=True)
    assert "streamReader" not in typescript(express(App()).configure(socketio()))


def test_streams_over_socketio_are_replies_of_several_messages():
    described = describe_events(application().configure(socketio()))
    for_reply = described["operations"]["items.create"]
    assert (for_reply["action"], for_reply["reply"]["channel"]) == (
        "receive",
        {"$ref": "#/channels/streams"},
    )
    assert [each["$ref"] for each in for_reply["reply"]["messages"]] == [
        "#/channels/streams/messages/items.create",
        "#/channels/streams/messages/end",
    ]
    items = described["components"]["messages"]["streams.items.create"]["payload"]["items"]
    assert items[1]["items"]["$ref"] == "#/components/schemas/items.createItem"
    assert {"items.find", "streams.more", "streams.leave"} < described["operations"].keys()
    assert "streams" not in describe_events(application())["channels"]


def test_a_client_can_read_streams_where_methods_stream():
    assert "export const withStreams" in typescript(application())
    assert "withStreams" not in typescript(application(), declarations=True)
    assert "withStreams" not in typescript(App())
