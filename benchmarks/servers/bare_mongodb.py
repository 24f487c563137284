"""A bare ASGI function with PyMongo: what uvicorn and the driver leave of a second."""

import os

from bson import ObjectId
from pymongo import AsyncMongoClient, ReturnDocument

from benchmarks.servers.bare import serve_records

client = AsyncMongoClient(os.environ["BENCH_MONGODB"])
collection = client["bench"]["records"]


class Store:
    async def open(self):
        await client.aconnect()

    async def get(self, key):
        return await collection.find_one({"_id": ObjectId(key)})

    async def create(self, new):
        await collection.insert_one(new)
        return new

    async def patch(self, key, changes):
        return await collection.find_one_and_update(
            {"_id": ObjectId(key)}, {"$set": changes}, return_document=ReturnDocument.AFTER
        )

    async def find(self, room, order, limit, skip):
        match = {"room": room}
        page = collection.find(match, sort=[("createdAt", order)], skip=skip, limit=limit)
        return await collection.count_documents(match), await page.to_list()


app = serve_records(Store())
