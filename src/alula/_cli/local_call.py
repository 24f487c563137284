"""Services of an application, called in here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import typer

from alula._cli.application import load_application
from alula._cli.listing import is_process_local
from alula._cli.terminal import UsageError
from alula._context import HookContext
from alula._service import ServiceHandle
from alula.client import create_client
from alula.client._handles import ClientService
from alula.errors import MethodNotAllowed
from alula.types import EVENT_OF_METHOD, UNSET

__all__ = ["opened"]


@asynccontextmanager
async def opened(
    target: str, path: str, method: str, token: str | None, params: dict[str, Any]
) -> AsyncIterator[ClientService]:
    """Set an application up, and yield one of its services; tear it down at the end.

    Args:
        target: The application.
        path: The path of the service, with values in the place of its placeholders.
        method: The method to be called.
        token: An access token that proves who is calling.
        params: Those of the call; what follows from path and token is added.

    Raises:
        UsageError: There is no such application or service.
        MethodNotAllowed: The method is closed to calls from outside, and this is one.
        Exception: Whatever the code of the application raises.
    """
    app = load_application(target)
    handle = _find(app, path, params)
    if method not in handle.hook_methods() or (
        params.get("provider") is not None and method not in handle.methods
    ):
        raise MethodNotAllowed(f"{handle!r} has no method `{method}` for this call")
    if token is not None:
        params["authentication"] = {"strategy": "jwt", "accessToken": token}
        params["headers"] = {"authorization": f"Bearer {token}"}
    client = create_client().use("it", handle, methods=handle.hook_methods())
    service = client.service("it")
    service.hooks(after=[_take_dispatch])
    await app.setup()
    try:
        yield service
    finally:
        await app.teardown()
    if method in EVENT_OF_METHOD and is_process_local(handle):
        typer.echo(_LOST.format(path=path), err=True)


_LOST: Final = (
    "note: the records of {path} are in the memory of this command, and end with it; to change"
    " those of a running server, add --url"
)


def _find(app: Any, path: str, params: dict[str, Any]) -> ServiceHandle:
    core = getattr(app, "app", app)
    handle: ServiceHandle
    try:
        handle = core.service(path)
    except LookupError as error:  # its message knows names that are near
        match = core.lookup(path)
        if match is None or match.id is not None:
            raise UsageError(error.args[0]) from None
        handle, params["route"] = match.value, match.route
    return handle


def _take_dispatch(context: HookContext) -> None:
    if context.params.provider is not None and context.dispatch is not UNSET:
        context.result = context.dispatch
