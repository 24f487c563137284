"""Events that reach those who may see them: transports, connections, and several processes."""

from alula._channels import Channel
from alula._connection import Connection
from alula.realtime._bus import Bus, BusEvent, MongoBus, RedisBus
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
    "RedisBus",
    "SocketIO",
    "socketio",
    "sse",
]
