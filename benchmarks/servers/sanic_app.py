"""Sanic as its tutorial has it, with orjson as its documentation sets it up, on its own server."""

import sys

import orjson
from sanic import NotFound, Sanic, json

from benchmarks.records import records

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}
app = Sanic("records", dumps=orjson.dumps, loads=orjson.loads)
app.config.REQUEST_MAX_HEADER_SIZE = 16_384  # the most that Sanic allows; by default 8 kB


@app.get("/memory/<record_id:int>")
async def get_record(_, record_id):
    if record_id not in RECORDS:
        raise NotFound
    return json(RECORDS[record_id])


if __name__ == "__main__":
    app.run(port=int(sys.argv[1]), single_process=True, access_log=False, motd=False)
