"""What type checkers see of the web layer; they read this file, nothing runs it.

`assert_type` fails where a type is lost, and a `type: ignore` that ignores nothing is an error, so
that what must be refused is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, assert_type

from alula import App, ServiceHandle
from alula.adapters.memory import MemoryService
from alula.express import (
    ExpressApplication,
    Request,
    Response,
    WebApplication,
    access_log,
    express,
    health,
    request_id,
    rest,
)
from alula.logs import configure_logging, current_request_id, request_scope
from alula.query import parse
from alula.telemetry import telemetry, trace_requests

web = express(App())
assert_type(web, ExpressApplication)
assert_type(express(), WebApplication)

assert_type(web.configure(rest(lambda req, res: None)), ExpressApplication)
assert_type(web.use("messages", MemoryService(multi=["create"])), ExpressApplication)
assert_type(web.service("messages"), ServiceHandle)

# One argument reads a setting, more of them register a route.
assert_type(web.set("size", 1), ExpressApplication)
assert_type(web.get("size"), Any)
assert_type(web.get("/hello", lambda req, res: res.json({})), ExpressApplication)
assert_type(parse("a=1"), dict[str, Any])


async def middleware(req: Request, res: Response, next: Callable[[], Awaitable[None]]) -> None:
    assert_type(req.method, str)
    assert_type(res.status(404), Response)
    res.status("404")  # type: ignore[arg-type]  # refused by its type
    await next()


web.use("/hello", middleware)

# -- logs, traces, health --------------------------------------------------------------------------

assert_type(web.use([trace_requests(), request_id(trusted=True), access_log()]), ExpressApplication)
traced: ExpressApplication = web.configure(telemetry())
traced_core: App = App().configure(telemetry())
assert_type(web.readiness, Literal["starting", "ready", "draining"])


async def ping() -> None: ...


assert_type(web.configure(health(checks={"database": ping})), ExpressApplication)
health(checks=[ping])  # type: ignore[arg-type]  # they have names
configure_logging(level="DEBUG", json=True)
assert_type(current_request_id(), str | None)
with request_scope() as job:
    assert_type(job, str)
