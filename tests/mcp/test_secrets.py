"""A hidden property is in no result of a tool, no progress, no error and no description."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.express.serving import living
from tests.mcp.speaking import HOST, VERSIONS, send

from alula import HookContext, Params
from alula.adapters.memory import MemoryService
from alula.authentication import protect
from alula.errors import Conflict
from alula.express import api
from alula.mcp import mcp
from alula.schema import hidden, resolve, resolve_external, with_schema

METHODS = ["find", "get", "create", "update", "patch", "remove", "follow"]


class User(BaseModel):
    id: int
    name: str
    password: str = "canary-default"


class Users(MemoryService):
    async def follow(self, data: Any, params: Any) -> AsyncIterator[Any]:
        for record in await self.find(Params()):
            yield record


async def collide(context: HookContext, next: Any) -> None:
    await next()
    if context.params.query.get("name") == "collide":
        raise Conflict("taken", data={"by": context.result})


HIDE = {
    "protect": protect("password"),
    "resolver": resolve_external(resolve({"password": hidden})),
}


@pytest.mark.parametrize("hide", HIDE)
@pytest.mark.parametrize("version", VERSIONS)
async def test_canaries(version, hide):
    stored = [{"id": 1, "name": "collide", "password": "canary-1"}]
    app = api().use("users", with_schema(Users(stored, start_id=2), User), methods=METHODS)
    app.service("users").hooks(around=[collide, HIDE[hide]])
    app.configure(mcp({"users": METHODS}, hosts=[HOST]))
    calls: list[tuple[str, dict[str, Any], bool]] = [
        ("find", {}, False),
        ("find", {"query": {"name": "collide"}}, True),
        ("find", {"query": {"$select": ["name", "password"]}}, False),
        ("find", {"query": {"password": {"$gt": "c"}}}, True),
        ("find", {"query": {"$sort": {"password": 1}}}, True),
        ("find", {"query": {"$or": [{"password": "x"}]}}, True),
        ("get", {"id": 1}, False),
        ("get", {"id": 9}, True),
        ("create", {"data": {"name": "b", "password": "canary-2"}}, False),
        ("create", {"data": {"name": 7, "password": "canary-2"}}, True),
        ("create", {"data": {"id": 1, "name": "b"}}, True),
        ("patch", {"id": 1, "data": {"password": "canary-3"}}, False),
        ("update", {"id": 1, "data": {"name": "c"}}, False),
        ("follow", {"data": {}}, False),
        ("remove", {"id": 1}, False),
        ("remove", {"id": 1, "password": "?"}, True),
    ]
    async with living(app):
        listed = await send(app, "tools/list", version=version)
        texts = [listed.text]
        for method, arguments, fails in calls:
            params = {"name": f"users_{method}", "arguments": arguments}
            params["_meta"] = {"progressToken": 1}
            answer = await send(app, "tools/call", params, version=version)
            assert answer.status == 200
            assert (f'"isError":{str(fails).lower()}' in answer.text) is True, answer.text
            texts.append(answer.text)
    assert "notifications/progress" in texts[-3]
    assert "canary" not in "".join(texts)
    find = listed.json["result"]["tools"][0]["inputSchema"]["properties"]["query"]["description"]
    assert find.startswith("Fields: id: integer; name: string. ")
