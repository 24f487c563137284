"""`alula call`: one call of a service, of an application or of a running server."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any, Final

import typer

from alula._cli.completing import complete_method, complete_service
from alula._cli.terminal import UsageError, print_result, reporting_errors, stdout_to_stderr
from alula._cli.values import read_data, read_query
from alula.types import ID_METHODS, STANDARD_METHODS

__all__ = ["call"]

_WITHOUT_DATA: Final = frozenset({"find", "get", "remove"})
_TOKEN: Final = "ALULA_TOKEN"  # noqa: S105  # the name of a variable

Service = Annotated[
    str, typer.Argument(help="Its path, such as messages.", autocompletion=complete_service)
]
Method = Annotated[
    str, typer.Argument(help="find, get, create, ...", autocompletion=complete_method)
]
RecordId = Annotated[str | None, typer.Argument(metavar="[ID]", help="The id of the record.")]
Query = Annotated[
    str,
    typer.Option(
        "--query", "-q", help="As in a URL, name=Ada&$limit=2, or as JSON, where numbers stay such."
    ),
]
Data = Annotated[
    str | None, typer.Option("--data", "-d", help="JSON; @FILE for a file, - for the input.")
]
Application = Annotated[
    str, typer.Option("--app", metavar="MODULE:NAME", help="The application to call in here.")
]
Url = Annotated[
    str | None, typer.Option("--url", help="The server to call instead of an application.")
]
Token = Annotated[str | None, typer.Option(envvar=_TOKEN, help="An access token.")]
Provider = Annotated[
    str | None,
    typer.Option(help="What the call pretends to come by: rest. Without, it is an internal one."),
]
Every = Annotated[bool, typer.Option("--all", help="find: all records, page after page.")]


def call(
    service: Service,
    method: Method,
    record_id: RecordId = None,
    query: Query = "",
    data: Data = None,
    app: Application = "app:app",
    url: Url = None,
    token: Token = None,
    provider: Provider = None,
    every: Every = False,
) -> None:
    """Call a method of a service, and print what it answers as JSON.

    A call of an application is an internal one: no user, and hooks that look at calls from outside
    let it pass. With --provider rest, or with --url, it is one from outside.
    """
    with reporting_errors(), stdout_to_stderr():
        _check(method, record_id, every=every)
        given = {} if data is None and method not in _WITHOUT_DATA else read_data(data)
        params: dict[str, Any] = {"query": read_query(query)}
        if url is None:
            from alula._cli.local_call import opened  # noqa: PLC0415  # only for this kind of call

            if provider is not None:
                params["provider"] = provider
            where = opened(app, service, method, token, params)
        else:
            from alula._cli.remote_call import reached  # noqa: PLC0415  # as above

            where = reached(url, service, method, token)
        result = _json(asyncio.run(_carry_out(where, method, record_id, given, params, every)))
    print_result(result)


def _check(method: str, record_id: str | None, *, every: bool) -> None:
    if method == "get" and record_id is None:
        raise UsageError("get needs the id of a record: alula call SERVICE get ID")
    if record_id is not None and method not in ID_METHODS:
        names = ", ".join(name for name in STANDARD_METHODS if name in ID_METHODS)
        raise UsageError(f"{method} takes no id; {names} do")
    if every and method != "find":
        raise UsageError(f"--all is for find, not for {method}")


async def _carry_out(
    where: Any, method: str, record_id: str | None, data: Any, params: Any, every: bool
) -> Any:
    async with where as service:
        if every:
            told_of = _Progress() if _is_watched() else None
            return [each async for each in service.iterate(None, params, progress=told_of)]
        return await service.call(method, record_id, data, params)


def _is_watched() -> bool:
    return sys.stderr.isatty()


class _Progress:
    """Tells on the terminal how many records have come."""

    def __call__(self, done: int, total: int | None) -> None:
        end = "\r\033[K" if total is None or done >= total else ""
        of_all = "" if total is None else f" of {total}"
        typer.echo(f"\r  {done}{of_all} records{end}", nl=False, err=True)


def _json(value: Any) -> str:
    """Return a result as JSON, with what may leave of records of which not all may."""
    from alula.express._json_encoding import dumps  # noqa: PLC0415  # as slow to load as the server

    return json.dumps(json.loads(dumps(value)), indent=2, ensure_ascii=False)
