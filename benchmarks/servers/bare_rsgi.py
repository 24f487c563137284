"""The ceiling of granian: a bare RSGI function that answers one record with orjson."""

import orjson

from benchmarks.records import records

RECORDS = {str(n): {**record, "id": n} for n, record in enumerate(records())}
HEADERS = [("content-type", "application/json; charset=utf-8")]


async def app(scope, protocol):
    record = RECORDS[scope.path.rpartition("/")[2]]
    protocol.response_bytes(200, HEADERS, orjson.dumps(record))
