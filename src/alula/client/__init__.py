"""Call the services of a server as if they were here.

Pure Python, without anything of the server; in a browser it runs in Pyodide.
"""

from alula.client.abort import AbortController, Aborted, AbortSignal
from alula.client.application import Client, create_client
from alula.client.codec import RequestError
from alula.client.connection import Connection, Options, Rest, rest
from alula.client.handles import ClientService, PageOf
from alula.client.request_id_header import forward_request_id
from alula.client.service import RestService
from alula.client.sign_in import AuthenticationClient, authentication
from alula.client.sync import SyncClient, create_sync_client
from alula.client.sync_service import SyncService
from alula.client.typed import TypedService, TypedSyncService

__all__ = [
    "AbortController",
    "AbortSignal",
    "Aborted",
    "AuthenticationClient",
    "Client",
    "ClientService",
    "Connection",
    "Options",
    "PageOf",
    "RequestError",
    "Rest",
    "RestService",
    "SyncClient",
    "SyncService",
    "TypedService",
    "TypedSyncService",
    "authentication",
    "create_client",
    "create_sync_client",
    "forward_request_id",
    "rest",
]
