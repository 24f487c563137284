"""A bare ASGI function with a driver: what uvicorn and asyncpg or aiosqlite leave of a second."""

import asyncio
import os
from urllib.parse import parse_qs

import orjson

NAMES = '"id", "text", "room", "read", "createdAt"'
GET = f"select {NAMES} from records where id = $1"
COUNT = "select count(*) from records where room = $1"
PATCH = f"update records set text = $1 where id = $2 returning {NAMES}"
CREATE = (
    f'insert into records (text, room, read, "createdAt") values ($1, $2, $3, $4) returning {NAMES}'
)
ORDERS = {
    order: (
        f"select {NAMES} from records where room = $1"
        f' order by "createdAt" {word} limit $2 offset $3'
    )
    for order, word in ((1, "asc"), (-1, "desc"))
}


class PostgreSQL:
    """asyncpg with its pool, as its documentation has it."""

    def __init__(self, url):
        self.url = url

    async def open(self):
        import asyncpg  # noqa: PLC0415  # only the one that is measured

        self.pool = await asyncpg.create_pool(self.url, min_size=10, max_size=10)

    async def fetch(self, sql, *values):
        return [dict(row) for row in await self.pool.fetch(sql, *values)]


class SQLite:
    """aiosqlite with five connections, one of which writes."""

    def __init__(self, url):
        self.path, self.free, self.writes = url.removeprefix("sqlite:///"), None, asyncio.Lock()

    async def open(self):
        import aiosqlite  # noqa: PLC0415  # as above

        self.free = asyncio.Queue()
        for _ in range(5):
            connection = await aiosqlite.connect(self.path, isolation_level=None)
            await connection.execute("pragma journal_mode = wal")
            await connection.execute("pragma synchronous = normal")
            self.free.put_nowait(connection)

    async def fetch(self, sql, *values):
        connection = await self.free.get()
        try:
            if sql.startswith("select"):
                return await self._rows(connection, sql, values)
            async with self.writes:
                return await self._rows(connection, sql, values)
        finally:
            self.free.put_nowait(connection)

    async def _rows(self, connection, sql, values):
        names = ("id", "text", "room", "read", "createdAt") if "count(" not in sql else ("count",)
        rows = await connection.execute_fetchall(sql.replace("$", "?"), values)
        records = [dict(zip(names, row, strict=True)) for row in rows]
        for record in records:
            if "read" in record:
                record["read"] = bool(record["read"])
        return records


url = os.environ["BENCH_SQL"]
database = SQLite(url) if url.startswith("sqlite") else PostgreSQL(url)


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await database.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    method, key = scope["method"], scope["path"][len("/records/") :]
    if method == "POST":
        new = orjson.loads((await receive())["body"])
        values = new["text"], new["room"], new["read"], new["createdAt"]
        (result,) = await database.fetch(CREATE, *values)
    elif method == "PATCH":
        changes = orjson.loads((await receive())["body"])
        (result,) = await database.fetch(PATCH, changes["text"], int(key))
    elif key:
        (result,) = await database.fetch(GET, int(key))
    elif not scope["query_string"]:
        result = []
    else:
        result = await find(parse_qs(scope["query_string"].decode()))
    body = orjson.dumps(result)
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    status = 201 if method == "POST" else 200
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def find(query):
    limit, skip = int(query["$limit"][0]), int(query["$skip"][0])
    room = query["room"][0]
    page = ORDERS[int(query["$sort[createdAt]"][0])]
    return {
        "total": (await database.fetch(COUNT, room))[0]["count"],
        "limit": limit,
        "skip": skip,
        "data": await database.fetch(page, room, limit, skip),
    }
