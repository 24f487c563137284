"""A bare ASGI function with PyMongo: what uvicorn and the driver leave of a second."""

import os
from urllib.parse import parse_qs

import orjson
from bson import ObjectId
from pymongo import AsyncMongoClient, ReturnDocument

client = AsyncMongoClient(os.environ["BENCH_MONGODB"])
collection = client["bench"]["records"]


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    method, key = scope["method"], scope["path"][len("/records/") :]
    if method == "POST":
        result = orjson.loads((await receive())["body"])
        await collection.insert_one(result)
    elif method == "PATCH":
        result = await collection.find_one_and_update(
            {"_id": ObjectId(key)},
            {"$set": orjson.loads((await receive())["body"])},
            return_document=ReturnDocument.AFTER,
        )
    elif key:
        result = await collection.find_one({"_id": ObjectId(key)})
    elif not scope["query_string"]:
        result = []
    else:
        result = await find(parse_qs(scope["query_string"].decode()))
    body = orjson.dumps(result, default=str)
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    status = 201 if method == "POST" else 200
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def find(query):
    limit, skip = int(query["$limit"][0]), int(query["$skip"][0])
    order = int(query["$sort[createdAt]"][0])
    match = {"room": query["room"][0]}
    page = collection.find(match, sort=[("createdAt", order)], skip=skip, limit=limit)
    return {
        "total": await collection.count_documents(match),
        "limit": limit,
        "skip": skip,
        "data": await page.to_list(),
    }
