"""Log output with the id of each request, as JSON lines or for people."""

from alula.logs._configure_logging import configure_logging
from alula.logs._fields import RequestFields, add_log_fields
from alula.logs._formatters import ConsoleFormatter, JsonFormatter
from alula.logs._request_ids import current_request_id, request_scope

__all__ = [
    "ConsoleFormatter",
    "JsonFormatter",
    "RequestFields",
    "add_log_fields",
    "configure_logging",
    "current_request_id",
    "request_scope",
]
