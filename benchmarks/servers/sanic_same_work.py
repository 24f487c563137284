"""Sanic on its own server, doing the work that Alula does for a request."""

import logging
import sys

import orjson
from sanic import MethodNotAllowed, NotFound, Sanic, json
from sanic.exceptions import PayloadTooLarge
from sanic.response import raw

from benchmarks.servers import same_work

app = Sanic("same-work", dumps=orjson.dumps, loads=orjson.loads)
app.config.REQUEST_MAX_SIZE = same_work.BODY_LIMIT


@app.on_request
async def json_bodies(request):
    if request.method in {"POST", "PUT", "PATCH"}:
        request.ctx.data = same_work.parse_body(request.body, request.headers.get("content-type"))


@app.get("/memory/<record_id>")
async def get_record(request, record_id):
    record = same_work.get(record_id, request.args)
    return json(record, content_type=same_work.JSON)


@app.patch("/memory/<record_id>")
async def patch_record(request, record_id):
    record = same_work.patch(record_id, request.ctx.data, request.args)
    return json(record, content_type=same_work.JSON)


@app.exception(same_work.ServiceError)
async def send_error(_, error):
    return raw(error.to_json(), error.code, error.headers, same_work.JSON)


@app.exception(NotFound)
async def send_not_found(request, _):
    return await send_error(request, same_work.page_not_found(request.path))


@app.exception(MethodNotAllowed)
async def send_not_allowed(request, _):
    return await send_error(request, same_work.method_not_allowed(request.method))


@app.exception(PayloadTooLarge)
async def send_too_large(request, _):
    return await send_error(request, same_work.too_large())


@app.exception(Exception)
async def send_internal_error(request, error):
    logging.exception("%s %s failed", request.method, request.path, exc_info=error)
    return await send_error(request, same_work.internal_error())


if __name__ == "__main__":
    app.run(port=int(sys.argv[1]), single_process=True, access_log=False, motd=False)
