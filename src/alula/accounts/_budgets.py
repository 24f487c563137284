"""Budgets of requests that one network may make."""

from __future__ import annotations

from typing import Any

from alula._context import Params
from alula._gcra import too_many_requests
from alula._shares import network_of

__all__ = ["charge_network"]


async def charge_network(authentication: Any, what: str, params: Params, tries: int) -> None:
    """Take a try out of a budget of the network that a call comes from.

    Args:
        authentication: The authentication service, whose throttle keeps the budgets.
        what: What the budget is for.
        params: The params of the call. Calls of the application itself cost nothing.
        tries: How many tries there are in an hour.

    Raises:
        TooManyRequests: The budget is spent.
    """
    throttle, network = authentication.throttle, network_of(params.ip)
    if throttle is None or params.provider is None or network is None:
        return
    if wait := await throttle.take(f"accounts: {what} of a network", network, tries, "1h"):
        raise too_many_requests("Too many requests from this address", wait * 1000)
