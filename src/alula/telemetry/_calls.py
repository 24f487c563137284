"""A span and measurements for each call of a service, as an around hook of the application.

Nothing of what is called with gets into them: no ids, no data, no query, no messages of errors.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Final, TypeAlias

from opentelemetry.metrics import Meter
from opentelemetry.trace import SpanKind, Tracer

from alula._context import HookContext
from alula.telemetry._conventions import (
    ERROR_TYPE,
    error_type_of,
    histogram,
    mark_failed,
    remote_parent,
    status_of,
)

__all__ = ["call_observer"]

Hook: TypeAlias = Callable[[HookContext, Any], Coroutine[Any, Any, None]]
Attributes: TypeAlias = dict[str, str]

_STATUS: Final = "rpc.response.status_code"


def call_observer(tracer: Tracer, meter: Meter) -> Hook:
    """Return the around hook.

    Args:
        tracer: Makes the spans.
        meter: Makes the instruments.
    """
    duration = histogram(meter, "rpc.server.call.duration", "Duration of calls of services.")
    active = meter.create_up_down_counter(
        "alula.service.active_calls", "{call}", "Calls of services that are under way."
    )
    known: dict[tuple[str, str, str | None], tuple[str, Attributes]] = {}

    async def observe_call(context: HookContext, next: Any) -> None:
        params = context.params
        provider: str | None = params.get("provider")
        kind = (context.path, context.method, provider)
        name, attributes = known.get(kind) or known.setdefault(kind, _described(*kind))
        parent = None if provider is None else remote_parent(params.get("headers") or {})
        outcome = attributes
        began = perf_counter()
        active.add(1, attributes)
        with tracer.start_as_current_span(
            name,
            parent,
            SpanKind.INTERNAL,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                await next()
            except BaseException as error:
                status = status_of(error)
                failure = _failure(error, status)
                outcome = {**attributes, **failure}
                span.set_attributes(failure)
                mark_failed(span, status)
                raise
            finally:
                active.add(-1, attributes)
                duration.record(perf_counter() - began, outcome)

    return observe_call


def _described(path: str, method: str, provider: str | None) -> tuple[str, Attributes]:
    attributes = {
        "rpc.system.name": "alula",
        "rpc.method": f"{path}/{method}",
        "alula.provider": provider or "server",
    }
    return f"{path} {method}", attributes


def _failure(error: BaseException, status: int | None) -> Attributes:
    failure = {ERROR_TYPE: error_type_of(error)}
    if status is not None:
        failure[_STATUS] = str(status)
    return failure
