"""An id for every request, for logs here and on the servers behind this one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final

from alula.express._chain import Middleware, goes_on, singleton
from alula.express._request import Request
from alula.express._response import Response
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
) -> Middleware:
    """Return middleware that gives every request an id; register it first.

    The id is ``req.request_id``, what `alula.logs.current_request_id` returns in hooks and
    services, and a header of the response. From a trusted proxy, the id in the header is used, or
    else the trace id of ``traceparent``; ids that are not safe to log are replaced.

    Examples:
        >>> from alula.express import express, request_id
        >>> web = express().use(request_id(trusted=["10.0.0.0/8"]))

    Args:
        header: Name of the header, of requests and responses.
        trusted: Addresses and networks of proxies whose ids are used: ``["10.0.0.0/8"]``. True
            trusts every client, which suits servers that only a proxy can reach; False trusts
            none.

    Raises:
        ValueError: One of them is not an address.
        TypeError: ``trusted`` is a single string.
    """
    if isinstance(trusted, str):
        raise TypeError(f"request_id(trusted={trusted!r}): give a list: [{trusted!r}]")
    trusts_all = trusted is True
    proxies = () if isinstance(trusted, bool) else trusted
    networks = [ip_network(proxy, strict=False) for proxy in proxies]
    name = header.lower()

    # Parsing an address takes longer than all else here, and proxies have few addresses.
    @lru_cache(maxsize=256)
    def is_trusted(ip: str | None) -> bool:
        try:
            address = ip_address(ip or "")
        except ValueError:  # a Unix socket, or a server that knows no addresses
            return False
        # A server that listens on "::" sees IPv4 clients as ::ffff:10.0.0.1.
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in networks)

    @goes_on
    def middleware(req: Request, res: Response) -> None:
        sent = req.headers.get(name)
        traceparent = req.headers.get("traceparent") if sent is None else None
        id_ = None
        if (sent or traceparent) and (trusts_all or is_trusted(req.ip)):
            id_ = valid_request_id(sent) or trace_id_of(traceparent)
        id_ = req.request_id = id_ or new_request_id()
        res.set(name, id_)
        token = begin_request(id_)
        # A stream may log while it is sent; a next request of the connection has its own id.
        res.on_end(lambda _: end_request(token))

    return singleton("request_id", middleware)
