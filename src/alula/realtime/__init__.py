"""Real time: transports of calls and events, connections, and buses between processes.

Needs the extra ``server``, for websockets also ``realtime``, and for a bus its own: ``redis``,
``postgresql`` or ``mongodb``.
"""

try:
    import orjson as _orjson  # noqa: F401  # only to check that it is installed
except ImportError as error:
    raise ImportError(
        f"alula.realtime needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[server,realtime]'"
    ) from error

from alula._channels import Channel
from alula._connection import Connection
from alula.realtime._bus import Bus, BusEvent, MongoBus, PostgresBus, RecentEvents, RedisBus
from alula.realtime._handshake import Handshake
from alula.realtime._socketio import SocketIO, socketio
from alula.realtime._sse import sse

__all__ = [
    "Bus",
    "BusEvent",
    "Channel",
    "Connection",
    "Handshake",
    "MongoBus",
    "PostgresBus",
    "RecentEvents",
    "RedisBus",
    "SocketIO",
    "socketio",
    "sse",
]
