"""A service with custom methods, which can fail in every way."""

from __future__ import annotations

import math
from typing import Any

from tests.conformance.services.javascript import number_of, whole

from alula import errors


class Calc:
    """Custom methods, and every error there is."""

    async def find(self, params):
        query = params.query
        name = query.get("error")
        if name is None:
            return {"ok": True}
        if isinstance(name, str) and name in SPECIAL:
            raise SPECIAL[name]()
        if not isinstance(name, str) or name not in BY_NAME:
            raise RuntimeError("there is no such error class")
        data = {"reason": "because", "errors": {"field": "is bad"}} if query.get("data") else None
        raise BY_NAME[name](query.get("message", "Forced error"), data)

    async def create(self, data, params):
        fields = data if isinstance(data, dict) else {}
        missing = math.nan
        return {"total": whole(sum(number_of(fields.get(name, missing)) for name in "ab"))}

    async def sum(self, data, params):
        values = (data.get("values") or []) if isinstance(data, dict) else None
        if not isinstance(values, list) or not all(type(x) in {int, float} for x in values):
            raise errors.BadRequest("values must be a list of numbers")
        return {"sum": sum(values), "query": params.query, "provider": params.provider}

    async def noop(self, data, params):
        return None

    async def fail(self, data, params):
        raise errors.Unprocessable("Can not process", {"given": data})

    async def hidden(self, data, params):
        return {"hidden": True}

    async def get(self, id, params):
        return {"id": id}


BY_NAME = {each.name: each for each in errors.FrameworkError.__subclasses__()}


class CodedError(Exception):
    """An error that is none of the framework's, with a code."""

    code = 418


SPECIAL = {
    "plain": lambda: RuntimeError("Plain failure"),
    "coded": lambda: CodedError("I am coded"),
    "withErrors": lambda: RuntimeError("Has errors"),
    "teapot": lambda: errors.FrameworkError(
        "Short and stout", {"handle": "here"}, name="Teapot", code=418, class_name="teapot"
    ),
    "array": lambda: errors.BadRequest("Array data", [{"a": 1}, {"b": 2}]),
    "object": lambda: errors.BadRequest({"message": "From object", "errors": {"a": 1}, "extra": 2}),
    "nomessage": errors.BadRequest,
    "datamessage": lambda: errors.BadRequest("Outer", {"message": "Inner", "x": 1}),
    "nulldata": lambda: errors.BadRequest("Null data", None),
    "error": lambda: errors.BadRequest(RuntimeError("Wrapped error")),
    "string": lambda: RuntimeError("just a string"),
}


def calc(app: Any) -> None:
    """Register the service with custom methods."""
    app.use("calc", Calc(), methods=["find", "create", "sum", "noop", "fail"])
