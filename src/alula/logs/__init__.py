"""What stands in logs: records with the id of their request, as JSON lines or for people."""

from alula._request_ids import current_request_id, request_scope
from alula.logs._configuring import configure_logging
from alula.logs._fields import RequestFields, add_log_fields
from alula.logs._formatters import ConsoleFormatter, JsonFormatter

__all__ = [
    "ConsoleFormatter",
    "JsonFormatter",
    "RequestFields",
    "add_log_fields",
    "configure_logging",
    "current_request_id",
    "request_scope",
]
