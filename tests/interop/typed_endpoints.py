"""An application with endpoints of its own; see ``typescript/endpoints.ts``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from alula import App, Page, Params, answers
from alula.errors import Conflict
from alula.express import ExpressApplication, error_handler, express, json, rest
from alula.realtime import socketio


class Author(BaseModel):
    name: str


class NewArticle(BaseModel):
    title: str = Field(min_length=1)
    tags: list[str] = []


class Article(NewArticle):
    id: int
    author: Author


class Line(TypedDict):
    n: int


class Articles:
    async def find(
        self, params: Params, *, tag: str | None = None, limit: int = 20
    ) -> list[Article]:
        return []

    async def get(self, id: int, params: Params, *, version: int = 1) -> Article | None:
        return None

    @answers(202, errors=[Conflict])
    async def create(self, data: NewArticle, params: Params) -> Article:
        """Publish an article."""
        return Article(id=1, author=Author(name="Ada"), **data.model_dump())

    async def ping(self, data: None, params: Params) -> Literal["pong"]:
        return "pong"


class Lines:
    async def find(self, params: Params, *, year: int) -> Page[Line]:
        return Page(total=0, limit=1, skip=0, data=[])

    async def remove(self, id: int, params: Params, *, year: int) -> None: ...


class Words:
    open = 0

    async def count(self, data: list[int], params: Params) -> AsyncIterator[Line]:
        self.open += 1
        try:
            for n in range(data[0]):
                yield Line(n=n)
        finally:
            self.open -= 1

    async def opened(self, data: None, params: Params) -> int:
        return self.open

    async def ask(self, data: list[str], params: Params) -> AsyncIterator[Line]:
        for n, word in enumerate(data):
            if word == "taken":
                raise Conflict("taken", {"n": n})
            if word == "wait":
                await asyncio.sleep(0.1)
            yield Line(n=n)


def make_app() -> ExpressApplication:
    methods = ["find", "get", "create", "ping"]
    app = express(App()).use(json()).configure(rest(stream_heartbeat=0.01)).configure(socketio())
    app.use("articles", Articles(), methods=methods).use("years/:year/lines", Lines())
    return app.use("words", Words(), methods=["ask", "count", "opened"]).use(error_handler())
