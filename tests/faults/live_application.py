"""Live lists of a table, for workers that are killed."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sql

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.express import express, json, rest
from alula.realtime import RedisBus, sse

todos = sql.Table(
    "todos",
    sql.MetaData(),
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("team", sql.Text),
    sql.Column("n", sql.Integer),
)
redis = os.environ.get("LIVE_REDIS")

app = express(App()).use(json()).configure(rest())
app.configure(sse(heartbeat=1, bus=RedisBus(redis, stream="live", timeout=2) if redis else None))
database = Database(os.environ.get("LIVE_DATABASE", "sqlite://"))
app.use("todos", SQLService(todos, database, paginate={"default": 10, "max": 100}))
app.service("todos").live(pause=0.01)


def report():
    """Tell the test that this worker runs."""
    if "LIVE_FOLDER" in os.environ:
        Path(os.environ["LIVE_FOLDER"], f"{os.getpid()}.json").write_text("{}")


async def report_later(_, next):
    await next()
    report()


app.hooks(setup=[report_later])
