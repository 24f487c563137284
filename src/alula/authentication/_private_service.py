"""Services of the application that keep what no client may read, and the times in them."""

from __future__ import annotations

from typing import Any

from alula._service import ServiceHandle
from alula.authentication._access_tokens import Duration, seconds_of

__all__ = ["id_name", "milliseconds_of", "private_service", "remove_before"]


def milliseconds_of(duration: Duration, option: str) -> int:
    """Return a duration as the times in such a service count.

    Raises:
        ValueError: It is none; the message names the option.
    """
    try:
        return seconds_of(duration) * 1000
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def private_service(app: Any, path: str, option: str) -> ServiceHandle:
    """Return the handle of a service that an option names, once it is sure that it is closed.

    Args:
        app: The application.
        path: Where the service is registered.
        option: The name of the option, for the messages.

    Raises:
        ValueError: There is no such service, or clients can call it.
    """
    handle: ServiceHandle | None = app.services.get(path.strip("/"))
    if handle is None:
        raise ValueError(
            f"{option} names the service {path!r}, which is not registered: add"
            f" app.use({path!r}, <a service>, methods=[])"
        )
    if handle.methods:
        raise ValueError(
            f"{option} names the service {path!r}, which clients can call"
            f" ({', '.join(handle.methods)}); close it: app.use({path!r}, <a service>, methods=[])"
        )
    return handle


def id_name(handle: ServiceHandle) -> str:
    """Return the name of a service's id property."""
    name = getattr(handle.service, "id", None)
    return name if isinstance(name, str) else "id"


async def remove_before(handle: ServiceHandle, field: str, time: int) -> None:
    """Remove the records of a service whose field, a time, has passed."""
    await handle.remove(
        None, query={field: {"$lte": time}}, adapter={"multi": ["remove"]}, paginate=False
    )
