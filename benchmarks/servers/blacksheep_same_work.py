"""BlackSheep, doing the work that Alula does for a request."""

import logging

import orjson
from blacksheep import Application, Content, Response
from blacksheep.exceptions import NotFound

from benchmarks.servers import same_work

CONTENT_TYPE = same_work.JSON.encode()
app = Application()


async def json_bodies(request, handler):
    if request.method in {"POST", "PUT", "PATCH"}:
        same_work.check_length(int(request.get_first_header(b"content-length") or 0))
        content_type = request.content_type()
        raw = await request.read() or b""
        request.data = same_work.parse_body(raw, content_type and content_type.decode())
    return await handler(request)


def send(value):
    return Response(200, None, Content(CONTENT_TYPE, orjson.dumps(value)))


@app.router.get("/memory/{record_id}")
async def get_record(request):
    return send(same_work.get(request.route_values["record_id"], request.query))


@app.router.patch("/memory/{record_id}")
async def patch_record(request):
    record_id = request.route_values["record_id"]
    return send(same_work.patch(record_id, request.data, request.query))


# To BlackSheep, a path with another method is not found.
@app.router.route("/memory/{record_id}", methods=["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
async def not_allowed(request):
    raise same_work.method_not_allowed(request.method)


@app.exception_handler(same_work.ServiceError)
async def send_error(_, __, error):
    headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
    return Response(error.code, headers, Content(CONTENT_TYPE, error.to_json()))


@app.exception_handler(NotFound)
async def send_not_found(self, request, _):
    return await send_error(self, request, same_work.page_not_found(request.url.path.decode()))


@app.exception_handler(Exception)
async def send_internal_error(self, request, error):
    logging.exception("%s %s failed", request.method, request.url, exc_info=error)
    return await send_error(self, request, same_work.internal_error())


app.middlewares.append(json_bodies)
