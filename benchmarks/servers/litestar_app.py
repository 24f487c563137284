"""Litestar as its tutorial has it."""

from typing import Any

from litestar import Litestar, get
from litestar.exceptions import NotFoundException

from benchmarks.records import records

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}


@get("/memory/{record_id:int}")
async def get_record(record_id: int) -> dict[str, Any]:
    if record_id not in RECORDS:
        raise NotFoundException
    return RECORDS[record_id]


app = Litestar([get_record], openapi_config=None)
