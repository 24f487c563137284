"""The services of Everything, with the types of their records.

Written by `alula client`; run it again after the services have changed.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypedDict, overload

from alula.client import Client, ClientService, SyncClient, SyncService, TypedService, TypedSyncService

__all__ = [
    "Authentication",
    "AuthenticationCreate",
    "AuthenticationService",
    "People",
    "PeoplePlace",
    "SyncAuthenticationService",
    "TeamsTeamTasks",
    "authentication",
    "calc",
    "jobs",
    "people",
    "plain",
    "secret",
    "teams_team_tasks",
    "users",
]


class PeoplePlace(TypedDict):
    city: str
    zip: str | None


class People(TypedDict):
    name: str
    age: int | None
    born: str | None
    place: PeoplePlace | None
    id: int | str
    size: Any


class TeamsTeamTasks(TypedDict):
    id: int | str
    title: str
    done: bool
    tags: list[str]
    kind: Literal['a', 'b']


AuthenticationCreate = dict[str, Any]


class Authentication(TypedDict):
    accessToken: str
    authentication: dict[str, Any]
    user: dict[str, Any]


@overload
def people(client: Client) -> TypedService[People]: ...
@overload
def people(client: SyncClient) -> TypedSyncService[People]: ...
def people(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('people', People)


@overload
def teams_team_tasks(client: Client) -> TypedService[TeamsTeamTasks]: ...
@overload
def teams_team_tasks(client: SyncClient) -> TypedSyncService[TeamsTeamTasks]: ...
def teams_team_tasks(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('teams/:team/tasks', TeamsTeamTasks)


@overload
def plain(client: Client) -> ClientService: ...
@overload
def plain(client: SyncClient) -> SyncService: ...
def plain(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('plain')


@overload
def calc(client: Client) -> ClientService: ...
@overload
def calc(client: SyncClient) -> SyncService: ...
def calc(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('calc', methods=('add',))


@overload
def jobs(client: Client) -> ClientService: ...
@overload
def jobs(client: SyncClient) -> SyncService: ...
def jobs(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('jobs', methods=('start',))


@overload
def secret(client: Client) -> ClientService: ...
@overload
def secret(client: SyncClient) -> SyncService: ...
def secret(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('secret')


@overload
def users(client: Client) -> ClientService: ...
@overload
def users(client: SyncClient) -> SyncService: ...
def users(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('users')


class AuthenticationService(Protocol):
    async def create(self, data: AuthenticationCreate, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Authentication: ...

    async def remove(self, id: None, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Authentication: ...


class SyncAuthenticationService(Protocol):
    def create(self, data: AuthenticationCreate, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Authentication: ...

    def remove(self, id: None, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Authentication: ...


@overload
def authentication(client: Client) -> AuthenticationService: ...
@overload
def authentication(client: SyncClient) -> SyncAuthenticationService: ...
def authentication(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('authentication')
