"""Who is calling: what the hook and the middleware `authenticate` have in common.

It knows authentication services by what they can do (``authenticate``, ``parse``), not by their
class, and so does the web layer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from alula._context import Params
from alula._service import ServiceHandle
from alula.errors import NotAuthenticated

__all__ = ["authentication_at", "find_authentication", "identify", "strategies_of"]

_log: Final = logging.getLogger("alula.authentication")


def strategies_of(
    name: str, names: tuple[str, ...], strategies: Iterable[str] | None
) -> tuple[str, ...]:
    """Return the strategies that ``authenticate(*names, strategies=...)`` means.

    Raises:
        TypeError: There are none, or something is no name.
    """
    found = (*names, *(strategies or ()))
    if isinstance(strategies, str) or not all(isinstance(each, str) for each in found):
        raise TypeError(f"{name}(...) takes names of strategies: {name}('jwt')")
    if not found:
        raise TypeError(f"{name}() needs at least one strategy: {name}('jwt')")
    return found


def find_authentication(app: Any, path: str | None = None) -> Any:
    """Return the authentication service at a path, None where there is nothing.

    Args:
        app: The application.
        path: None for the default service: the one that the setting ``authentication`` names,
            which is the first that was set up, or else ``"authentication"``.

    Raises:
        LookupError: The application has no services at all.
    """
    services = getattr(app, "services", None)
    if services is None:
        raise LookupError(
            f"{app!r} has no services, so nobody can sign in there; for middleware that needs"
            " them, mount a Router() in its place"
        )
    handle = services.get(path or app.settings.get("authentication") or "authentication")
    service = None if handle is None else handle.service
    while isinstance(service, ServiceHandle):  # that of another application
        service = service.service
    return service


def authentication_at(app: Any, path: str | None = None) -> Any:
    """Return the authentication service at a path.

    Args:
        app: The application.
        path: As in `find_authentication`.

    Raises:
        LookupError: There is none.
    """
    service = find_authentication(app, path)
    if not callable(getattr(service, "authenticate", None)):
        place = path or app.settings.get("authentication") or "authentication"
        raise LookupError(
            f"there is no authentication service at {place!r}; register one there, or name its"
            " path: app.set('authentication', path)"
        )
    return service


async def identify(app: Any, params: Params, path: str | None, strategies: tuple[str, ...]) -> None:
    """Let ``params`` say who is calling; internal calls without a proof pass as they are.

    Args:
        app: The application.
        params: The params of the call, with the proof under ``authentication``.
        path: The path of the authentication service, None for the default one.
        strategies: Names of the strategies that are allowed.

    Raises:
        NotAuthenticated: The call comes from outside and proves nothing, or its proof is not good.
        LookupError: There is no such authentication service.
    """
    service = authentication_at(app, path)
    proof = params.authentication
    if params.get("authenticated") is True:
        if proof is None:  # server code says so
            return
        # What another service or strategy has checked does not count here.
        if params.get("authenticated_by") is service and proof.get("strategy") in strategies:
            return
    if proof is None:
        if params.provider is not None:
            _tell_unknown(service, strategies)
            raise NotAuthenticated("Not authenticated")
        return
    try:
        result = await service.authenticate(proof, params, *strategies)
    except NotAuthenticated:
        _tell_unknown(service, strategies)
        raise
    own = params.__dict__
    own.update(result)
    own.pop("accessToken", None)
    own["authenticated"], own["authenticated_by"] = True, service


def _tell_unknown(service: Any, strategies: tuple[str, ...]) -> None:
    """Log that nobody can pass, where none of the allowed strategies is registered."""
    strategy_named = getattr(service, "strategy", None)
    if strategy_named is None:
        return
    error: LookupError | None = None
    for name in strategies:
        try:
            strategy_named(name)
        except LookupError as unknown:
            error = unknown
        else:
            return
    allowed = ", ".join(map(repr, strategies))
    _log.warning("nobody can pass authenticate(%s): %s", allowed, error)
