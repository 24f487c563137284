"""What type checkers see of the public interface; they read this file, nothing runs it.

`assert_type` fails where a type is lost, and a `type: ignore` that ignores nothing is an error, so
that what must be refused is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_type

from alula import UNSET, App, HookContext, Page, Params, ServiceHandle
from alula.adapters.memory import MemoryService
from alula.errors import FrameworkError, NotFound
from alula.express import ExpressApplication, Request, Response, WebApplication, express, rest
from alula.query import parse

app = App()
assert_type(app.use("messages", MemoryService(multi=["create"])), App)
assert_type(app.set("size", 1).configure(lambda app: app.get("size")), App)

messages = app.service("messages")
assert_type(messages, ServiceHandle)


@messages.before("create")
def stamp(context: HookContext) -> None:
    assert_type(context.params, Params)
    assert_type(context.app, Any)
    if context.result is not UNSET:
        context.data["changed"] = True


@messages.around("find", "get")
async def measure(context: HookContext, next: Callable[[], Awaitable[None]]) -> None:
    await next()


def call_decorated(context: HookContext, next: Callable[[], Awaitable[None]]) -> None:
    assert_type(measure(context, next), Coroutine[Any, Any, None])


async def call_services() -> None:
    assert_type(await app.setup(), App)
    await messages.find(query={"$limit": 1})
    await messages.get(1, Params(query={}))
    await messages.get()  # type: ignore[call-arg]
    await messages.create({"text": "hello"}, {"user": 1})


def read(page: Page, error: FrameworkError) -> None:
    assert_type(page["total"], int)
    page["pages"]  # type: ignore[typeddict-item]
    assert_type(error.code, int)
    assert_type(error.to_dict(), dict[str, Any])
    assert_type(NotFound("gone").message, str)
    assert_type(parse("a=1"), dict[str, Any])


web = express(app)
assert_type(web, ExpressApplication)
assert_type(express(), WebApplication)
assert_type(web.get("/hello", lambda req, res: res.json({})), ExpressApplication)
assert_type(web.get("size"), Any)
web.configure(rest(lambda req, res: None))


async def middleware(req: Request, res: Response, next: Callable[[], Awaitable[None]]) -> None:
    assert_type(req.method, str)
    assert_type(res.status(404), Response)
    await next()


web.use("/hello", middleware)
