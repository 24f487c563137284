"""`alula call --watch`: prints the events of a service of a running server as they happen."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Final

import typer

from alula._cli.terminal import UsageError, print_error, print_result, style
from alula.errors import NotAuthenticated, NotFound

if TYPE_CHECKING:
    from alula.client import ServiceEvent, SocketConnection

__all__ = ["DEFAULT_URL", "watch"]

DEFAULT_URL: Final = "http://localhost:3030"
_CONNECT_TIMEOUT: Final = 5.0  # seconds; somebody waits at a terminal
_CTRL_C: Final = 130  # as shells count


def watch(url: str | None, path: str, event: str | None, token: str | None) -> None:
    """Print events until Ctrl+C: lines of JSON, or lines for a reader where this is a terminal.

    Args:
        url: The address of the server, None for that of `alula dev`.
        path: The path of the service.
        event: The name of the event, None for all.
        token: An access token to sign in with.

    Raises:
        UsageError: The URL is not the address of a server.
        FrameworkError: The server cannot be reached, has no real time, or refuses the connection
            or the token.
        Exit: After Ctrl+C.
    """
    from alula.client import socketio  # noqa: PLC0415  # the client is slow to import

    try:
        connection = socketio(url or DEFAULT_URL, connect_timeout=_CONNECT_TIMEOUT)
    except ValueError:
        # The message leaves the URL out: it may contain a password.
        raise UsageError(
            f"--url must be the address of a server, such as {DEFAULT_URL}, without a path, a query"
            " or credentials"
        ) from None
    try:
        asyncio.run(_print_events(connection, path, event, token))
    except KeyboardInterrupt:
        raise typer.Exit(_CTRL_C) from None


async def _print_events(
    connection: SocketConnection, path: str, event: str | None, token: str | None
) -> None:
    from alula.client import EventsLost, authentication, create_client  # noqa: PLC0415  # as above

    stored = {} if token is None else {"alula-jwt": token}
    client = create_client().configure(connection).configure(authentication(storage=stored))
    async with client:
        stream = client.service(path).events(*filter(None, [event]))
        try:
            await client.open()
        except NotFound as error:
            raise NotFound(
                f"the server at {connection.base} has no real time; an application has it by"
                " app.configure(socketio()), with socketio of alula.realtime"
            ) from error
        if sys.stderr.isatty():
            typer.echo(f"watching {path} on {connection.base}; Ctrl+C ends it", err=True)
        while True:
            # Also after each break: what is sent to anybody would look like what this user may see.
            if token is not None and not client.authentication.authenticated:
                raise NotAuthenticated("the server rejected the access token")
            try:
                received = await anext(stream)
            except EventsLost as error:
                print_error(str(error))
            else:
                print_result(_line_of(received))


def _line_of(event: ServiceEvent[object]) -> str:
    if sys.stdout.isatty():
        data = json.dumps(event.data, ensure_ascii=False, default=repr)
        return f"{style(event.event, fg='green', bold=True)} {data}"
    return json.dumps(event._asdict(), ensure_ascii=False, default=repr)
