"""How a database is opened before the services of an application and closed after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from alula._app import App

__all__ = ["open_around"]


def open_around(
    app: App, acquire: Callable[[], Awaitable[None]], release: Callable[[], Awaitable[None]]
) -> None:
    """Open a database before the services of an application are set up, and close it after them.

    Args:
        app: The application.
        acquire: Opens the database for one more user. If it fails, it has released it.
        release: Closes the database after its last user.
    """

    async def open_first(_: object, next: Callable[[], Awaitable[None]]) -> None:
        await acquire()
        try:
            await next()
        except BaseException:
            await release()
            raise

    async def close_last(_: object, next: Callable[[], Awaitable[None]]) -> None:
        try:
            await next()
        finally:
            await release()

    app.hooks(setup=[open_first], teardown=[close_last])
