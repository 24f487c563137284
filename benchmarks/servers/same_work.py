"""What each "same work" peer adds to its framework: the checks, errors and records of a service.

A peer brings its own routing, middleware, error handlers and responses. It calls these functions,
so that all of them check the same things and find the same records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from benchmarks.records import records

BODY_LIMIT = 2**20  # bytes
JSON = "application/json; charset=utf-8"
RECORDS = {str(n): {**record, "id": n} for n, record in enumerate(records())}


class ServiceError(Exception):
    """An error for the client, as FeathersJS and Alula send it."""

    name, code, class_name = "GeneralError", 500, "general-error"

    def __init__(self, message: str, data: Any = None, allow: Collection[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.allow = ", ".join(allow)

    def to_json(self) -> bytes:
        body = {
            "name": self.name,
            "message": self.message,
            "code": self.code,
            "className": self.class_name,
        }
        return orjson.dumps(body if self.data is None else {**body, "data": self.data})

    @property
    def headers(self) -> dict[str, str]:
        """Headers besides the content type."""
        return {"Allow": self.allow} if self.allow else {}


class BadRequest(ServiceError):
    name, code, class_name = "BadRequest", 400, "bad-request"


class NotFound(ServiceError):
    name, code, class_name = "NotFound", 404, "not-found"


class MethodNotAllowed(ServiceError):
    name, code, class_name = "MethodNotAllowed", 405, "method-not-allowed"


class PayloadTooLarge(ServiceError):
    name, code, class_name = "PayloadTooLarge", 413, "payload-too-large"


class UnsupportedMediaType(ServiceError):
    name, code, class_name = "UnsupportedMediaType", 415, "unsupported-media-type"


def page_not_found(path: str) -> NotFound:
    return NotFound("Page not found", {"url": path})


def method_not_allowed(method: str) -> MethodNotAllowed:
    return MethodNotAllowed(f"Method {method} not allowed", allow=("GET", "PATCH"))


def internal_error() -> ServiceError:
    """Return what a client learns of any other exception."""
    return ServiceError("The server failed; its log says why")


def too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is too large; the limit is {BODY_LIMIT} bytes")


def check_length(length: int) -> None:
    """Refuse a body of too many bytes."""
    if length > BODY_LIMIT:
        raise too_large()


def parse_body(raw: bytes, content_type: str | None) -> Any:
    """Return the JSON of a body; an empty one is an empty object."""
    check_length(len(raw))
    if not raw:
        return {}
    media_type = (content_type or "none").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaType(
            f"No parser takes a body of the content type {media_type}; send application/json"
        )
    try:
        value = orjson.loads(raw)
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {error}") from None
    if not isinstance(value, dict | list):
        raise BadRequest("The body must be a JSON object or array")
    return value


def get(record_id: str, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the record of an id, with the fields that the query selects."""
    selected, filters = _checked(query) if query else (None, ())
    record = RECORDS.get(record_id)
    if record is None or any(str(record.get(name)) != value for name, value in filters):
        raise NotFound(f"No record found for id '{record_id}'")
    if selected is None:
        return record
    return {name: record[name] for name in (*selected, "id") if name in record}


def patch(record_id: str, data: Any, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Change fields of the record of an id, and return it as `get` does."""
    if not isinstance(data, dict):
        raise BadRequest("The data of a patch must be an object")
    get(record_id, query)
    RECORDS[record_id] = {**RECORDS[record_id], **data, "id": int(record_id)}
    return get(record_id, query)


def _checked(
    query: Mapping[str, Sequence[str]],
) -> tuple[Sequence[str] | None, list[tuple[str, str]]]:
    """Return the selected fields, None for all, and the values that fields must have."""
    selected = None
    filters = []
    for name, values in query.items():
        if name in {"$select", "$select[]"}:
            selected = values
        elif name.startswith("$"):
            raise BadRequest(f"Invalid filter value {name}")
        else:
            filters.extend((name, value) for value in values)
    return selected, filters
