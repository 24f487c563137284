"""uvicorn's HTTP/1 protocols with the limits that uvicorn does not have.

uvicorn reads request heads of any length, waits forever for clients that stall (slow loris), keeps
responses that a client does not read, and sends plain text for what it cannot parse. The guards
here come before uvicorn's protocol classes in the method resolution order.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Final, cast

import uvicorn

from alula.express._connection_limits import ConnectionLimits
from alula.express._uvicorn.guard import Guard

__all__ = ["AutoHTTPProtocol", "HTTPProtocol", "guarded", "guards", "unsupported_uvicorn"]


def unsupported_uvicorn(reason: object) -> ImportError:
    """Return the error for a uvicorn that lacks what is needed of it.

    The versions that work are those that the package of Alula declares.
    """
    from importlib.metadata import (  # noqa: PLC0415  # 2 % of an import, for this error alone
        PackageNotFoundError,
        requires,
    )

    try:
        declared = [line.partition(";")[0].strip() for line in requires("alula") or ()]
    except PackageNotFoundError:  # a copy of the source that is not installed
        declared = []
    works = next((line for line in declared if line.startswith("uvicorn")), "alula[server]")
    return ImportError(
        f"alula.express does not work with uvicorn {uvicorn.__version__}: {reason}. The limits for"
        " slow and hostile clients would be gone, so it does not start. Install a version that"
        f" works: pip install '{works}'"
    )


try:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol
except ImportError as error:
    raise unsupported_uvicorn(error) from error

_H11: Final = "uvicorn.protocols.http.h11_impl"


def guarded(
    protocol: type[asyncio.Protocol],
    limits: ConnectionLimits | None = None,
    *,
    allow_unguarded: bool = False,
) -> type[asyncio.Protocol]:
    """Return one of uvicorn's HTTP/1 protocols, or a subclass of one, with limits and error JSON.

    Args:
        protocol: The class.
        limits: For the clients of its connections; None for the defaults.
        allow_unguarded: Whether to return a class as it is that cannot be guarded.

    Raises:
        TypeError: The class cannot be guarded, and ``allow_unguarded`` is not set.
    """
    for theirs, guard in guards().items():
        if isinstance(protocol, type) and issubclass(protocol, theirs):
            lost = [
                name
                for name in sorted(guard.replaces)
                if getattr(protocol, name) not in {getattr(theirs, name), getattr(guard, name)}
            ]
            if lost:
                raise TypeError(
                    f"http={protocol!r} overrides {', '.join(lost)}, which Alula replaces: it would"
                    " never run. If the class has limits of its own, say so:"
                    " allow_unguarded_http=True"
                )
            bases = (protocol,) if issubclass(protocol, guard) else (guard, protocol)
            namespace = {"limits": limits or ConnectionLimits(), "__doc__": guard.__doc__}
            return cast("type[asyncio.Protocol]", type(protocol.__name__, bases, namespace))
    if allow_unguarded:
        return protocol
    raise TypeError(
        f"http={protocol!r} cannot be guarded: it is not one of uvicorn's classes for httptools and"
        " h11, or a subclass of one. Its connections would have no limits (head, timeouts, unread"
        " responses); if it has its own, say so: allow_unguarded_http=True"
    )


def guards() -> Mapping[type[asyncio.Protocol], type[Guard]]:
    """Return the guard for each protocol of uvicorn that can be guarded, and is loaded.

    Beside httptools, h11 is loaded only if someone uses it: its modules take 4 % of the start.

    Raises:
        ImportError: A protocol has no guard with this version of uvicorn.
    """
    guards: dict[type[asyncio.Protocol], type[Guard]] = {}
    try:
        if AutoHTTPProtocol.__module__ != _H11:
            from alula.express._uvicorn.httptools_guard import (  # noqa: PLC0415  # it needs httptools
                HttpToolsGuard,
            )

            guards[AutoHTTPProtocol] = HttpToolsGuard
        # Whoever passes the class, or a subclass of it, has loaded its module.
        if _H11 in sys.modules:
            from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415  # only if used

            from alula.express._uvicorn.h11_guard import H11Guard  # noqa: PLC0415  # only if used

            guards[H11Protocol] = H11Guard
    except ImportError as error:
        raise unsupported_uvicorn(error) from error
    return guards


HTTPProtocol = guarded(AutoHTTPProtocol)
"""uvicorn's protocol with the default limits, for other ways to start uvicorn.

``uvicorn app:app --http alula.express:HTTPProtocol`` protects as `listen` does.
"""
