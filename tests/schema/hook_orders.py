"""Tasks of people, with `authenticate` and a schema's hooks registered in every order."""

from __future__ import annotations

from itertools import product
from typing import Any

import httpx2
from pydantic import BaseModel
from tests.authentication.building import add_authentication

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate
from alula.express import error_handler, express, json, rest
from alula.schema import query_syntax, resolve, resolve_query, validate_query, with_schema

METHODS = ("find", "get", "patch", "update", "remove")

TASK = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": "string"},
        "userId": {"type": "integer"},
    },
}


class Task(BaseModel):
    text: str = ""
    userId: int = 0  # noqa: N815  # as on the wire


ORDERS = [
    {"kind": kind, "for": which, "on": on, "when": when}
    for kind, which, on, when in product(
        ("around", "before"), ("all", "method"), ("app", "service"), ("first", "later")
    )
]
"""Where and when `authenticate` is registered."""


def name_of(order: dict[str, str]) -> str:
    return "-".join(order.values())


def own(value: Any, _query: Any, context: Any) -> Any:
    """Keep those who are signed in to their own tasks, and nobody else to anything."""
    return context.params.user["id"] if context.params.user else value


def make_app(order: dict[str, str], model: Any = None) -> Any:
    """Return an application with hooks one by one, or with `with_schema` where a model is given."""
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("users", MemoryService({1: {"id": 1}, 2: {"id": 2}}))
    add_authentication(app, strategies=("jwt",))
    store = MemoryService({1: {"id": 1, "text": "first", "userId": 1}}, start_id=2)

    def guard() -> None:
        hooks = [authenticate("jwt")]
        by = {"all": hooks} if order["for"] == "all" else dict.fromkeys(METHODS, hooks)
        target = app if order["on"] == "app" else app.service("tasks")
        target.hooks({order["kind"]: by})

    def check() -> None:
        hooks = [validate_query(query_syntax(TASK)), resolve_query(resolve({"userId": own}))]
        app.service("tasks").hooks({order["schema"]: hooks})

    if model is not None:
        if order["on"] == "app" and order["when"] == "first":
            guard()
        app.use("tasks", with_schema(store, model, query=resolve({"userId": own})))
        if order["on"] == "service" or order["when"] == "later":
            guard()
    else:
        app.use("tasks", store)
        for register in (guard, check) if order["when"] == "first" else (check, guard):
            register()
    app.use(error_handler(logger=False))
    return app


async def answers_of(app: Any) -> dict[str, str]:
    """Return what a stranger, nobody and the owner of task 1 are answered, in this order."""
    answers = {}
    await app.setup()
    for caller in ("2", "", "1"):
        headers = {}
        if caller:
            token = app.service("authentication").service.create_access_token({}, caller)
            headers["Authorization"] = f"Bearer {token}"
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://test/tasks", headers=headers
        ) as client:
            for name, method, path, body in (
                ("find", "GET", "", None),
                ("find all", "GET", "?userId=1", None),
                ("get", "GET", "/1", None),
                ("patch", "PATCH", "/1", {"text": f"by {caller}"}),
                ("patch with a query", "PATCH", "/1?userId=1", {"text": f"by {caller}"}),
                ("update", "PUT", "/1", {"text": f"by {caller}", "userId": 1}),
                *([] if caller == "1" else [("remove", "DELETE", "/1?userId=1", None)]),
            ):
                response = await client.request(method, path, json=body)
                told = str(response.status_code)
                if name.startswith("find") and response.is_success:
                    told += f" {len(response.json())}"
                answers[f"{caller or 'nobody'} {name}"] = told
    return answers
