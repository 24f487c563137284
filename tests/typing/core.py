"""What type checkers see of the core; they read this file, nothing runs it.

`assert_type` fails where a type is lost, and a `type: ignore` that ignores nothing is an error, so
that what must be refused is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, assert_type

from alula import UNSET, App, FrameworkError, HookContext, Next, Page, Params, ServiceHandle
from alula import disallow as refuse
from alula.errors import NotFound, error_for_status, from_dict
from alula.types import Paginate, Unset


class Messages:
    async def find(self, params: Params) -> list[dict[str, Any]]:
        return [params.query]

    def get(self, id: int, params: Params) -> dict[str, Any]:
        return {"id": id, "tenant": params.tenant}

    async def archive(self, data: dict[str, Any], params: Params) -> None:
        """Archive."""


class MyApp(App):
    """An application of one's own keeps its type through the chain of calls."""


app = App(debug=True)
assert_type(app.use("messages", Messages(), methods=["find", "archive"], events=("x",)), App)
assert_type(MyApp().use("messages", Messages()).set("a", 1), MyApp)
assert_type(MyApp().configure(lambda app: app.set("a", 1)), MyApp)
assert_type(app.get("a"), Any)
assert_type(app.settings["a"], Any)
assert_type(app.settings[Messages], Messages)
assert_type(app.debug, bool)
assert_type(app.services, dict[str, ServiceHandle])
App("yes")  # type: ignore[arg-type]
app.use(Messages(), "messages")  # type: ignore[arg-type]
app.run(3030)  # type: ignore[attr-defined]

messages = app.service("messages")
assert_type(messages, ServiceHandle)
assert_type(messages.path, str)
assert_type(messages.methods, tuple[str, ...])

match = app.lookup("/messages/5")
assert match is not None
assert_type(match.value, ServiceHandle)
assert_type(match.id, str | None)
assert_type(match.route, dict[str, str])


# -- params and context ---------------------------------------------------------------------------

params = Params(query={"a": 1}, user="ann", anything=1)
assert_type(params.query, dict[str, Any])
assert_type(params.provider, str | None)
assert_type(params.headers, Mapping[str, str])
assert_type(params.route, Mapping[str, str])
assert_type(params.user, Any)
assert_type(params.anything, Any)
assert_type(params["anything"], Any)
assert_type(params.copy(query={}), Params)
params.tenant = "acme"
params.paginate = False
params.paginate = Paginate(default=10)
params.provider = 5  # type: ignore[assignment]


def read(context: HookContext) -> None:
    assert_type(context.params, Params)
    assert_type(context.app, Any)
    assert_type(context.service, Any)
    assert_type(context.path, str)
    assert_type(context.method, str)
    assert_type(context.event, str | None)
    assert_type(context.error, BaseException | None)
    assert_type(context.http, dict[str, Any])
    if context.result is UNSET:
        context.dispatch = None


def told_apart(value: int | Unset) -> int:
    """A comparison by identity narrows the type."""
    if value is UNSET:
        assert_type(value, Literal[Unset.UNSET])
        return 0
    return value


# -- hooks ----------------------------------------------------------------------------------------


@messages.before("create")
def stamp(context: HookContext) -> None:
    context.data = {"stamped": True}


@messages.after()
async def note(context: HookContext) -> None:
    context.result = None


@messages.around("find", "get")
async def measure(context: HookContext, next: Next) -> None:
    await next()


@app.around()
def plain(context: HookContext, next: Callable[[], Awaitable[None]]) -> Awaitable[None]:
    return next()


@app.error("remove")
async def convert(context: HookContext) -> str:
    context.error = NotFound("no")
    return "let go"


# A decorated hook stays the function that it was.
assert_type(stamp(HookContext(app, messages, "create", Params())), None)
assert_type(messages.hooks(before=[refuse("external")], after={"all": [note]}), ServiceHandle)
assert_type(app.hooks({"around": [measure]}, setup=[measure]), App)


@messages.before()  # type: ignore[type-var]
def takes_too_much(context: HookContext, next: Next) -> None:
    """Is an around hook."""


@messages.around()  # type: ignore[type-var]
async def takes_too_little(context: HookContext) -> None:
    """Is a before hook."""


# -- events ---------------------------------------------------------------------------------------


@messages.on("created")
def announce(data: dict[str, Any], context: HookContext) -> int:
    return len(data)


assert_type(announce({}, HookContext(app, messages, "create", Params())), int)
assert_type(messages.emit("created", {}, None), bool)
app.on("ready", print)
app.off("ready")


# -- calls ----------------------------------------------------------------------------------------


async def call_services(context_of_a_hook: HookContext) -> None:
    assert_type(await app.setup(), App)
    assert_type(await MyApp().teardown(), MyApp)
    assert_type(await app.unuse("messages"), Any)
    assert_type(await messages.find(), Any)
    await messages.find(query={"$limit": 1}, provider="rest", user={"id": 1}, paginate=False)
    await messages.find({"query": {"$limit": 1}, "tenant": "acme"})
    await messages.find(context_of_a_hook.params, query={"done": True})
    await messages.find(qurey={"done": True})  # type: ignore[call-arg]  # a keyword
    await messages.find(done=True)  # type: ignore[call-arg]  # a keyword
    await messages.find(query="done")  # type: ignore[arg-type]
    await messages.patch(None, {}, done=True)  # type: ignore[call-arg]  # a keyword
    await messages.remove(None, done=True)  # type: ignore[call-arg]  # a keyword
    await messages.call("archive", done=True)  # type: ignore[call-arg]  # a keyword
    await messages.find({"query": {}})
    await messages.get(1, Params(query={}))
    await messages.create({"text": "hello"}, {"user": 1})
    await messages.patch(None, {"read": True}, query={"read": False})
    await messages.archive({"id": 1}, params)
    await messages.call("archive", data={"id": 1})
    await messages.get()  # type: ignore[call-arg]
    await messages.find(5)  # type: ignore[arg-type]


# -- errors and pages -----------------------------------------------------------------------------

error = NotFound("gone", {"id": 5}, errors={"id": "is wrong"})
assert_type(error.code, int)
assert_type(error.name, str)
assert_type(error.message, str)
assert_type(error.to_dict(), dict[str, Any])
assert_type(from_dict({}), FrameworkError)
assert_type(FrameworkError.from_dict({}), FrameworkError)
assert_type(error_for_status(404), type[FrameworkError])
NotFound(5)  # type: ignore[arg-type]


def read_page(page: Page) -> None:
    assert_type(page["total"], int)
    assert_type(page["data"], list[Any])
    assert_type(Page(total=1, limit=1, skip=0, data=[]).copy(), Page)
    page["pages"]  # type: ignore[call-overload]
    Page(total=1, limit=1, skip=0)  # type: ignore[call-arg]
