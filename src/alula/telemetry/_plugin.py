"""The plugin: what observes the calls of all services of an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import metrics, trace

from alula.logs import add_log_fields
from alula.telemetry._calls import call_observer
from alula.telemetry._conventions import trace_fields

__all__ = ["SCOPE", "telemetry"]

SCOPE = "alula"
"""The name under which spans and measurements are recorded."""


def telemetry(*, tracer_provider: Any = None, meter_provider: Any = None) -> Callable[[Any], None]:
    """Return the plugin that traces and measures every service call.

    ``app.configure(telemetry())``, before other hooks of the application, so that their time
    counts too. A call is a span ``messages find`` of the kind internal; calls that it makes are
    its children; it is itself a child of the span that is open, or of the ``traceparent`` that
    came with the request. Its duration is recorded in ``rpc.server.call.duration``, and
    ``alula.service.active_calls`` counts what is under way. Records of logs get ``trace_id`` and
    ``span_id``, where they have the fields of `alula.logs`.

    Args:
        tracer_provider: Of OpenTelemetry's SDK; None for the global one.
        meter_provider: The same for metrics.

    Raises:
        TypeError: By the plugin: what it configures is no application with hooks.
        RuntimeError: By the plugin: it is configured already, and would count all twice.
    """

    def configure(app: Any) -> None:
        if not callable(getattr(app, "hooks", None)):
            raise TypeError(f"telemetry() configures an application with services, not {app!r}")
        if app.settings.get("telemetry"):
            raise RuntimeError(f"telemetry() is configured for {app!r} already; once is enough")
        app.settings["telemetry"] = True
        tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        app.hooks(around=[call_observer(tracer, meter)])
        add_log_fields(trace_fields)

    return configure
