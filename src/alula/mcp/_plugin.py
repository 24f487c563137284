"""`mcp`: a plugin that offers methods of services as tools for agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from alula.errors import MethodNotAllowed
from alula.express import ExpressApplication, Request, Response, json
from alula.mcp._endpoint import Endpoint
from alula.mcp._tools import Toolbox, read_names

__all__ = ["mcp"]

_URL_SETTING: Final = "public url"
_METADATA: Final = "/.well-known/oauth-protected-resource"
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")


def mcp(
    services: Mapping[str, Sequence[str] | Mapping[str, str]],
    *,
    path: str = "/mcp",
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    issuer: str | None = None,
    scopes: Iterable[str] = (),
    name: str = "API",
    version: str = "1.0.0",
    instructions: str | None = None,
    timeout: float = 60,
) -> Callable[[ExpressApplication], None]:
    """Return the plugin that offers methods of services as tools for agents, by MCP.

    A call of a tool runs all hooks, like a call of any other client, with ``"mcp"`` as
    ``params.provider``. Configure it after `rest`, which reads the credentials of requests.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import api
        >>> app = api().use("todos", MemoryService())
        >>> app = app.configure(mcp({"todos": ["find", "get"]}, hosts=["api.example.com"]))

    Args:
        services: The methods to offer, by the path of their service. The tool for ``find`` of
            ``todos`` is called ``todos_find``; ``{"todos": {"find": "search_todos"}}`` gives it
            another name.
        path: The path of the endpoint.
        hosts: The hosts under which agents reach the server, with the port if it is not the usual
            one; ``:*`` at the end means any port. By default the host of the setting ``public
            url``, or in debug mode this machine.
        origins: The origins of pages that may call tools, such as ``"https://example.com"``.
        issuer: The URL of the authorization server whose tokens the application accepts. Agents
            find it in the metadata of the endpoint. Set ``public url`` to the URL at which clients
            reach the application, because the metadata contain it.
        scopes: The scopes that the metadata name.
        name: The name of the application, for agents.
        version: Its version.
        instructions: What agents should know before they call a tool.
        timeout: How many seconds a call may last.

    Raises:
        TypeError: ``services`` is not such a mapping. Raised by the plugin: ``express(App())`` did
            not make the application.
        ValueError: A name of a tool is not valid, or given twice; or another argument is wrong.
            Raised at the setup: clients cannot call one of the methods.
        RuntimeError: Raised by the plugin: `rest` is missing, or `mcp` is configured already.
            Raised at the setup: no host is named, or the setting ``public url`` is missing.
    """
    names = read_names(services)
    named_hosts, pages = _host_names(hosts), _origins(origins)
    scope_names = _texts("scopes", scopes)
    if not path.startswith("/") or not path.strip("/"):
        raise ValueError(f'mcp(path={path!r}): write a path such as "/mcp"')
    if issuer is not None:
        _check_url("mcp(issuer=...)", issuer)
    elif scope_names:
        raise ValueError("mcp(scopes=...) has no effect without an issuer; add mcp(issuer=...)")
    if not timeout > 0:
        raise ValueError(f"mcp(timeout={timeout!r}): give a number of seconds over 0")
    endpoint_path = "/" + path.strip("/")
    metadata_path = f"{_METADATA}{endpoint_path}"

    def configure(app: ExpressApplication) -> None:
        _check_application(app)
        tools = Toolbox(app, names)
        endpoint = Endpoint(
            app, tools, name=name, version=version, instructions=instructions, timeout=timeout
        )

        async def set_up(_: object, next: Callable[[], Awaitable[None]]) -> None:
            await next()
            tools.check()
            public_url = _public_url(app, is_needed=issuer is not None)
            metadata = None if issuer is None else f"{public_url}{metadata_path}"
            known_hosts, known_pages = _hosts(named_hosts, public_url, is_debugged=app.debug)
            await endpoint.start(known_hosts, [*known_pages, *pages], metadata)

        async def tear_down(_: object, next: Callable[[], Awaitable[None]]) -> None:
            await endpoint.stop()
            await next()

        app.hooks(setup=[set_up], teardown=[tear_down])
        app.post(endpoint_path, json(), endpoint.respond)
        app.all(endpoint_path, _refuse)
        if issuer is not None:
            app.get(metadata_path, partial(_describe, app, endpoint_path, issuer, scope_names))

    return configure


def _refuse(req: Request, _: Response) -> None:
    """Respond to a request that is not a message of an agent.

    Raises:
        MethodNotAllowed: Always.
    """
    error = MethodNotAllowed(f"Method {req.method} not allowed; agents send POST")
    error.headers = {"Allow": "POST"}
    raise error


def _describe(
    app: ExpressApplication,
    path: str,
    issuer: str,
    scopes: Sequence[str],
    _: Request,
    res: Response,
) -> None:
    """Respond with the metadata of the endpoint, by which agents find who issues tokens."""
    res.json(
        {
            "resource": f"{_public_url(app, is_needed=True)}{path}",
            "authorization_servers": [issuer],
            "bearer_methods_supported": ["header"],
            **({"scopes_supported": scopes} if scopes else {}),
        }
    )


def _texts(option: str, given: Iterable[str]) -> list[str]:
    values = [given] if isinstance(given, str) else list(given)
    for value in values:
        if not isinstance(value, str) or not value:
            raise TypeError(f"mcp({option}=...) takes a list of texts, not {value!r}")
    return values


def _host_names(hosts: Iterable[str]) -> list[str]:
    """Return the hosts in lower case, as they are compared.

    Raises:
        ValueError: One of them is a URL, which no header ``Host`` is.
    """
    names = _texts("hosts", hosts)
    for name in names:
        if "/" in name:
            raise ValueError(
                f'mcp(hosts=[{name!r}]): name the host alone, such as "api.example.com"'
            )
    return [name.lower() for name in names]


def _origins(origins: Iterable[str]) -> list[str]:
    """Return the origins in lower case, as they are compared.

    Raises:
        ValueError: One of them is no origin, such as a host without a scheme.
    """
    texts = _texts("origins", origins)
    for text in texts:
        scheme, separator, rest = text.partition("://")
        if not (scheme and separator and rest) or "/" in rest:
            raise ValueError(
                f"mcp(origins=[{text!r}]): an origin is a scheme and a host, without a path:"
                ' "https://example.com"'
            )
    return [text.lower() for text in texts]


def _check_application(app: Any) -> None:
    if not isinstance(app, ExpressApplication):
        raise TypeError(f"mcp() configures what express(App()) returns, not {app!r}")
    if "rest" not in app.transports:
        raise RuntimeError(
            "mcp() needs rest(), which reads the credentials of requests: write"
            " app.configure(rest()) before it"
        )
    if "mcp" in app.settings:
        raise RuntimeError("mcp() is configured already; name all services in one mapping")
    app.settings["mcp"] = True


def _check_url(what: str, url: object) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.netloc:
        raise ValueError(f'{what} is a URL such as "https://api.example.com", not {url!r}')
    return parts.geturl()


def _public_url(app: ExpressApplication, *, is_needed: bool) -> str | None:
    """Return the URL at which clients reach the application.

    Raises:
        RuntimeError: It is needed, and not set.
        ValueError: The setting is not a URL.
    """
    url = app.settings.get(_URL_SETTING)
    if url is None:
        if is_needed:
            raise RuntimeError(
                "mcp(issuer=...) needs the URL of the application for clients: write"
                f' app.set({_URL_SETTING!r}, "https://api.example.com")'
            )
        return None
    return _check_url(f"the setting {_URL_SETTING!r}", url).rstrip("/")


def _hosts(
    named: Sequence[str], public_url: str | None, *, is_debugged: bool
) -> tuple[list[str], list[str]]:
    """Return the accepted values of ``Host``, and the origins that belong to them.

    Without this check, an attacker's page could point its own host name at this server, and read
    what the browser may read (DNS rebinding).

    Raises:
        RuntimeError: No host is known.
    """
    if named:
        return list(named), []
    if public_url is not None:
        parts = urlsplit(public_url)
        host = parts.netloc.lower()
        return [host], [f"{parts.scheme}://{host}"]
    if is_debugged:
        hosts = [host + port for host in _LOCAL for port in ("", ":*")]
        return hosts, [f"http://{host}" for host in hosts]
    raise RuntimeError(
        'mcp() needs the names of its hosts: mcp(..., hosts=["api.example.com"]), or the setting'
        f" {_URL_SETTING!r}. Without them it serves only this machine, in debug mode"
    )
