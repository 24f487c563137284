"""Traces and metrics of service calls and requests, by OpenTelemetry's API.

Needs the extra ``telemetry``, which is the API alone. What collects and exports is the
application's choice: without an SDK nothing is recorded.
"""

try:
    import opentelemetry.trace as _opentelemetry  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        "alula.telemetry needs opentelemetry-api, which is not installed;"
        " install it with: pip install 'alula[telemetry]'"
    ) from error

from alula.telemetry._forwarding import forward_trace
from alula.telemetry._plugin import telemetry
from alula.telemetry._requests import trace_requests

__all__ = ["forward_trace", "telemetry", "trace_requests"]
