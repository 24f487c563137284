"""Alula on a table, with the middleware that an application has."""

import os

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.express import error_handler, express, json, not_found, rest, urlencoded

database = Database(os.environ["BENCH_SQL"])
app = express(App())
app.use(json(), urlencoded())
app.configure(rest())
app.use("records", SQLService("records", database, paginate={"default": 10, "max": 50}))
app.use(not_found(), error_handler())
