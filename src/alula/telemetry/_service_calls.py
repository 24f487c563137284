"""`telemetry` measures each service call; `forward_trace` continues traces on other servers.

Attributes of spans and metrics hold no ids, data, queries or error messages: what is exported often
leaves the trust of the application.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias

from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import SpanKind, Tracer, TracerProvider

from alula._channels import Channels
from alula._context import HookContext, Params
from alula.hooks import Next
from alula.logs import add_log_fields
from alula.telemetry._conventions import (
    ERROR_TYPE,
    SCOPE,
    duration_histogram,
    error_type_of,
    mark_failed,
    remote_parent,
    status_of,
    trace_fields,
)
from alula.telemetry._realtime import measure_connections

__all__ = ["forward_trace", "telemetry"]

AroundHook: TypeAlias = Callable[[HookContext, Next], Coroutine[Any, Any, None]]
Attributes: TypeAlias = dict[str, str]

_STATUS: Final = "rpc.response.status_code"


class Application(Protocol):
    """An application with hooks and settings: an `App`, or what `alula.express.express` returns."""

    @property
    def settings(self) -> dict[Any, Any]:
        """The settings by name."""
        ...

    @property
    def channel_registry(self) -> Channels:
        """The channels and connections."""
        ...

    def hooks(self, *, around: list[AroundHook]) -> object:
        """Register hooks."""


def telemetry(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> Callable[[Application], None]:
    """Return a plugin that traces and measures every service call.

    Configure it before other hooks of the application, so that their time counts too. Each call is
    an internal span such as ``messages find``; calls made by that call are its children. Its own
    parent is the open span, or the ``traceparent`` of the request. Its duration is recorded in
    ``rpc.server.call.duration``, and ``alula.service.active_calls`` counts the calls that are
    running. The call of a method that streams lasts until its first item; the counter
    ``alula.service.stream_errors`` has the errors behind it. The connections, channels, events and
    messages of real time are counted as ``alula.realtime.*``. Log records get ``trace_id`` and
    ``span_id`` if they have the fields of `alula.logs`.

    Args:
        tracer_provider: A provider of OpenTelemetry's SDK; None for the global one.
        meter_provider: The same for metrics.

    Returns:
        A plugin for ``app.configure``.

    Raises:
        TypeError: By the plugin: the application has no services and hooks.
        RuntimeError: By the plugin: it is already configured, and would count each call twice.

    Examples:
        >>> from alula import App
        >>> from alula.telemetry import telemetry
        >>> app = App().configure(telemetry())
    """

    def configure(app: Application) -> None:
        if not callable(getattr(app, "hooks", None)):
            raise TypeError(f"telemetry() configures an application with services, not {app!r}")
        if app.settings.get("telemetry"):
            raise RuntimeError(f"telemetry() is already configured for {app!r}; remove one of both")
        app.settings["telemetry"] = True
        tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        app.hooks(around=[_call_observer(tracer, meter)])
        measure_connections(app.channel_registry, meter)
        add_log_fields(trace_fields)

    return configure


def forward_trace(context: HookContext) -> None:
    """Send the open span to another server, as the header ``traceparent``.

    A before hook for the clients of `alula.client`. Headers of the call that have the same name
    take precedence.

    Args:
        context: The context of the client's call.

    Examples:
        >>> from alula.client import create_client, rest
        >>> from alula.telemetry import forward_trace
        >>> client = create_client().configure(rest("https://api.example.com").fetch())
        >>> client = client.hooks(before=[forward_trace])
    """
    trace_headers: dict[str, str] = {}
    propagate.inject(trace_headers)
    if trace_headers:
        headers: dict[str, str] = context.params.get("headers") or {}
        context.params = Params(context.params, headers={**trace_headers, **headers})


def _description_of(
    path: str, method: str, provider: str | None, is_live: bool
) -> tuple[str, Attributes]:
    """Return the name of the spans of a method, and the attributes of spans and measurements."""
    return f"{path} {method}", {
        "rpc.system.name": "alula",
        "rpc.method": f"{path}/{method}",
        "alula.provider": provider or "server",
        **({"alula.live": "true"} if is_live else {}),
    }


def _call_observer(tracer: Tracer, meter: Meter) -> AroundHook:
    """Return the around hook that makes a span and measurements of each call."""
    duration = duration_histogram(meter, "rpc.server.call.duration", "Duration of service calls.")
    active = meter.create_up_down_counter(
        "alula.service.active_calls", "{call}", "Service calls that are running."
    )
    late_errors = meter.create_counter(
        "alula.service.stream_errors", "{error}", "Errors behind the first item of a stream."
    )
    # Names and attributes are made once per service, method and transport, not once per call.
    descriptions: dict[tuple[str, str, str | None, bool], tuple[str, Attributes]] = {}

    async def observe_call(context: HookContext, next: Next) -> None:
        params = context.params
        provider: str | None = params.get("provider")
        is_live = params.get("live") is not None  # a read of a live list
        key = (context.path, context.method, provider, is_live)
        description = descriptions.get(key)
        if description is None:
            description = descriptions[key] = _description_of(*key)
        name, attributes = description
        # A call of the server's own code has no remote caller, whatever its params say, and a list
        # is read because of somebody else's call.
        has_caller = provider is not None and not is_live
        parent = remote_parent(params.get("headers") or {}) if has_caller else None
        outcome = attributes
        started = perf_counter()
        active.add(1, attributes)
        with tracer.start_as_current_span(
            name,
            parent,
            SpanKind.INTERNAL,
            attributes,
            # The SDK would record the message of the error, which may quote data.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                await next()
                for stream in context.streams[-1:]:  # the others end by the same error
                    stream.on_error(
                        lambda error: late_errors.add(
                            1, {**attributes, ERROR_TYPE: error_type_of(error)}
                        )
                    )
            except BaseException as error:
                status = status_of(error)
                failure = {ERROR_TYPE: error_type_of(error)}
                if status is not None:
                    failure[_STATUS] = str(status)
                outcome = {**attributes, **failure}
                span.set_attributes(failure)
                mark_failed(span, status)
                raise
            finally:
                # The attributes of the first `add`: another set would be another counter.
                active.add(-1, attributes)
                duration.record(perf_counter() - started, outcome)

    return observe_call
