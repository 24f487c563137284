"""FastAPI with PyMongo's asynchronous client, as their tutorials have it."""

import os
from typing import Annotated, Any

from bson import ObjectId
from fastapi import Body, FastAPI, HTTPException, Query
from pymongo import AsyncMongoClient, ReturnDocument

client = AsyncMongoClient(os.environ["BENCH_MONGODB"])
collection = client["bench"]["records"]
app = FastAPI()


def out(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "_id": str(record["_id"])}


@app.get("/records")
async def find(
    room: str,
    sort: Annotated[int, Query(alias="$sort[createdAt]")],
    limit: Annotated[int, Query(alias="$limit", le=50)] = 10,
    skip: Annotated[int, Query(alias="$skip")] = 0,
) -> dict[str, Any]:
    total = await collection.count_documents({"room": room})
    page = collection.find({"room": room}).sort("createdAt", sort).skip(skip).limit(limit)
    data = [out(record) async for record in page]
    return {"total": total, "limit": limit, "skip": skip, "data": data}


@app.get("/records/{key}")
async def get(key: str) -> dict[str, Any]:
    record = await collection.find_one({"_id": ObjectId(key)})
    if record is None:
        raise HTTPException(404)
    return out(record)


@app.post("/records", status_code=201)
async def create(record: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    await collection.insert_one(record)
    return out(record)


@app.patch("/records/{key}")
async def patch(key: str, changes: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    record = await collection.find_one_and_update(
        {"_id": ObjectId(key)}, {"$set": changes}, return_document=ReturnDocument.AFTER
    )
    if record is None:
        raise HTTPException(404)
    return out(record)
