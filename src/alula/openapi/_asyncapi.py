"""`describe_events`: the AsyncAPI description of the events that clients get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alula._channels import EventServer
from alula.openapi._components import Components
from alula.openapi._document import BEARER, Part
from alula.openapi._service_facts import ServiceFacts, facts_of
from alula.types import EVENT_OF_METHOD

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
_STREAM_HEADERS: Final = "GET with `Accept: text/event-stream`"


def describe_events(
    app: App | ExpressApplication,
    *,
    title: str = "API",
    version: str = "1.0.0",
    description: str | None = None,
) -> dict[str, Any]:
    """Return the AsyncAPI 3.0 description of the events that clients of an application get.

    An event is described if it has a publisher: others never leave the server.

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
        if facts.published_events:
            events.add_service(facts)
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
        self._is_secured = False
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
        name = self._schemas.name_for(facts.handle.path)
        record: Part = {"type": "object"} if facts.adapter is not None else {}
        if facts.record is not None:
            record = dict(self._schemas.add_record(name, facts.record))
        for event in facts.published_events:
            is_standard = event in EVENT_OF_METHOD.values()
            self._messages[f"{name}.{event}"] = {
                "name": f"{facts.handle.path} {event}",
                "title": event,
                "summary": _SUMMARIES[event] if is_standard else "A custom event",
                "tags": [{"name": facts.tag}],
                "payload": record if is_standard else {},
            }
        channel: Part = {
            "address": facts.address,
            "title": facts.tag,
            "messages": {
                event: {"$ref": f"#/components/messages/{name}.{event}"}
                for event in facts.published_events
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
        if self._sockets:
            summary = "The events that publishers give to the connection"
            self.operations[f"{name}.events"] = _operation(name, summary)
        if has_stream:
            is_secured = "find" in facts.secured - facts.optional
            self._is_secured = self._is_secured or is_secured
            summary = f"{_STREAM_HEADERS}: the events whose record matches the query"
            self.operations[f"{name}.stream"] = {
                **_operation(name, summary),
                **(
                    {"security": [{"$ref": "#/components/securitySchemes/bearer"}]}
                    if is_secured
                    else {}
                ),
                "bindings": {"http": {"method": "GET", "bindingVersion": "0.3.0"}},
            }

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
        return {**parts, "securitySchemes": {"bearer": BEARER}} if self._is_secured else parts


def _operation(channel: str, summary: str) -> Part:
    """Return an operation in which the server sends the messages of a channel."""
    return {"action": "send", "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}
