"""What the bare ASGI functions have in common: the answer, and records of a database over REST."""

from urllib.parse import parse_qs

import orjson


async def send_json(send, content, status=200):
    body = orjson.dumps(content, default=str)
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_records(store):
    """Return an ASGI function for `open`, `get`, `create`, `patch` and `find` of a store."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await store.open()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            return
        method, key = scope["method"], scope["path"][len("/records/") :]
        if method == "POST":
            await send_json(send, await store.create(await read_json(receive)), 201)
        elif method == "PATCH":
            await send_json(send, await store.patch(key, await read_json(receive)))
        elif key:
            await send_json(send, await store.get(key))
        elif not scope["query_string"]:
            await send_json(send, [])
        else:
            await send_json(send, await find(store, parse_qs(scope["query_string"].decode())))

    return app


async def read_json(receive):
    return orjson.loads((await receive())["body"])


async def find(store, query):
    limit, skip = int(query["$limit"][0]), int(query["$skip"][0])
    order = int(query["$sort[createdAt]"][0])
    total, data = await store.find(query["room"][0], order, limit, skip)
    return {"total": total, "limit": limit, "skip": skip, "data": data}
