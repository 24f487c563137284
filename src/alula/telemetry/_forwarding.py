"""The open span, for the servers that are asked meanwhile."""

from __future__ import annotations

from opentelemetry import propagate

from alula._context import HookContext, Params

__all__ = ["forward_trace"]


def forward_trace(context: HookContext) -> None:
    """Send the open span along, as ``traceparent``: a before hook for clients of `alula.client`.

    ``client.hooks(before=[forward_trace])``. Headers of the call stay, and count more.
    """
    added: dict[str, str] = {}
    propagate.inject(added)
    if added:
        headers = context.params.get("headers") or {}
        context.params = Params(context.params, headers={**added, **headers})
