"""`alula call`: calls one method of a service, in an application or on a running server.

Both are called through a client, so that everything behind `local_service` and
`remote_service` is the same for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from alula._cli.application import load_application, set_up
from alula._cli.commands._watch import DEFAULT_URL, watch
from alula._cli.service_listing import is_process_local
from alula._cli.terminal import UsageError, print_result, reporting_errors, stdout_to_stderr
from alula._context import HookContext
from alula._item_stream import is_stream
from alula._service import ServiceHandle
from alula.errors import BadRequest, MethodNotAllowed
from alula.query import parse
from alula.types import EVENT_OF_METHOD, ID_METHODS, METHODS_WITHOUT_DATA, STANDARD_METHODS, UNSET

if TYPE_CHECKING:
    from alula.client import ClientService

__all__ = ["call", "read_data", "read_query"]

_TOKEN_VARIABLE: Final = "ALULA_TOKEN"  # noqa: S105  # the name of a variable
_RECORDS_ARE_LOST: Final = (
    "note: the records of {path} are in the memory of this command and are lost when it ends;"
    " to change those of a running server, add --url"
)


def complete_service(context: typer.Context, incomplete: str) -> list[str]:
    """Return the service paths that start with the typed text."""
    return [path for path in _services_to_complete(context) if path.startswith(incomplete)]


def complete_method(context: typer.Context, incomplete: str) -> list[str]:
    """Return the methods of the typed service that start with the typed text."""
    handle = _services_to_complete(context).get(context.params.get("service", ""))
    methods = () if handle is None else handle.hook_methods()
    return [name for name in methods if name.startswith(incomplete)]


ServicePath = Annotated[
    str,
    typer.Argument(
        metavar="SERVICE", help="Its path, such as messages.", autocompletion=complete_service
    ),
]
Method = Annotated[
    str | None,
    typer.Argument(
        help="find, get, create, ...; with --watch the event, such as created.",
        autocompletion=complete_method,
        show_default=False,
    ),
]
RecordId = Annotated[str | None, typer.Argument(metavar="ID", help="The id of the record.")]
Query = Annotated[
    str,
    typer.Option(
        "--query", "-q", help="As in a URL, name=Ada&$limit=2, or as JSON, which keeps numbers."
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", "-d", help="JSON; @FILE for a file, - for the standard input."),
]
ApplicationOption = Annotated[
    str, typer.Option("--app", metavar="MODULE:NAME", help="The application to load and call.")
]
Url = Annotated[
    str | None, typer.Option("--url", help="A running server to call instead of an application.")
]
Token = Annotated[str | None, typer.Option(envvar=_TOKEN_VARIABLE, help="An access token.")]
Provider = Annotated[
    str | None,
    typer.Option(help="Treat the call as one from outside: rest. Otherwise it is internal."),
]
AllPages = Annotated[bool, typer.Option("--all", help="find: all records, page after page.")]
Watch = Annotated[
    bool,
    typer.Option("--watch", help=f"Print events of a running server, by default {DEFAULT_URL}."),
]


def call(
    service: ServicePath,
    method: Method = None,
    record_id: RecordId = None,
    query: Query = "",
    data: Data = None,
    app: ApplicationOption = "app:app",
    url: Url = None,
    token: Token = None,
    provider: Provider = None,
    all_pages: AllPages = False,
    watches: Watch = False,
) -> None:
    """Call a method of a service and print its result as JSON.

    A call of an application is internal: it has no user, and hooks that check external calls let
    it pass. With --provider rest or with --url it is external. With --watch, it prints events
    instead: alula call messages --watch.
    """
    if watches:
        with reporting_errors():
            if record_id is not None or data is not None or query or all_pages or provider:
                raise UsageError("--watch takes a service and an event, --url and --token")
            watch(url, service, method, token)  # it ends by raising, at the latest with Ctrl+C
    with reporting_errors(), stdout_to_stderr():
        if method is None:
            raise UsageError("which method? alula call SERVICE METHOD, such as find")
        if method == "get" and record_id is None:
            raise UsageError("get needs the id of a record: alula call SERVICE get ID")
        if record_id is not None and record_id[:1] in {"{", "["} and data is None:
            raise UsageError(
                f"data goes behind --data: alula call {service} {method}"
                f" {'ID ' if method in ID_METHODS else ''}--data '{record_id}'"
            )
        if record_id is not None and method not in ID_METHODS:
            names = ", ".join(name for name in STANDARD_METHODS if name in ID_METHODS)
            raise UsageError(f"{method} takes no id; {names} do")
        if all_pages and method != "find":
            raise UsageError(f"--all is for find, not for {method}")
        # As for a request without a body.
        payload: object = (
            {} if data is None and method not in METHODS_WITHOUT_DATA else read_data(data)
        )
        params: dict[str, Any] = {"query": read_query(query)}
        if url is None:
            if provider is not None:
                params["provider"] = provider
            opened = local_service(app, service, method, token, params)
        else:
            opened = remote_service(url, service, method, token)

        async def run() -> object:
            async with opened as target:
                if not all_pages:
                    return await _whole(await target.call(method, record_id, payload, params))
                progress = show_progress if sys.stderr.isatty() else None
                records = target.iterate(None, params, progress=progress)
                return [record async for record in records]

        result = asyncio.run(run())
        from alula._json_encoding import dumps  # noqa: PLC0415  # imports the web server

        # The encoder of responses: redacted records are printed in their public form.
        text = json.dumps(json.loads(dumps(result)), indent=2, ensure_ascii=False)
    print_result(text)


async def _whole(result: Any) -> Any:
    """Return a result; of a method that streams, the list of its items."""
    return [item async for item in result] if is_stream(result) else result


def read_query(text: str) -> dict[str, Any]:
    """Return a query that is written as in a URL or as JSON.

    Raises:
        UsageError: It is neither.
    """
    if text.lstrip().startswith("{"):
        query: dict[str, Any] = _parse_json(text, "the query")
        return query
    try:
        return parse(text.removeprefix("?"))
    except BadRequest as error:
        raise UsageError(f"cannot read the query {text!r}: {error}") from None


def read_data(text: str | None) -> object:
    """Return data from JSON text, from a file (``@name``) or from the standard input (``-``).

    Raises:
        UsageError: It is not JSON, or the file cannot be read.
    """
    if text is None:
        return None
    if text == "-":
        return _parse_json(sys.stdin.read(), "the standard input")
    if not text.startswith("@"):
        return _parse_json(text, "the data")
    try:
        content = Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot read the file {text[1:]!r}: {error}") from None
    return _parse_json(content, f"the file {text[1:]!r}")


def show_progress(done: int, total: int | None) -> None:
    """Print how many records have arrived, over the previous count; clear it at the end."""
    clear = "\r\033[K" if total is None or done >= total else ""
    of_total = "" if total is None else f" of {total}"
    typer.echo(f"\r  {done}{of_total} records{clear}", nl=False, err=True)


@asynccontextmanager
async def local_service(
    target: str, path: str, method: str, token: str | None, params: dict[str, Any]
) -> AsyncGenerator[ClientService]:
    """Set an application up, yield a client of one of its services, and tear it down.

    Args:
        target: The application, as ``module:name``.
        path: The path of the service, with values for its placeholders.
        method: The method to call.
        token: An access token to authenticate with.
        params: The params of the call. Route values, credentials and headers are added.

    Raises:
        UsageError: The application or the service does not exist.
        MethodNotAllowed: The method is closed to external calls, and this is one.
        Exception: Whatever the code of the application raises.
    """
    from alula.client import create_client  # noqa: PLC0415  # the client is slow to import

    app = load_application(target)
    try:
        handle = app.service(path)
    except LookupError as error:  # its message suggests similar paths
        match = app.lookup(path)
        if match is None or match.id is not None:
            raise UsageError(error.args[0]) from None
        handle, params["route"] = match.value, match.route
    if method not in handle.hook_methods() or (
        params.get("provider") is not None and method not in handle.methods
    ):
        raise MethodNotAllowed(f"{handle!r} has no method `{method}` for this call")
    if token is not None:
        # Both, as for a request with this header: hooks read either.
        params["authentication"] = {"strategy": "jwt", "accessToken": token}
        params["headers"] = {"authorization": f"Bearer {token}"}

    def use_dispatch(context: HookContext) -> None:
        # A transport sends `context.dispatch` to external callers; a local call has none.
        if context.params.provider is not None and context.dispatch is not UNSET:
            context.result = context.dispatch

    client = create_client().use("called", handle, methods=handle.hook_methods())
    service = client.service("called")
    service.hooks(after=[use_dispatch])
    await set_up(app)
    try:
        yield service
    finally:
        await app.teardown()
    if method in EVENT_OF_METHOD and is_process_local(handle):
        typer.echo(_RECORDS_ARE_LOST.format(path=path), err=True)


@asynccontextmanager
async def remote_service(
    url: str, path: str, method: str, token: str | None
) -> AsyncGenerator[ClientService]:
    """Yield a client of a service on a running server.

    Raises:
        UsageError: The URL is not the address of a server.
    """
    from alula.client import create_client, rest  # noqa: PLC0415  # as above

    try:
        connection = rest(url)
    except ValueError:
        # The message leaves the URL out: it may contain a password.
        raise UsageError(
            "--url must be the address of a server, such as http://localhost:3030, without a"
            " query, a fragment or credentials"
        ) from None

    def add_token(context: HookContext) -> None:
        headers = context.params.headers or {}
        context.params.headers = {"Authorization": f"Bearer {token}", **headers}

    async with create_client().configure(connection.fetch()) as client:
        if token is not None:
            client.hooks(before=[add_token])
        # A client sends `X-Service-Method` only for the methods that it knows as custom ones.
        custom = () if method in STANDARD_METHODS else (method,)
        yield client.service(path, methods=custom)


def _services_to_complete(context: typer.Context) -> Mapping[str, ServiceHandle]:
    """Return the services of the application, none if it cannot be loaded."""
    if context.params.get("url"):
        return {}
    output = io.StringIO()  # the shell would take what the application prints for completions
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            return load_application(context.params.get("app") or "app:app").services
        except BaseException:  # noqa: BLE001  # completion has no place to show an error
            return {}


def _parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}") from None
