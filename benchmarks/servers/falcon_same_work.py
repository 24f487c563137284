"""Falcon on ASGI, doing the work that Alula does for a request."""

import logging

import falcon
import falcon.asgi

from benchmarks.servers import same_work
from benchmarks.servers.falcon_app import use_orjson


class JSONBodies:
    async def process_request(self, req, _):
        if req.content_length:
            same_work.check_length(req.content_length)
        if req.method in {"POST", "PUT", "PATCH"}:
            raw = await req.stream.read(same_work.BODY_LIMIT + 1)
            req.context.data = same_work.parse_body(raw, req.content_type)


class Record:
    async def on_get(self, req, resp, record_id):
        resp.media = same_work.get(record_id, query_of(req))

    async def on_patch(self, req, resp, record_id):
        resp.media = same_work.patch(record_id, req.context.data, query_of(req))


def query_of(req):
    return {
        name: value if isinstance(value, list) else [value] for name, value in req.params.items()
    }


async def send_error(_, resp, error, __):
    resp.status = error.code
    resp.content_type = same_work.JSON
    resp.data = error.to_json()
    resp.set_headers(error.headers)


async def send_not_found(req, resp, _, params):
    await send_error(req, resp, same_work.page_not_found(req.path), params)


async def send_not_allowed(req, resp, _, params):
    await send_error(req, resp, same_work.method_not_allowed(req.method), params)


async def send_internal_error(req, resp, error, params):
    logging.exception("%s %s failed", req.method, req.path, exc_info=error)
    await send_error(req, resp, same_work.internal_error(), params)


app = falcon.asgi.App(middleware=[JSONBodies()], media_type=same_work.JSON)
use_orjson(app)
app.add_route("/memory/{record_id}", Record())
app.add_error_handler(Exception, send_internal_error)
app.add_error_handler(falcon.HTTPRouteNotFound, send_not_found)
app.add_error_handler(falcon.HTTPMethodNotAllowed, send_not_allowed)
app.add_error_handler(same_work.ServiceError, send_error)
