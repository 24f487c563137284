"""Checks who is calling, for the hook and the middleware `authenticate`.

Also what guards of callers need: a key of the application, and a service closed to clients.

Authentication services are known by their methods (``authenticate``, ``parse``), not by their
class: the web layer does not import `alula.authentication`.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from alula._channels import Channels
from alula._connection import Connection
from alula._context import HookContext, Params, connection_params
from alula._service import ServiceHandle, owning_handle
from alula.errors import Forbidden, FrameworkError, NotAuthenticated
from alula.hooks import hook_metadata
from alula.types import is_mapping

__all__ = [
    "ALL_SCOPES",
    "AmbientCredentials",
    "Application",
    "Handshake",
    "KeyAccess",
    "SentRequest",
    "add_tickets",
    "authentication_at",
    "authentication_lookup",
    "check_scope",
    "default_scope",
    "find_authentication",
    "identify",
    "identify_connection",
    "is_scope",
    "key_access",
    "private_service",
    "scope_option",
    "services_of_host",
    "shared_key",
    "strategies_of",
]

_log: Final = logging.getLogger("alula.authentication")

ALL_SCOPES: Final = "*"
"""The scope of keys that may do whatever their user may do."""

_LONGEST_SCOPE: Final = 200
_READING: Final = frozenset({"find", "get"})
_NO_NAMES: Final[frozenset[str]] = frozenset()


class Application(Protocol):
    """An application with services: an `App`, or what `alula.express.express` makes of one."""

    @property
    def settings(self) -> dict[Any, Any]:
        """The settings by name."""
        ...

    @property
    def services(self) -> Mapping[str, ServiceHandle]:
        """The handles of the services, by path."""
        ...

    @property
    def channel_registry(self) -> Channels:
        """The channels and connections."""
        ...

    # Any: an application may be typed with the paths that it has.
    def service(self, path: Any) -> ServiceHandle:
        """Return the handle of a service."""
        ...

    # Positional: the web application takes the path and the service among `*items`.
    def use(self, path: str, service: Any, /, *, methods: Iterable[str] | None = None) -> object:
        """Register a service."""
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


def scope_option(name: str, scope: object) -> None:
    """Check the option ``scope`` of ``authenticate(...)``.

    Raises:
        TypeError: It is neither None nor a scope.
    """
    if scope is not None and not is_scope(scope):
        raise TypeError(f"{name}(scope={scope!r}): a scope is a text such as 'reports:read'")


def find_authentication(app: Application, path: str | None = None) -> Any:
    """Return the authentication service at a path, None if nothing is registered there.

    Args:
        app: The application.
        path: None for the default service: the one that the setting ``authentication`` names,
            which is the first that was set up, or else ``"authentication"``.

    Raises:
        LookupError: The application cannot have services.
    """
    try:
        services = app.services
    except AttributeError:  # a router or a web application without an `App`, from middleware
        raise LookupError(
            f"{app!r} has no services, so nobody can sign in there; for middleware that needs"
            " them, mount a Router() in its place"
        ) from None
    handle = services.get(path or app.settings.get("authentication") or "authentication")
    if handle is None:
        return None
    service = handle.service
    # `owning_handle` only where it is mounted from another application: it takes longer.
    return owning_handle(service).service if isinstance(service, ServiceHandle) else service


def _default_path(app: Application) -> str:
    return app.settings.get("authentication") or "authentication"


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
        place = path or _default_path(app)
        raise LookupError(
            f"there is no authentication service at {place!r}; register one there, or name its"
            " path: app.set('authentication', path)"
        )
    return service


def authentication_lookup(path: str | None) -> Callable[[Application], Any]:
    """Return a function that returns the authentication service of an application.

    It calls `authentication_at` again only where another handle is at the path than the last time
    (an authenticated get: -4 % instructions).

    Args:
        path: As in `find_authentication`.
    """
    # One tuple, read and replaced as a whole: applications in several threads may share a hook.
    known: tuple[Any, Mapping[str, ServiceHandle], Mapping[str, Any], Any, Any]
    known = (None, {}, {}, None, None)
    fixed = {"authentication": path}

    def look_up(app: Application) -> Any:
        nonlocal known
        known_app, services, settings, known_handle, service = known
        if (
            app is known_app
            and services.get(settings.get("authentication") or "authentication") is known_handle
        ):
            return service
        service = authentication_at(app, path)  # before anything else: it explains what is wrong
        services, settings = app.services, fixed if path else app.settings
        handle = services.get(settings.get("authentication") or "authentication")
        known = app, services, settings, handle, service
        return service

    return look_up


def services_of_host(app: Application) -> Iterator[tuple[str, Any]]:
    """Yield all services that browsers send the same cookies to, each with a path of it.

    They are those of the application, of all that are mounted in it, of those that it is mounted
    in, and of their neighbours.

    Args:
        app: The application.
    """
    known: list[object] = []
    waiting: list[Any] = [app]
    while waiting:
        each = waiting.pop(0)
        if any(each is other for other in known):
            continue
        known.append(each)
        waiting += getattr(each, "neighbours", ())
        for path, handle in getattr(each, "services", {}).items():
            owner = owning_handle(handle)
            waiting += [owner.app, *(mount.app for mount in handle.mounts)]
            yield path, owner.service


async def identify(
    service: Any, params: Params, strategies: tuple[str, ...], *, optional: bool = False
) -> None:
    """Check the credentials of a call, and put its user into ``params``.

    Internal calls without credentials pass.

    Args:
        service: The authentication service.
        params: The params of the call, with the credentials under ``authentication``.
        strategies: Names of the strategies that are allowed.
        optional: Whether calls from clients pass without credentials too.

    Raises:
        NotAuthenticated: The credentials are not valid, or a call from a client has none.
        Forbidden: They are an API key or the like, which does not count here.
    """
    values = params.__dict__  # once: attributes of params take four times as long
    credentials = values.get("authentication")
    if "authenticated" in values and values["authenticated"] is True:
        if credentials is None:  # set by the server's own code: clients cannot set params
            return
        # What another service or strategy has checked does not count here.
        other = values.get("authenticated_by")
        if other is service:
            if credentials.get("strategy") in strategies:
                return
        elif (entity := getattr(service, "entity", "")) == getattr(other, "entity", None):
            # A user of the other service is nobody here, also where the strategy finds none.
            values.pop(entity, None)
    if credentials is None:
        if values.get("provider") is not None and not optional:
            _warn_of_unknown(service, strategies)
            raise NotAuthenticated("Not authenticated")
        return
    try:
        result = await service.authenticate(credentials, params, *strategies)
    except NotAuthenticated:
        _warn_of_unknown(service, strategies)
        name = credentials.get("strategy") if is_mapping(credentials) else None
        if name in _scoped_strategies(service) and name not in strategies:
            # Not a 401: another key would not help, and the client would throw this one away.
            raise Forbidden("This needs a person who is signed in, and accepts no key") from None
        raise
    values.update(result)  # as attributes, which need no declaration
    if "accessToken" in values:
        del values["accessToken"]
    values["authenticated"] = True
    values["authenticated_by"] = service


def is_scope(scope: object) -> bool:
    """Tell whether a value can be a scope: a text without blanks, such as ``"reports:read"``."""
    if not isinstance(scope, str) or not 0 < len(scope) <= _LONGEST_SCOPE:
        return False
    return scope.isprintable() and " " not in scope


def default_scope(path: str, method: str) -> str:
    """Return the scope that a key needs for a method of a service whose hook names none.

    Args:
        path: Where the service is registered.
        method: The method.
    """
    return f"{path}:{'read' if method in _READING else 'write'}"


def check_scope(service: Any, params: Params, scope: str | None) -> None:
    """Refuse a call from a client by a key that lacks a scope. Other callers have all scopes.

    Args:
        service: The authentication service that has identified the caller.
        params: The params of the call.
        scope: What a key needs; None refuses all keys.

    Raises:
        Forbidden: It does.
    """
    values = params.__dict__
    authentication = values.get("authentication")
    if authentication is None or values.get("provider") is None:
        return
    if authentication.get("strategy") not in _scoped_strategies(service):
        return
    if scope is None:
        _log.warning("a route accepts keys, but names no scope: add authenticate(..., scope=...)")
        raise Forbidden("Keys are not accepted here")
    scopes = authentication.get("scopes", ())
    if scope not in scopes and ALL_SCOPES not in scopes:
        raise Forbidden(f"This key lacks the scope {scope}", data={"code": "scope", "scope": scope})


class KeyAccess(NamedTuple):
    """How API keys may call a method of a service.

    Attributes:
        scopes: The scopes that a key needs, by the name of its strategy. A strategy whose keys
            cannot call the method is missing.
        schemes: How clients send these keys, as security schemes of OpenAPI, by the same names.
        is_only_way: Whether nothing but keys is accepted.
    """

    scopes: Mapping[str, tuple[str, ...]]
    schemes: Mapping[str, Mapping[str, Any]]
    is_only_way: bool


def key_access(handle: ServiceHandle, method: str) -> KeyAccess:
    """Return how API keys may call a method, by the hooks that are registered so far.

    Args:
        handle: The service.
        method: The method.
    """
    scopes: dict[str, tuple[str, ...]] | None = None
    schemes: dict[str, Mapping[str, Any]] = {}
    is_only_way = False
    for service, metadata in _sign_in_hooks(handle, method):
        authentication = find_authentication(service.app, metadata.get("authentication"))
        names = _scoped_strategies(authentication).intersection(metadata["strategies"])
        scope = metadata.get("scope") or default_scope(service.path, method)
        # Each `authenticate` around the method has to let a key pass.
        before = dict.fromkeys(names, ()) if scopes is None else scopes
        scopes = {name: (*before[name], scope) for name in sorted(names & before.keys())}
        for name in scopes:
            if (scheme := authentication.strategy(name).security_scheme) is not None:
                schemes[name] = scheme
        is_only_way = is_only_way or names.issuperset(metadata["strategies"])
    needed = {name: (*dict.fromkeys(each),) for name, each in (scopes or {}).items()}
    sent = {name: schemes[name] for name in needed if name in schemes}
    return KeyAccess(needed, sent, is_only_way)


def _sign_in_hooks(handle: ServiceHandle, method: str) -> Iterator[tuple[ServiceHandle, Any]]:
    """Yield the metadata of each `authenticate` around a method, with the service it is about."""
    for table in (handle.app.hook_table, handle.hook_table):
        for hook in (*table.of("around", method), *table.of("before", method)):
            if "strategies" in (metadata := hook_metadata(hook)):
                yield handle, metadata
    if isinstance(handle.service, ServiceHandle):  # of a mounted application
        yield from _sign_in_hooks(handle.service, method)


def _scoped_strategies(service: Any) -> frozenset[str]:
    """Return the names of the strategies whose credentials are limited to scopes."""
    return getattr(service, "scoped_strategies", _NO_NAMES)


class AmbientCredentials(dict[str, Any]):
    """Credentials that a browser adds to each request by itself, such as those of a cookie.

    Args:
        credentials: The credentials as strategies get them.
        is_of_own_page: Whether the request certainly comes from a page that may use them.
        refusal: Why they do not count for this request, None if they do.
    """

    def __init__(
        self,
        credentials: Mapping[str, Any],
        *,
        is_of_own_page: bool,
        refusal: FrameworkError | None,
    ) -> None:
        super().__init__(credentials)
        self.is_of_own_page = is_of_own_page
        self.refusal = refusal


class SentRequest(Protocol):
    """The part of a request that credentials are read from; also of a `Handshake`."""

    @property
    def scope(self) -> Mapping[str, Any]:
        """The ASGI scope."""
        ...

    @property
    def sent_headers(self) -> Mapping[bytes, bytes]:
        """The headers by their names in lower case; of one that is there twice, the last."""
        ...


class Handshake:
    """The request that opened a real-time connection, as strategies parse it.

    Args:
        connection: The connection.

    Attributes:
        method: Always ``"GET"``.
        headers: The headers, names in lower case.
        ip: The address of the client, None if unknown.
        query: Empty: credentials in URLs end up in logs.
        scope: The same as an ASGI scope.
        sent_headers: The headers in bytes, as those of a request.
    """

    def __init__(self, connection: Connection) -> None:
        self.method = "GET"
        self.headers = connection.headers
        self.ip = connection.ip
        self.query: dict[str, Any] = {}
        raw = [
            (name.encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in connection.headers.items()
        ]
        self.sent_headers = dict(raw)
        client = None if self.ip is None else (self.ip, 0)
        self.scope = {"type": "http", "method": "GET", "headers": raw, "client": client}


async def identify_connection(
    app: Application, connection: Connection, ticket: str | None = None
) -> None:
    """Sign a new connection in by the headers of its handshake, as REST does by those of a request.

    Nothing happens without credentials, with a cookie that the page may not use, or where no
    authentication service is registered. Credentials of a strategy that clients cannot sign in
    with, such as an API key, identify the connection without a session.

    Args:
        app: The application.
        connection: The connection. The credentials that middleware has set as its
            ``authentication`` count in place of the headers.
        ticket: A ticket from the URL, which counts in place of both.

    Raises:
        NotAuthenticated: The credentials are not valid.
        TooManyRequests: There were too many attempts to sign in.
        Exception: Any that hooks of the authentication service raise.
    """
    service = find_authentication(app)
    parse = getattr(service, "parse", None)
    if parse is None:
        return
    if ticket is None and connection.authentication is not None:  # from a cookie, for example
        credentials = connection.authentication
    elif ticket is None:
        credentials = parse(Handshake(connection), None)
        if hasattr(credentials, "__await__"):
            credentials = await credentials
    else:
        credentials = await service.credentials_of_ticket(ticket)
    if isinstance(credentials, AmbientCredentials) and not credentials.is_of_own_page:
        connection.authentication = None  # calls of the connection would take them from there
        return
    if credentials is None:
        return
    params = connection_params(connection, {}, {})
    if hasattr(service, "only_identifies") and service.only_identifies(credentials):
        await service.connections.identify(connection, credentials, params)
        return
    handle = app.service(_default_path(app))
    await handle.run(HookContext(handle.app, handle, "create", params, None, credentials))


def shared_key(app: Application, purpose: bytes) -> bytes | None:
    """Return a key that all processes of an application have, derived from its secret.

    Args:
        app: The application.
        purpose: What the key is for; another purpose has another key.

    Returns:
        None if there is no secret: neither that of an authentication service, nor the setting
        ``authentication_secret``, nor the environment variable ``ALULA_SECRET``.
    """
    service = find_authentication(app)
    if hasattr(service, "derived_key"):
        key: bytes = service.derived_key(purpose)
        return key
    secret = app.settings.get("authentication_secret") or os.environ.get("ALULA_SECRET")
    if not secret:
        return None
    secret = secret.encode() if isinstance(secret, str) else secret
    return hmac.digest(secret, b"alula:" + purpose, "sha256")


def private_service(app: Application, path: str, option: str) -> ServiceHandle:
    """Return the handle of a service that an option names, and check that clients cannot call it.

    Args:
        app: The application.
        path: Where the service is registered.
        option: The name of the option, for the messages.

    Raises:
        ValueError: It is not registered, or clients can call it.
    """
    handle = app.services.get(path.strip("/"))
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
    handle.never_publish()
    return handle


def add_tickets(app: Application) -> None:
    """Let the authentication service of an application offer tickets, from its setup on."""
    app.settings["authentication_tickets"] = True


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
