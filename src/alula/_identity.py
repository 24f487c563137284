"""Checks who is calling, for the hook and the middleware `authenticate`.

Authentication services are known by their methods (``authenticate``, ``parse``), not by their
class: the web layer does not import `alula.authentication`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from alula._context import Params
from alula._service import ServiceHandle, owning_handle
from alula.errors import NotAuthenticated

__all__ = [
    "Application",
    "authentication_at",
    "find_authentication",
    "identify",
    "strategies_of",
]

_log: Final = logging.getLogger("alula.authentication")


class Application(Protocol):
    """An application with services: an `App`, or what `alula.express.express` makes of one."""

    settings: dict[str, Any]

    @property
    def services(self) -> Mapping[str, ServiceHandle]:
        """The handles of the services, by path."""
        ...

    def service(self, path: str) -> ServiceHandle:
        """Return the handle of a service."""
        ...

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event of the application."""
        ...


def strategies_of(
    name: str, names: tuple[str, ...], strategies: Iterable[str] | None
) -> tuple[str, ...]:
    """Return the names of strategies in ``authenticate(*names, strategies=...)``.

    Raises:
        TypeError: There are none, or one of them is not a string.
    """
    allowed = (*names, *(strategies or ()))
    if isinstance(strategies, str) or not all(isinstance(strategy, str) for strategy in allowed):
        raise TypeError(f"{name}(...) takes names of strategies: {name}('jwt')")
    if not allowed:
        raise TypeError(f"{name}() needs at least one strategy: {name}('jwt')")
    return allowed


def find_authentication(app: Application, path: str | None = None) -> Any:
    """Return the authentication service at a path, None if nothing is registered there.

    Args:
        app: The application.
        path: None for the default service: the one that the setting ``authentication`` names,
            which is the first that was set up, or else ``"authentication"``.

    Raises:
        LookupError: The application cannot have services.
    """
    # A router or a web application without an `App` gets here from middleware.
    services: Mapping[str, ServiceHandle] | None = getattr(app, "services", None)
    if services is None:
        raise LookupError(
            f"{app!r} has no services, so nobody can sign in there; for middleware that needs"
            " them, mount a Router() in its place"
        )
    handle = services.get(path or app.settings.get("authentication") or "authentication")
    return None if handle is None else owning_handle(handle).service


def authentication_at(app: Application, path: str | None = None) -> Any:
    """Return the authentication service at a path.

    Args:
        app: The application.
        path: As in `find_authentication`.

    Raises:
        LookupError: No authentication service is registered there.
    """
    service = find_authentication(app, path)
    if not callable(getattr(service, "authenticate", None)):
        place = path or app.settings.get("authentication") or "authentication"
        raise LookupError(
            f"there is no authentication service at {place!r}; register one there, or name its"
            " path: app.set('authentication', path)"
        )
    return service


async def identify(
    app: Application, params: Params, path: str | None, strategies: tuple[str, ...]
) -> None:
    """Check the credentials of a call, and put its user into ``params``.

    Internal calls without credentials pass.

    Args:
        app: The application.
        params: The params of the call, with the credentials under ``authentication``.
        path: The path of the authentication service, None for the default one.
        strategies: Names of the strategies that are allowed.

    Raises:
        NotAuthenticated: The credentials are not valid, or a call from a client has none.
        LookupError: No such authentication service is registered.
    """
    service = authentication_at(app, path)
    credentials = params.authentication
    if params.get("authenticated") is True:
        if credentials is None:  # set by the server's own code: clients cannot set params
            return
        # What another service or strategy has checked does not count here.
        is_same_service = params.get("authenticated_by") is service
        if is_same_service and credentials.get("strategy") in strategies:
            return
    if credentials is None:
        if params.provider is not None:
            _warn_of_unknown(service, strategies)
            raise NotAuthenticated("Not authenticated")
        return
    try:
        result = await service.authenticate(credentials, params, *strategies)
    except NotAuthenticated:
        _warn_of_unknown(service, strategies)
        raise
    values = params.__dict__  # as attributes, which need no declaration
    values.update(result)
    values.pop("accessToken", None)
    values["authenticated"], values["authenticated_by"] = True, service


def _warn_of_unknown(service: object, strategies: tuple[str, ...]) -> None:
    """Log a warning if none of the allowed strategies is registered: then nobody can pass."""
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
