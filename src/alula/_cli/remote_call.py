"""Services of a running server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from alula._cli.terminal import UsageError
from alula._context import HookContext
from alula.client import create_client, rest
from alula.client._handles import ClientService
from alula.types import STANDARD_METHODS

__all__ = ["reached"]


@asynccontextmanager
async def reached(
    url: str, path: str, method: str, token: str | None
) -> AsyncIterator[ClientService]:
    """Yield a service of a server.

    Args:
        url: The address of the server.
        path: The path of the service.
        method: The method to be called.
        token: An access token, None to come as nobody.

    Raises:
        UsageError: The address is none.
    """
    try:
        connection = rest(url)
    except ValueError:
        raise UsageError(
            "--url has to be the address of a server, such as http://localhost:3030, without a"
            " query, a fragment or a user"  # it is not shown: there may be a password in it
        ) from None
    async with create_client().configure(connection.fetch()) as client:
        if token is not None:
            client.hooks(before=[_sender(token)])
        custom = () if method in STANDARD_METHODS else (method,)
        yield client.service(path, methods=custom)


def _sender(token: str) -> Callable[[HookContext], None]:
    def send(context: HookContext) -> None:
        context.params.headers = {
            "Authorization": f"Bearer {token}",
            **(context.params.headers or {}),
        }

    return send
