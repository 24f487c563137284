"""The ceiling: a bare ASGI function that answers one record with orjson."""

import orjson

from benchmarks.records import records

RECORDS = {str(n): {**record, "id": n} for n, record in enumerate(records())}


async def app(scope, _, send):
    body = orjson.dumps(RECORDS[scope["path"].rpartition("/")[2]])
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
