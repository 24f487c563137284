"""The ceiling: a bare ASGI function that answers one record with orjson."""

from benchmarks.records import records
from benchmarks.servers.bare import send_json

RECORDS = {str(n): {**record, "id": n} for n, record in enumerate(records())}


async def app(scope, _, send):
    await send_json(send, RECORDS[scope["path"].rpartition("/")[2]])
