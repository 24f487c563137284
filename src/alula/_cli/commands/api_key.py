"""`alula api-key`: creates keys for machines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from alula._cli.application import Application, load_application, set_up
from alula._cli.service_listing import is_process_local
from alula._cli.terminal import UsageError, print_result, reporting_errors, stdout_to_stderr

__all__ = ["api_key"]

_SERVICE: Final = "account/api-keys"
_FOR_EVER: Final = "never"

UserId = Annotated[str, typer.Argument(metavar="USER", help="The id of the user whose key it is.")]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope", help="What it may do, such as reports:read; several times for several."
    ),
]
Name = Annotated[str, typer.Option(help="What it is for, as lists show it.")]
ExpiresIn = Annotated[
    str, typer.Option(help=f"For how long it is valid: 12h, 90d, or {_FOR_EVER}.")
]
ApplicationOption = Annotated[
    str, typer.Option("--app", metavar="MODULE:NAME", help="The application.")
]

api_key = typer.Typer(name="api-key", help="Create API keys for machines.", no_args_is_help=True)


@api_key.callback()
def keys() -> None:
    """Create API keys for machines."""


@api_key.command()
def create(
    user_id: UserId,
    scopes: Scopes,
    name: Name = "command line",
    expires_in: ExpiresIn = "90d",
    application: ApplicationOption = "app:app",
) -> None:
    """Create a key for a user, and print it. It cannot be printed again."""
    with reporting_errors(), stdout_to_stderr():
        app = load_application(application)
        # Any: a plain service of the application's own may be there.
        keys: Any = getattr(getattr(app.services.get(_SERVICE), "service", None), "keys", None)
        if keys is None:
            raise UsageError(
                "the application has no API keys; add app.configure(Accounts(store=...,"
                " api_keys=True))"
            )
        wanted: dict[str, Any] = {
            "user_id": user_id,
            "name": name,
            "scopes": scopes,
            "expires_in": None if expires_in == _FOR_EVER else expires_in,
        }
        key = asyncio.run(_created(app, keys, wanted))
        until = "for ever"
        if key["expiresAt"] is not None:
            until = (
                f"until {datetime.fromtimestamp(key['expiresAt'] / 1000, UTC):%Y-%m-%d %H:%M} UTC"
            )
        typer.echo(f"key {key['id']} of user {user_id}, valid {until}:", err=True)
    print_result(key["key"])


async def _created(app: Application, keys: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Set the application up, create a key, and tear the application down.

    Raises:
        UsageError: The name, a scope or the time is not valid, or the store loses the key.
    """
    await set_up(app)
    try:
        if is_process_local(keys.store):
            raise UsageError(
                f"the keys of this application are in its memory, and end with this command; store"
                f" {keys.store.path!r} in a database"
            )
        key: dict[str, Any] = await keys.create(**wanted)
    except ValueError as error:
        raise UsageError(str(error)) from None
    finally:
        await app.teardown()
    return key
