"""FastAPI as its tutorial has it."""

from typing import Any

from fastapi import FastAPI, HTTPException

from benchmarks.records import records

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}
app = FastAPI()


@app.get("/memory/{record_id}")
async def get(record_id: int) -> dict[str, Any]:
    if record_id not in RECORDS:
        raise HTTPException(404)
    return RECORDS[record_id]
