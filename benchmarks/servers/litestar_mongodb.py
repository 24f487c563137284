"""Litestar with PyMongo's asynchronous client, as their tutorials have it."""

import os
from typing import Annotated, Any

from bson import ObjectId
from litestar import Litestar, get, patch, post
from litestar.exceptions import NotFoundException
from litestar.params import Parameter
from pymongo import AsyncMongoClient, ReturnDocument

client = AsyncMongoClient(os.environ["BENCH_MONGODB"])
collection = client["bench"]["records"]


@get("/records")
async def find(
    room: str,
    sort: Annotated[int, Parameter(query="$sort[createdAt]")],
    limit: Annotated[int, Parameter(query="$limit", le=50)] = 10,
    skip: Annotated[int, Parameter(query="$skip")] = 0,
) -> dict[str, Any]:
    total = await collection.count_documents({"room": room})
    page = collection.find({"room": room}).sort("createdAt", sort).skip(skip).limit(limit)
    return {"total": total, "limit": limit, "skip": skip, "data": await page.to_list()}


@get("/records/{key:str}")
async def get_record(key: str) -> dict[str, Any]:
    record = await collection.find_one({"_id": ObjectId(key)})
    if record is None:
        raise NotFoundException
    return record


@post("/records")
async def create(data: dict[str, Any]) -> dict[str, Any]:
    await collection.insert_one(data)
    return data


@patch("/records/{key:str}")
async def patch_record(key: str, data: dict[str, Any]) -> dict[str, Any]:
    record = await collection.find_one_and_update(
        {"_id": ObjectId(key)}, {"$set": data}, return_document=ReturnDocument.AFTER
    )
    if record is None:
        raise NotFoundException
    return record


app = Litestar(
    [find, get_record, create, patch_record],
    openapi_config=None,
    type_encoders={ObjectId: str},
)
