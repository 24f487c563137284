"""An id for every request, for logs here and on the servers behind this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Token
from functools import lru_cache, partial
from ipaddress import ip_address, ip_network
from typing import Any, Final

from alula.express._chain import ignores_body
from alula.express._request import Request
from alula.express._response import ASGIApp, Response
from alula.express._routing import singleton
from alula.logs._request_ids import (
    begin_request,
    end_request,
    new_request_id,
    trace_id_of,
    valid_request_id,
)

__all__ = ["request_id"]

_THIS_MACHINE: Final = ("127.0.0.0/8", "::1")


def request_id(
    *, header: str = "X-Request-Id", trusted: Iterable[str] | bool = _THIS_MACHINE
) -> Any:
    """Return middleware that gives every request an id; register it first.

    It is ``req.request_id``, what `alula.logs.current_request_id` returns in hooks, services and
    whatever they call, and a header of the answer. Of a trusted proxy the id in the header is
    taken, or else the trace id of ``traceparent``; ids that no log can take are replaced.

    Args:
        header: Name of the header, of requests and answers.
        trusted: Addresses and networks of proxies whose ids count: ``["10.0.0.0/8"]``. True
            trusts whoever sends one, which suits servers that only a proxy can reach; False
            nobody.

    Raises:
        ValueError: One of them is no address.
        TypeError: ``trusted`` is a single string.
    """
    trusts = _trust(trusted)
    name = header.lower()

    @ignores_body
    def middleware(req: Request, res: Response, next: Any) -> Any:
        given = req.headers.get(name)
        parent = req.headers.get("traceparent") if given is None else None
        known = None
        if (given or parent) and trusts(req.ip):
            known = valid_request_id(given) or trace_id_of(parent)
        known = req.request_id = known or new_request_id()
        res.set(name, known)
        res.wrap(partial(_until_sent, begin_request(known)))
        return next()

    return singleton("request_id", middleware)


def _until_sent(token: Token[str | None], answer: ASGIApp) -> ASGIApp:
    """Keep the id for what a stream logs while it is sent, and no longer."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        try:
            await answer(scope, receive, send)
        finally:
            end_request(token)

    return run


def _trust(trusted: Iterable[str] | bool) -> Callable[[str | None], bool]:
    if isinstance(trusted, bool):
        return lambda _: trusted
    if isinstance(trusted, str):
        raise TypeError(f"request_id(trusted={trusted!r}): give a list: [{trusted!r}]")
    networks = [ip_network(one, strict=False) for one in trusted]

    @lru_cache(maxsize=256)
    def trusts(ip: str | None) -> bool:
        try:
            address = ip_address(ip or "")
        except ValueError:  # a socket of the file system, or a server that knows no addresses
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in networks)

    return trusts
