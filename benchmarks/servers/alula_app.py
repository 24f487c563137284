"""Alula with the middleware that an application has; ALULA_SERVICES registers further services."""

import asyncio
import os

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, not_found, rest, urlencoded
from benchmarks.records import records

app = express(App())
app.use(json(), urlencoded())
app.configure(rest())
for number in range(int(os.environ.get("ALULA_SERVICES", "1")) - 1):
    app.use(f"service-{number}", MemoryService())
app.use("memory", MemoryService(start_id=0, multi=True, paginate={"default": 10, "max": 50}))
app.use(not_found(), error_handler())
asyncio.run(app.service("memory").create(records()))
