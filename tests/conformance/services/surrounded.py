"""Services with middleware and hooks around them."""

from __future__ import annotations

from string import punctuation
from typing import Any
from urllib.parse import quote

from tests.conformance.services.javascript import spread, truthy

from alula import errors


class AfterMiddleware:
    """Answers what middleware before it set."""

    async def find(self, params):
        return [from_middleware(params), {"second": True}]

    async def get(self, id, params):
        return {"id": id, **from_middleware(params)}

    async def create(self, data, params):
        return data


def from_middleware(params):
    """Return what middleware set; a call over a socket has passed none."""
    return {"mw": params.fromMiddleware} if "fromMiddleware" in params else {}


def before_service(req, res, next):
    """Set a param from a header."""
    req.framework.fromMiddleware = req.get("x-in") or "none"
    return next()


def after_service(req, res, next):
    """Add headers from the result, and replace it where it asks for that."""
    hook, data = res.hook, res.data
    res.set("X-Count", str(len(data)) if isinstance(data, list) else "1")
    # Percent-encoded, as it came: a header can not carry every id.
    name = "none" if hook.id is None else quote(hook.id, safe=punctuation)
    res.set("X-Hook", f"{hook.path}:{hook.method}:{name}")
    if isinstance(data, dict) and truthy(data.get("replace")):
        res.data = {"replaced": True}
    elif isinstance(data, dict) and truthy(data.get("text")):
        return res.type("text/plain").send("plain text answer")
    return next()


def middleware(app: Any) -> None:
    """Register the service with middleware around it."""
    app.use("after-mw", before_service, AfterMiddleware(), after_service)


class Hooked:
    """Leaves a trace that hooks continue."""

    async def find(self, params):
        return {"trace": ["service"]}

    async def get(self, id, params):
        if id in {"boom", "recover"}:
            raise RuntimeError("service failed")
        if id == "typed":
            raise errors.Forbidden("typed failure", {"id": id})
        return {"id": id, "trace": ["service"]}

    async def create(self, data, params):
        return {**spread(data), "trace": ["service"]}

    async def patch(self, id, data, params):
        return {"id": id, "data": data}


def tag(name):
    """Return a hook that adds a name to the trace, where there is one."""

    def add(context):
        result = context.result
        if isinstance(result, dict) and "trace" in result:
            context.result = {**result, "trace": [*result["trace"], name]}

    return add


def around(name):
    """Return an around hook that adds a name to the trace on the way out."""

    async def add(context, next):
        await next()
        tag(name)(context)

    return add


def skip(context):
    """Set a result in the place of the method's."""
    if context.id == "skip":
        context.result = {"skipped": True, "trace": []}


def deny(context):
    """Refuse one id."""
    if context.id == "deny":
        raise errors.NotAuthenticated("denied in before hook")


def stamp(context):
    """Change the data."""
    context.data = {**spread(context.data), "stamped": True}


def need_id(context):
    """Refuse a patch of many."""
    if context.id is None:
        raise errors.BadRequest("id is null")


def convert(context):
    """Replace one error by another, and one by a result."""
    if context.id == "boom":
        context.error = errors.Conflict("converted by error hook", {"from": str(context.error)})
    if context.id == "recover":
        context.result = {"recovered": str(context.error)}


def hooked(app: Any) -> None:
    """Register the service with hooks of every type."""
    app.use("hooked", Hooked())
    app.service("hooked").hooks(
        around={"all": [around("around:all")], "find": [around("around:find")]},
        before={"get": [skip, deny], "create": [stamp], "patch": [need_id]},
        after={
            "all": [tag("after:all")],
            "find": [tag("after:find:1"), tag("after:find:2")],
            "get": [tag("after:get")],
        },
        error={"get": [convert]},
    )
