"""Traces and metrics of service calls and HTTP requests, by OpenTelemetry's API.

Needs the extra ``telemetry``, which installs the API alone. The application chooses the SDK and the
exporter; without an SDK nothing is recorded.
"""

try:
    import opentelemetry.trace as _opentelemetry  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        "alula.telemetry needs opentelemetry-api, which is not installed;"
        " install it with: pip install 'alula[telemetry]'"
    ) from error

from alula.telemetry._requests import trace_requests
from alula.telemetry._service_calls import forward_trace, telemetry

__all__ = ["forward_trace", "telemetry", "trace_requests"]
