"""A bare ASGI function with a driver: what uvicorn and asyncpg or aiosqlite leave of a second."""

import asyncio
import os

from benchmarks.servers.bare import serve_records

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


class Store:
    async def open(self):
        await database.open()

    async def get(self, key):
        return (await database.fetch(GET, int(key)))[0]

    async def create(self, new):
        values = new["text"], new["room"], new["read"], new["createdAt"]
        return (await database.fetch(CREATE, *values))[0]

    async def patch(self, key, changes):
        return (await database.fetch(PATCH, changes["text"], int(key)))[0]

    async def find(self, room, order, limit, skip):
        total = (await database.fetch(COUNT, room))[0]["count"]
        return total, await database.fetch(ORDERS[order], room, limit, skip)


app = serve_records(Store())
