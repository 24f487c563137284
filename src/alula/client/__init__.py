"""Call the services of a server as if they were here.

Pure Python, without anything of the server; in a browser it runs in Pyodide.
"""

from alula.client._abort import AbortController, Aborted, AbortSignal
from alula.client._client import Client, create_client, forward_request_id
from alula.client._client_service import ClientService, TypedService
from alula.client._codec import RequestError
from alula.client._connection import Connection, Options
from alula.client._live_list import LiveChange, LiveList, SyncLiveList
from alula.client._rest import Rest, RestService, rest
from alula.client._sign_in import AuthenticationClient, authentication
from alula.client._socketio import (
    EventsLost,
    EventStream,
    NotConnected,
    ServiceEvent,
    ServiceEvents,
    SocketConnection,
    SyncEventStream,
    socketio,
)
from alula.client._streamed_items import SyncItemStream
from alula.client._sync_client import SyncClient, create_sync_client
from alula.client._sync_service import SyncService, TypedSyncService

__all__ = [
    "AbortController",
    "AbortSignal",
    "Aborted",
    "AuthenticationClient",
    "Client",
    "ClientService",
    "Connection",
    "EventStream",
    "EventsLost",
    "LiveChange",
    "LiveList",
    "NotConnected",
    "Options",
    "RequestError",
    "Rest",
    "RestService",
    "ServiceEvent",
    "ServiceEvents",
    "SocketConnection",
    "SyncClient",
    "SyncEventStream",
    "SyncItemStream",
    "SyncLiveList",
    "SyncService",
    "TypedService",
    "TypedSyncService",
    "authentication",
    "create_client",
    "create_sync_client",
    "forward_request_id",
    "rest",
    "socketio",
]
