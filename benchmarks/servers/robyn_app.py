"""Robyn as its documentation has it, on its own server."""

import sys

from robyn import Response, Robyn

from benchmarks.records import records

RECORDS = {n: {**record, "id": n} for n, record in enumerate(records())}
app = Robyn(__file__)


@app.get("/memory/:record_id")
async def get_record(record_id: int):
    if record_id not in RECORDS:
        return Response(404, description="not found")
    return RECORDS[record_id]


if __name__ == "__main__":
    app.start(port=int(sys.argv[1]))
