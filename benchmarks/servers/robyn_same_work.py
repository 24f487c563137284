"""Robyn on its own server, doing the work that Alula does for a request."""

import logging
import sys
from urllib.parse import unquote_plus

import orjson
from robyn import Request, Response, Robyn

from benchmarks.servers import same_work

HEADERS = {"Content-Type": same_work.JSON}
app = Robyn(__file__)


def send_error(error):
    if not isinstance(error, same_work.ServiceError):
        logging.exception("a request failed", exc_info=error)
        error = same_work.internal_error()
    return Response(error.code, {**HEADERS, **error.headers}, error.to_json())


app.exception(send_error)


@app.before_request()
async def json_bodies(request: Request):
    if request.method not in {"POST", "PUT", "PATCH"}:
        return request
    try:
        data_of(request)
    except same_work.ServiceError as error:
        return send_error(error)
    return request


def data_of(request):
    body = request.body
    raw = body.encode() if isinstance(body, str) else bytes(body)
    return same_work.parse_body(raw, request.headers.get("content-type"))


def query_of(request):
    # Robyn leaves percent-encoding as it is.
    return {
        unquote_plus(name): [unquote_plus(value) for value in values]
        for name, values in request.query_params.to_dict().items()
    }


def respond(value):
    return Response(200, HEADERS, orjson.dumps(value))


@app.get("/memory/:record_id")
async def get_record(request: Request):
    return respond(same_work.get(request.path_params["record_id"], query_of(request)))


@app.patch("/memory/:record_id")
async def patch_record(request: Request):
    record_id = request.path_params["record_id"]
    return respond(same_work.patch(record_id, data_of(request), query_of(request)))


async def not_allowed(request: Request):
    raise same_work.method_not_allowed(request.method)


async def not_found(request: Request):
    raise same_work.page_not_found(request.url.path)


for register in (app.post, app.put, app.delete, app.options, app.trace):
    register("/memory/:record_id")(not_allowed)
for register in (app.get, app.post, app.put, app.patch, app.delete, app.options):
    register("/*path")(not_found)

if __name__ == "__main__":
    app.start(port=int(sys.argv[1]))
