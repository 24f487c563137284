"""`describe_events`: the AsyncAPI description of the events that clients get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alula._channels import EventServer
from alula._service_facts import ServiceFacts, facts_of
from alula.openapi._components import Components
from alula.openapi._declared_schemas import DeclaredSchemas
from alula.openapi._document import BEARER, Part
from alula.types import EVENT_OF_METHOD, UNSET

if TYPE_CHECKING:
    from alula._app import App
    from alula.express import ExpressApplication

__all__ = ["describe_events"]

# A description does not know the host that serves it.
_HOST: Final = {
    "host": "{host}",
    "variables": {"host": {"default": "localhost", "description": "The host of the API."}},
}
_TITLES: Final = {"socketio": "socket.io", "sse": "Server-sent events"}
_SUMMARIES: Final = {
    "created": "A record was created",
    "updated": "A record was replaced",
    "patched": "A record was changed",
    "removed": "A record was removed",
}
_TEXT: Final = {"type": "string"}
_INDEX: Final = {"type": "integer", "minimum": 0}
_KINDS: Final = ("entered", "changed", "left", "reset", "closed")
_STREAM_MESSAGES: Final[dict[str, tuple[Any, ...]]] = {
    "end": (
        "stream",
        "The end of a stream, with an error behind it if it has failed",
        {"const": None},
    ),
    "more": (
        "stream:more",
        "How many items the client has read",
        {"type": "integer", "minimum": 1},
    ),
    "leave": ("stream:end", "The client leaves a stream"),
}
"""Messages of all streams: their event, their summary, and the arguments behind the name."""
_STREAM_HEADERS: Final = "GET with `Accept: text/event-stream`"


def describe_events(
    app: App | ExpressApplication,
    *,
    title: str = "API",
    version: str = "1.0.0",
    description: str | None = None,
) -> dict[str, Any]:
    """Return the AsyncAPI 3.0 description of the events that clients of an application get.

    An event is described if it has a publisher: others never leave the server. Live lists are
    described where the service has them, and methods that stream where clients use socket.io.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App()
        >>> _ = app.use("messages", MemoryService())
        >>> _ = app.service("messages").publish("created", lambda data, context: None)
        >>> list(describe_events(app)["components"]["messages"])
        ['messages.created']

    Args:
        app: The application, an `App` or what ``express`` returns.
        title: The name of the API.
        version: The version of the API.
        description: What it is about, in Markdown.
    """
    events = _Events(app.channel_registry.servers)
    for handle in app.services.values():
        facts = facts_of(handle)
        has_lists = handle.live_options is not None and events.servers
        if facts.published_events or has_lists:
            events.add_service(facts)
    events.add_streams([facts_of(handle) for handle in app.services.values()])
    events.add_stream_of_several()
    info = {"title": title, "version": version}
    return {
        "asyncapi": "3.0.0",
        "info": info if description is None else {**info, "description": description},
        "defaultContentType": "application/json",
        "servers": events.servers,
        "channels": events.channels,
        "operations": events.operations,
        "components": events.components(),
    }


class _Events:
    """The servers, channels and operations of one description.

    Args:
        servers: Where the transports are.
    """

    def __init__(self, servers: list[EventServer]) -> None:
        self.servers: Part = {}
        self.channels: Part = {}
        self.operations: Part = {}
        self._schemas = Components()
        self._messages: Part = {}
        self._names: dict[str, str] = {}
        self._schemes: Part = {}
        self._streams: EventServer | None = None
        self._sockets: list[Part] = []
        for number, server in enumerate(servers, 1):
            # A second transport of a kind has a number, since names are keys.
            taken = server.transport in self.servers
            name = f"{server.transport}{number}" if taken else server.transport
            self.servers[name] = {
                **_HOST,
                "protocol": "ws" if server.has_websocket else "http",
                "title": _TITLES[server.transport],
            }
            if server.transport == "sse":
                self._streams = server
                continue
            self.servers[name] |= {
                "pathname": server.path,
                "protocolVersion": "socket.io 5, engine.io 4",
                "description": "The name of a message is that of the event.",
            }
            self._sockets.append({"$ref": f"#/servers/{name}"})

    def add_service(self, facts: ServiceFacts) -> None:
        """Add the channel of a service, with a message for each event."""
        name = self._name_of(facts)
        record: Part = {"type": "object"} if facts.adapter is not None else {}
        if facts.record is not None:
            record = dict(self._schemas.add_record(name, facts.record))
        payloads: Part = dict.fromkeys(EVENT_OF_METHOD.values(), record)
        schemas = DeclaredSchemas(name, self._schemas)
        for method, event in EVENT_OF_METHOD.items():
            declared = facts.declared.get(method)
            if declared is not None and declared.result is not UNSET and not declared.streams:
                payloads[event] = schemas.result(method, declared)[0] or {"type": "null"}
        for event in facts.published_events:
            is_standard = event in EVENT_OF_METHOD.values()
            self._messages[f"{name}.{event}"] = {
                "name": f"{facts.handle.path} {event}",
                "title": event,
                "summary": _SUMMARIES[event] if is_standard else "A custom event",
                "tags": [{"name": facts.tag}],
                "payload": payloads.get(event, {}),
            }
        is_live = facts.handle.live_options is not None
        if is_live and self._sockets:
            self._messages[f"{name}.live"] = _message_of_list(facts, record)
        channel: Part = {
            "address": facts.address,
            "title": facts.tag,
            "messages": {
                event: {"$ref": f"#/components/messages/{name}.{event}"}
                for event in (*facts.published_events, "live")
                if f"{name}.{event}" in self._messages
            },
        }
        if facts.placeholders:
            channel["parameters"] = {
                placeholder: {"description": "A part of the path."}
                for placeholder in facts.placeholders
            }
        has_stream = self._streams is not None and "find" in facts.handle.methods
        if self._streams is not None and not has_stream:
            channel["servers"] = self._sockets
        self.channels[name] = channel
        if is_live:
            self._add_live_list(facts, name, has_stream=has_stream)
        if self._sockets and facts.published_events:
            summary = "The events that publishers give to the connection"
            self.operations[f"{name}.events"] = _operation(name, summary)
        if has_stream and facts.published_events:
            summary = f"{_STREAM_HEADERS}: the events whose record matches the query"
            self.operations[f"{name}.stream"] = self._stream_operation(facts, name, summary)

    def _stream_operation(self, facts: ServiceFacts, name: str, summary: str) -> Part:
        """Return the operation of a stream, which the hooks of `find` protect."""
        operation = _operation(name, summary)
        if "find" in facts.secured - facts.optional:
            access = facts.keys.get("find")
            schemes: Part = {} if access is not None and access.is_only_way else {"bearer": BEARER}
            if access is not None:  # what OpenAPI calls "apiKey" has another name here
                keys = access.schemes.items()
                schemes |= {key: {**scheme, "type": "httpApiKey"} for key, scheme in keys}
            self._schemes |= schemes
            operation["security"] = [
                {"$ref": f"#/components/securitySchemes/{each}"} for each in schemes
            ]
        return {**operation, "bindings": {"http": {"method": "GET", "bindingVersion": "0.3.0"}}}

    def _add_live_list(self, facts: ServiceFacts, name: str, *, has_stream: bool) -> None:
        """Add the operations of a live list, one for each transport."""
        if self._sockets:
            summary = (
                f'A live list: `["live", "{facts.handle.path}", {{"list": name}}, query]`. Its rows'
                " are the acknowledgement"
            )
            messages = [{"$ref": f"#/channels/{name}/messages/live"}]
            self.operations[f"{name}.live"] = {**_operation(name, summary), "messages": messages}
        if has_stream:
            summary = f"{_STREAM_HEADERS} and `$live=true`: a live list of what `find` returns"
            operation = self._stream_operation(facts, name, summary)
            self.operations[f"{name}.liveStream"] = {**operation, "messages": []}

    def add_streams(self, services: list[ServiceFacts]) -> None:
        """Add methods that stream: each is a call, and a reply of several messages."""
        streaming = [
            (facts, method)
            for facts in services
            for method in sorted(facts.handle.streaming & {*facts.client_methods})
        ]
        if not self._sockets or not streaming:
            return
        channel = self._schemas.name_for("streams")
        title = "Items of methods that stream"
        described: Part = {"address": None, "title": title, "servers": self._sockets}
        self.channels[channel] = {**described, "messages": {}}
        for name, (event, summary, *rest) in _STREAM_MESSAGES.items():
            self._add_message(channel, name, event, summary, [_TEXT, *rest])
        for name in ("more", "leave"):
            self.operations[f"{channel}.{name}"] = _call(channel, name)
        for facts, method in streaming:
            name, path = self._name_of(facts), facts.handle.path
            key = f"{name}.{method}"
            item = DeclaredSchemas(name, self._schemas).item(method, facts.declared[method])
            self._add_message(channel, f"{key}.call", method, "A call", [{"const": path}])
            items: list[Any] = [_TEXT, {"type": "array", "items": item}]
            self._add_message(channel, key, "stream", "Items of a stream", items)
            reply = _call(channel, key, "end")
            del reply["action"]
            self.operations[key] = {
                **_call(channel, f"{key}.call"),
                "summary": f'The acknowledgement of `["{method}", "{path}", ...]` names the stream:'
                ' `{"$stream": name}`',
                "reply": reply,
            }

    def _name_of(self, facts: ServiceFacts) -> str:
        path = facts.handle.path
        if path not in self._names:
            self._names[path] = self._schemas.name_for(path)
        return self._names[path]

    def _add_message(
        self, channel: str, name: str, event: str, summary: str, arguments: list[Any]
    ) -> None:
        """Add a message to a channel: its event, and what its first arguments are."""
        payload = {"type": "array", "items": arguments, "minItems": len(arguments)}
        key = f"{channel}.{name}"
        self._messages[key] = {"name": event, "summary": summary, "payload": payload}
        self.channels[channel]["messages"][name] = {"$ref": f"#/components/messages/{key}"}

    def add_stream_of_several(self) -> None:
        """Add the channel for the events of several services in one stream."""
        names = [name for name in self.channels if f"{name}.stream" in self.operations]
        if self._streams is None or not names:
            return
        channel = self._schemas.name_for(self._streams.path.strip("/"))
        self.channels[channel] = {
            "address": self._streams.path,
            "title": "The events of several services",
            "servers": [{"$ref": "#/servers/sse"}],
            "messages": {
                f"{name}.{event}": reference
                for name in names
                for event, reference in self.channels[name]["messages"].items()
                if event != "live" or f"{name}.live" not in self.operations
            },
        }
        services = {"type": "string", "description": "Paths of services, separated by commas."}
        query = {"type": "object", "properties": {"services": services}, "required": ["services"]}
        self.operations[f"{channel}.stream"] = {
            **_operation(channel, f"{_STREAM_HEADERS}: the events of the services in the query"),
            "bindings": {"http": {"method": "GET", "query": query, "bindingVersion": "0.3.0"}},
        }

    def components(self) -> Part:
        """Return the messages and schemas that the others refer to."""
        parts: Part = {"messages": self._messages, "schemas": self._schemas.schemas}
        return {**parts, "securitySchemes": self._schemes} if self._schemes else parts


def _message_of_list(facts: ServiceFacts, record: Part) -> Part:
    """Return the message of a live list over socket.io."""
    properties: Part = {
        "list": {**_TEXT, "description": "The name that the client gave the list."},
        "kind": {"enum": list(_KINDS)},
        "at": {**_INDEX, "description": "The place of `data`."},
        "data": record,
        "id": {"description": "Of the record that has left."},
        "rows": {"type": "array", "items": record},
        "why": _TEXT,
        "error": {"type": "object"},
        "more": {"const": True, "description": "More messages of the batch follow."},
        "have": {**_TEXT, "description": "What a client shows when it comes back."},
    }
    return {
        "name": f"{facts.handle.path} live",
        "title": "live",
        "summary": "A live list has changed",
        "tags": [{"name": facts.tag}],
        "payload": {"type": "object", "properties": properties, "required": ["list", "kind"]},
    }


def _operation(channel: str, summary: str) -> Part:
    """Return an operation in which the server sends the messages of a channel."""
    return {"action": "send", "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def _call(channel: str, *messages: str) -> Part:
    """Return an operation in which the server receives messages of a channel."""
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages],
    }
