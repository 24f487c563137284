"""FastAPI as its tutorial has it."""

from typing import Any

from fastapi import FastAPI, HTTPException

from benchmarks.records import records
from benchmarks.servers.messages import Message, store

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}
app = FastAPI()


@app.get("/memory/{record_id}")
async def get(record_id: int) -> dict[str, Any]:
    if record_id not in RECORDS:
        raise HTTPException(404)
    return RECORDS[record_id]


@app.post("/messages", status_code=201)
async def create(message: Message) -> dict[str, Any]:
    return store(message)
