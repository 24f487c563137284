"""The client's transport over socket.io: calls and events over one connection that stays open.

`_session` has the protocol, without I/O. `_transport` drives it in an event loop and reconnects;
`_listeners` calls the listeners of synchronous clients. `_streams` keeps events until they are
read. `_connection` is what a client is configured with.
"""

from alula.client._socketio._connection import SocketConnection, SocketService, socketio
from alula.client._socketio._errors import EventsLost, NotConnected
from alula.client._socketio._streams import (
    EventStream,
    ServiceEvent,
    ServiceEvents,
    SyncEventStream,
)

__all__ = [
    "EventStream",
    "EventsLost",
    "NotConnected",
    "ServiceEvent",
    "ServiceEvents",
    "SocketConnection",
    "SocketService",
    "SyncEventStream",
    "socketio",
]
