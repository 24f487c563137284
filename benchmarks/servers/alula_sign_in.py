"""Alula as in `alula_app`, for those who are signed in; each request loads its user."""

import asyncio

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate
from alula.express import (
    error_handler,
    express,
    json,
    not_found,
    rest,
    urlencoded,
)
from benchmarks.records import records

SECRET = "a secret of the benchmarks, good for nothing else"

app = express(App())
app.use(json(), urlencoded())
app.configure(rest())
app.use("users", MemoryService(start_id=1))
app.use("authentication", AuthenticationService(app, secret=SECRET))
app.use("memory", MemoryService(start_id=0, multi=True, paginate={"default": 10, "max": 50}))
app.use(not_found(), error_handler())
asyncio.run(app.service("memory").create(records()))
asyncio.run(app.service("users").create({"email": "ada@example.com"}))
app.service("memory").hooks(around=[authenticate("jwt")])
