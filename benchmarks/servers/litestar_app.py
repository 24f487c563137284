"""Litestar as its tutorial has it."""

from typing import Any

from litestar import Litestar, get, post
from litestar.exceptions import NotFoundException

from benchmarks.records import records
from benchmarks.servers.messages import Message, store

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}


@get("/memory/{record_id:int}")
async def get_record(record_id: int) -> dict[str, Any]:
    if record_id not in RECORDS:
        raise NotFoundException
    return RECORDS[record_id]


@post("/messages")
async def create_message(data: Message) -> dict[str, Any]:
    return store(data)


app = Litestar([get_record, create_message], openapi_config=None)
