"""An application with a service of every kind, and its description.

``python -m tests.openapi.described`` serves it until it is killed, and prints its address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, Field

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, LocalStrategy, hash_password, protect
from alula.errors import NotAuthenticated
from alula.express import error_handler, express, json, not_found, rest
from alula.files import LocalFileStore, UploadService, file_content, multipart
from alula.hooks import annotate_hook
from alula.openapi import openapi
from alula.realtime import socketio, sse
from alula.schema import resolve, virtual, with_schema


class Place(BaseModel):
    city: str
    zip: str | None = None


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=30)
    age: int | None = Field(default=None, ge=0, le=150)
    born: datetime | None = None
    place: Place | None = None


TASK = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "done": {"type": "boolean", "default": False},
        "tags": {"type": "array", "items": {"type": "string"}},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["title"],
}


class Calc:
    async def find(self, params):
        return {"query": params.query}

    async def get(self, id, params):
        return None

    async def remove(self, id, params):
        return {"removed": id}

    async def add(self, data, params):
        """Add the numbers `a` and `b`.

        More is said about it in the code.
        """
        return {"sum": 0}

    async def hidden(self, data, params):
        """Is not open to the outside."""


class Jobs:
    async def start(self, data, params):
        return {"started": True}


def sign_in(app):
    service = AuthenticationService(app, secret="s" * 32, strategies=["jwt", "local"])
    service.register("local", LocalStrategy())
    return service


def refuse(context):
    if context.params.headers.get("authorization") != "Bearer t0ken":
        raise NotAuthenticated("Not authenticated")


def make_app(folder: Path | None = None) -> Any:
    """Return the application, with uploads if there is a folder for them."""
    app = express(App(debug=True))
    app.use(json(), multipart())
    app.configure(rest())
    app.configure(openapi(title="Everything", version="2.1", description="All kinds."))
    app.configure(socketio())  # no service has a publisher
    pages = {"default": 5, "max": 10}
    size = resolve({"size": virtual(lambda person: len(person.get("name", "")))})
    people = with_schema(MemoryService(start_id=1, paginate=pages), Person, result=size)
    app.use("people", people)
    app.use("teams/:team/tasks", with_schema(MemoryService(start_id=1, multi=True), TASK))
    app.use("plain", MemoryService(start_id=1), methods=["find", "get", "create"])
    app.use("calc", Calc(), methods=["find", "get", "remove", "add"])
    app.use("jobs", Jobs(), methods=["start"])
    app.use("secret", MemoryService())
    app.service("secret").hooks(before={"remove": [annotate_hook(refuse, strategies=("jwt",))]})
    app.use("internal", MemoryService(), methods=[])
    app.use("users", MemoryService(), methods=["create"])
    app.service("users").hooks(
        before={"create": [hash_password("password")]}, after=[protect("password")]
    )
    app.use("authentication", sign_in(app))
    if folder is not None:
        uploads = UploadService(LocalFileStore(folder), MemoryService(), fields=["title"])
        app.use("uploads", uploads).configure(file_content("uploads"))
    app.use(not_found(), error_handler(logger=False))
    return app


class Count:
    async def up(self, data, params):
        """Count to three, slowly enough to see it."""
        for number in range(1, 4):
            yield {"number": number}
        await asyncio.Event().wait()


async def serve() -> None:
    with TemporaryDirectory() as folder:
        app = make_app(Path(folder))
        app.configure(sse())
        app.service("people").live()
        app.use("count", Count(), methods=["up"])
        server = await app.listen(0)
        print(server.url, flush=True)
        await server.wait_closed()


def references(value: Any) -> Iterator[str]:
    """Yield where the references in a description lead."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


if __name__ == "__main__":
    asyncio.run(serve())
