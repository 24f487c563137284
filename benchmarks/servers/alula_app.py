"""Alula with the middleware that an application has; ALULA_SERVICES registers further services."""

import asyncio
import os

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, not_found, rest, urlencoded
from alula.schema import with_schema
from benchmarks.records import records
from benchmarks.servers.messages import MOST, Message


class Messages(MemoryService):
    """Forgets all messages when there are too many, as the other servers do."""

    async def create(self, data, params=None):
        record = await super().create(data, params)
        if record["id"] == MOST:
            self.reset()
        return record


app = express(App())
app.use(json(), urlencoded())
app.configure(rest())
for number in range(int(os.environ.get("ALULA_SERVICES", "1")) - 1):
    app.use(f"service-{number}", MemoryService())
app.use("memory", MemoryService(start_id=0, multi=True, paginate={"default": 10, "max": 50}))
app.use("messages", with_schema(Messages(), Message))
app.use(not_found(), error_handler())
asyncio.run(app.service("memory").create(records()))
