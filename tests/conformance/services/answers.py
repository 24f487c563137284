"""Services whose results, statuses and headers are out of the ordinary."""

from __future__ import annotations

from typing import Any

from alula.errors import Conflict

THINGS = {
    "null": None,
    "undefined": None,
    "false": False,
    "zero": 0,
    "empty": "",
    "string": "text",
    "number": 42,
    "true": True,
    "array": [],
    "emptyobject": {},
}


class Nothing:
    """Answers nothing, or next to nothing."""

    async def find(self, params):
        return None

    async def get(self, id, params):
        return THINGS.get(id)

    async def create(self, data, params):
        what = data.get("what") if isinstance(data, dict) else None
        return THINGS.get(what) if isinstance(what, str) else None

    async def update(self, id, data, params):
        return None

    async def patch(self, id, data, params):
        return None

    async def remove(self, id, params):
        return None


class CustomHttp:
    """Has its status and headers set by a hook."""

    async def find(self, params):
        return {"ok": True}

    async def get(self, id, params):
        return {"id": id}

    async def create(self, data, params):
        return {"created": data}

    async def remove(self, id, params):
        return None

    async def poke(self, data, params):
        return {"poked": data}


HTTP_BY_MODE: dict[str, dict[str, Any]] = {
    "status": {"status": 202},
    "merge": {"status": 203},
    "headers": {"headers": {"X-Custom": "yes", "Cache-Control": "no-store"}},
    "location": {"location": "/echo/1?name=ü&x=a b"},
    "locationStatus": {"status": 301, "location": "/echo/1"},
    "headerLocation": {"headers": {"Location": "/somewhere"}},
    "all": {"status": 207, "headers": {"X-Custom": "all"}, "location": "/all"},
    "status204": {"status": 204},
    "contentType": {"headers": {"Content-Type": "application/vnd.api+json"}},
    "throwAfter": {"status": 202, "headers": {"X-Custom": "lost"}},
}


def set_http(context):
    """Set status and headers by the mode that the query names."""
    mode = context.params.query.get("mode")
    if not isinstance(mode, str):
        return
    context.http.update(HTTP_BY_MODE.get(mode, {}))
    if mode == "dispatch":
        context.dispatch = {"safe": True}
    if mode == "dispatchNull":
        context.dispatch = None
    if mode == "throwAfter":
        raise Conflict("after hook failed")


class Readonly:
    """Has two methods."""

    async def find(self, params):
        return [1, 2, 3]

    async def get(self, id, params):
        return {"id": id}


class Internal:
    """Is closed to the outside."""

    async def find(self, params):
        return []


class Conflicting:
    """Fails."""

    async def find(self, params):
        raise Conflict("c")


def answers(app: Any) -> None:
    """Register the services that show how results are answered."""
    app.use("nothing", Nothing())
    app.use("custom-http", CustomHttp(), methods=["find", "get", "create", "remove", "poke"])
    app.service("custom-http").hooks(after=[set_http])
    app.use("readonly", Readonly())
    app.use("internal", Internal(), methods=[])
