"""What type checkers see of servers, routers and sub-applications; nothing runs this file.

As in `web.py` beside it, `assert_type` fails where a type is lost, and a `type: ignore` that
ignores nothing is an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, assert_type

from starlette.applications import Starlette

from alula import App, ServiceHandle
from alula.adapters.memory import MemoryService
from alula.express import (
    ExpressApplication,
    Request,
    Response,
    Router,
    Server,
    WebApplication,
    api,
    express,
    rest,
)

Go = Callable[..., Awaitable[None]]


def handler(req: Request, res: Response) -> None:
    res.json(req.params["id"])


async def on_error(error: Exception, req: Request, res: Response, next: Go) -> None:
    await next(error)


# -- what express() makes --------------------------------------------------------------------------

assert_type(express(None, Starlette()), WebApplication)
assert_type(express(App(), Starlette()), ExpressApplication)
express(Starlette())  # type: ignore[call-overload]  # refused, and that is what is tested
express("app")  # type: ignore[call-overload]  # refused, and that is what is tested

app = express(App())
web = express()
assert_type(app.debug, bool)
assert_type(app.services, dict[str, ServiceHandle])
app.debug = "yes"  # type: ignore[assignment]  # refused, and that is what is tested

# -- registering goes on with the same type --------------------------------------------------------

assert_type(
    app.use("messages", MemoryService(), methods=["find"], events=["read"]), ExpressApplication
)
assert_type(app.use(on_error), ExpressApplication)
assert_type(web.use("/sub", app), WebApplication)
assert_type(web.get("/users/:id", handler), WebApplication)
app.use("messages", MemoryService(), methods=5)  # type: ignore[arg-type]  # refused by its type
web.use("messages", MemoryService(), methods=["find"])  # type: ignore[call-arg]  # refused, and that is what is tested

router = Router()
assert_type(router.use("/v1", Router()), Router)
for register in (router.post, router.put, router.patch, router.delete, router.all):
    assert_type(register("/users/:id", handler), Router)

# -- plugins ---------------------------------------------------------------------------------------

assert_type(rest(), Callable[[ExpressApplication], None])
rest(5)  # type: ignore[arg-type]  # refused by its type


def plugin(app: ExpressApplication) -> None:
    app.use("more", MemoryService())


assert_type(app.configure(plugin), ExpressApplication)

# -- start and stop --------------------------------------------------------------------------------


async def main() -> None:
    server = await app.listen(0, "127.0.0.1", ssl_certfile="cert.pem")
    assert_type(server, Server)
    assert_type(server.port, int)
    assert_type(server.host, str)
    assert_type(server.url, str)
    assert_type(server.close(), Awaitable[None])
    assert_type(server.wait_closed(), Awaitable[None])
    await app.listen("3030")  # type: ignore[arg-type]  # refused by its type
    async with await web.listen(0) as other:
        assert_type(other, Server)
    assert_type(await app.setup(server), ExpressApplication)
    assert_type(await web.teardown(), WebApplication)
    assert_type(await app.unuse("messages"), Any)


app.run(3030)

# -- settings --------------------------------------------------------------------------------------


class Config:
    origins: list[str]


app.set(Config, Config()).set("title", "Chat")
web.set(Config, Config())
App().set(Config, Config())
assert_type(app.settings[Config].origins, list[str])
assert_type(App().settings[Config], Config)
assert_type(web.settings[Config], Config)

# -- api() -----------------------------------------------------------------------------------------

assert_type(api(), ExpressApplication)
assert_type(api(App(), Starlette()), ExpressApplication)
assert_type(api(existing_app=Starlette()), ExpressApplication)
assert_type(api().use("messages", MemoryService()), ExpressApplication)
api("app")  # type: ignore[call-overload]  # refused, and that is what is tested
