"""Folders with applications, and a fixture that runs the command in them in this process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from alula._cli import main

CODE = """
from alula import App, disallow
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, rest

class Counter:
    async def setup(self, app, path):
        print("set up")

    async def teardown(self, app, path):
        print("torn down")

    async def count(self, data, params):
        return {"data": data, "query": params.query, "provider": params.provider}

    async def get(self, id, params):
        if id == "fail":
            raise LookupError("no such thing")
        return {"id": id, "route": params.route}

    async def remove(self, id, params):
        return {"id": id}

async def log_call(context, next):
    await next()

def check(context):
    pass

def hide(context):
    context.dispatch = {"hidden": True}

def note_error(context):
    pass

app = express(App())
app.use(json())
app.configure(rest())
app.use("notes", MemoryService({n: {"id": n, "n": n} for n in range(7)}, start_id=7,
        paginate={"default": 3, "max": 3}, multi=True))
app.use("teams/:team/counter", Counter(), methods=["count", "get"])
app.use("hidden", MemoryService({"1": {"id": "1", "secret": "s"}}))
app.use("closed", MemoryService(), methods=[])
app.service("hidden").hooks(after={"get": [hide]})
app.service("closed").hooks(before=[disallow("external")])
app.hooks(around=[log_call], error=[note_error])
app.service("notes").hooks(before={"create": [check], "all": [check]}, after={"find": [check]})
"""


@contextlib.contextmanager
def folder_with(folder: Path, code: str = CODE) -> Iterator[Any]:
    """Work in a folder with an application, and yield what runs the command there."""
    (folder / "app.py").write_text(code)
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        patch.delitem(sys.modules, "app", raising=False)  # that of another folder
        for name in ("ALULA_TOKEN", "NO_COLOR"):
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", "200")
        try:
            yield lambda *arguments, **options: CliRunner().invoke(main, arguments, **options)
        finally:
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                    del sys.modules[name]
