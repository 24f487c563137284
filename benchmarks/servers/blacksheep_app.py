"""BlackSheep as its tutorial has it, with orjson as its documentation sets it up."""

import orjson
from blacksheep import Application, created, json, not_found
from blacksheep.settings.json import json_settings

from benchmarks.records import records
from benchmarks.servers.messages import Message, store

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}
json_settings.use(loads=orjson.loads, dumps=lambda value: orjson.dumps(value).decode())
app = Application()


@app.router.get("/memory/{record_id}")
async def get_record(record_id: int):
    if record_id not in RECORDS:
        return not_found()
    return json(RECORDS[record_id])


@app.router.post("/messages")
async def create_message(data: Message):
    return created(store(data))
