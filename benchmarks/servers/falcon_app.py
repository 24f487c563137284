"""Falcon on ASGI as its tutorial has it, with the handler for orjson of its documentation."""

import falcon
import falcon.asgi
import orjson
from pydantic import ValidationError

from benchmarks.records import records
from benchmarks.servers.messages import Message, store

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}


class Record:
    async def on_get(self, _, resp, record_id):
        if record_id not in RECORDS:
            raise falcon.HTTPNotFound
        resp.media = RECORDS[record_id]


class Messages:
    async def on_post(self, req, resp):
        try:
            message = Message.model_validate(await req.get_media())
        except ValidationError as error:
            raise falcon.HTTPUnprocessableEntity(description=str(error)) from None
        resp.media = store(message)
        resp.status = falcon.HTTP_201


def use_orjson(to):
    handler = falcon.media.JSONHandler(dumps=orjson.dumps, loads=orjson.loads)
    for options in (to.req_options, to.resp_options):
        options.media_handlers[falcon.MEDIA_JSON] = handler


app = falcon.asgi.App()
use_orjson(app)
app.add_route("/memory/{record_id:int}", Record())
app.add_route("/messages", Messages())
