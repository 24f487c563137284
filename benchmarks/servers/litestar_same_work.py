"""Litestar, doing the work that Alula does for a request."""

import logging

from litestar import Litestar, Request, Response, get, patch
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.middleware import ASGIMiddleware

from benchmarks.servers import same_work


class JSONBodies(ASGIMiddleware):
    async def handle(self, scope, receive, send, next_app):
        if scope["type"] == "http" and scope["method"] in {"POST", "PUT", "PATCH"}:
            request = Request(scope, receive)
            raw = b""
            async for part in request.stream():
                raw += part
                same_work.check_length(len(raw))
            data = same_work.parse_body(raw, request.headers.get("content-type"))
            request.state.data = data
        await next_app(scope, receive, send)


@get("/memory/{record_id:str}", media_type=same_work.JSON)
async def get_record(record_id: str, request: Request) -> dict[str, object]:
    return same_work.get(record_id, request.query_params.dict())


@patch("/memory/{record_id:str}", media_type=same_work.JSON)
async def patch_record(record_id: str, request: Request) -> dict[str, object]:
    return same_work.patch(record_id, request.state.data, request.query_params.dict())


def send_error(_, error: same_work.ServiceError) -> Response[bytes]:
    return Response(
        error.to_json(), status_code=error.code, headers=error.headers, media_type=same_work.JSON
    )


def send_not_found(request, _: NotFoundException) -> Response[bytes]:
    return send_error(request, same_work.page_not_found(request.url.path))


def send_not_allowed(request, _: MethodNotAllowedException) -> Response[bytes]:
    return send_error(request, same_work.method_not_allowed(request.method))


def send_internal_error(request, error: Exception) -> Response[bytes]:
    logging.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return send_error(request, same_work.internal_error())


app = Litestar(
    [get_record, patch_record],
    middleware=[JSONBodies()],
    exception_handlers={
        same_work.ServiceError: send_error,
        NotFoundException: send_not_found,
        MethodNotAllowedException: send_not_allowed,
        Exception: send_internal_error,
    },
    openapi_config=None,
)
