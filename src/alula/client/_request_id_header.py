"""The id of the request that is served here, for the servers that are asked meanwhile."""

from __future__ import annotations

from alula._context import HookContext, Params
from alula.logs._request_ids import REQUEST_ID_HEADER, current_request_id

__all__ = ["forward_request_id"]


def forward_request_id(context: HookContext) -> None:
    """Send the id of the current request along, as ``X-Request-Id``: a before hook.

    ``client.hooks(before=[forward_request_id])``. Without a current request, and where the call
    has such a header of its own, nothing is added.
    """
    known = current_request_id()
    headers = context.params.get("headers") or {}
    if known is not None and REQUEST_ID_HEADER not in {name.lower() for name in headers}:
        context.params = Params(context.params, headers={**headers, REQUEST_ID_HEADER: known})
