"""FastAPI, doing the work that Alula does for a request."""

import logging

import orjson
from fastapi import FastAPI, Request, Response

from benchmarks.servers import same_work

app = FastAPI()


class JSONBodies:
    """Pure ASGI middleware, which Starlette recommends for speed."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["method"] in {"POST", "PUT", "PATCH"}:
            request = Request(scope, receive)
            try:
                raw = b""
                async for part in request.stream():
                    raw += part
                    same_work.check_length(len(raw))
                request.state.data = same_work.parse_body(raw, request.headers.get("content-type"))
            except same_work.ServiceError as error:
                await (await send_error(request, error))(scope, receive, send)
                return
        await self.inner(scope, receive, send)


def query_of(request):
    query = {}
    for name, value in request.query_params.multi_items():
        query.setdefault(name, []).append(value)
    return query


def respond(value):
    return Response(orjson.dumps(value), media_type=same_work.JSON)


@app.get("/memory/{record_id}")
async def get_record(record_id: str, request: Request) -> Response:
    return respond(same_work.get(record_id, query_of(request)))


@app.patch("/memory/{record_id}")
async def patch_record(record_id: str, request: Request) -> Response:
    return respond(same_work.patch(record_id, request.state.data, query_of(request)))


@app.exception_handler(same_work.ServiceError)
async def send_error(_, error):
    return Response(error.to_json(), error.code, error.headers, same_work.JSON)


@app.exception_handler(404)
async def send_not_found(request, _):
    return await send_error(request, same_work.page_not_found(request.url.path))


@app.exception_handler(405)
async def send_not_allowed(request, _):
    return await send_error(request, same_work.method_not_allowed(request.method))


@app.exception_handler(Exception)
async def send_internal_error(request, error):
    logging.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return await send_error(request, same_work.internal_error())


app.add_middleware(JSONBodies)
