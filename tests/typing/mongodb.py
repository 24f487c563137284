"""The types that users of the MongoDB adapter see; checked, never run."""

from __future__ import annotations

from typing import Annotated, Any, assert_type

from bson import ObjectId
from pydantic import BaseModel
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor

from alula import Params
from alula.adapters.mongodb import (
    MongoDBService,
    ObjectIdSchema,
    keyword_object_id,
    resolve_object_id,
)
from alula.types import SchemaKeyword

client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient()
collection = client["chat"]["messages"]


async def with_index() -> AsyncCollection[dict[str, Any]]:
    await collection.create_index("name", unique=True)
    return collection


MongoDBService(collection, paginate={"default": 10}, multi=["create"], operators=["$regex"])
MongoDBService(with_index())
MongoDBService(lambda: collection)
service = MongoDBService(with_index, id="key", disable_objectify=True)


async def use() -> None:
    assert_type(await service.get_model(), AsyncCollection[dict[str, Any]])
    assert_type(await service.find_raw({"query": {}}), AsyncCursor[dict[str, Any]])
    assert_type(service.make_framework_pipeline(Params()), list[dict[str, Any]])
    assert_type(keyword_object_id, SchemaKeyword)
    resolve_object_id("64b0000000000000000000d1")


class Note(BaseModel):
    owner: Annotated[ObjectId, ObjectIdSchema]
    other: Annotated[ObjectId, ObjectIdSchema(description="somebody else")]


MongoDBService("messages")  # type: ignore[arg-type]  # refused by its type
