"""What type checkers see of typed services on the server; they read this file, nothing runs it.

Every line with a `type: ignore` is a mistake that each checker must find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict, assert_type
from uuid import UUID

from pydantic import BaseModel

from alula import (
    App,
    CustomMethod,
    HookContext,
    Next,
    Page,
    Params,
    ServiceHandle,
    StreamMethod,
    TypedService,
)
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate
from alula.express import ExpressApplication, express, health, rest
from alula.openapi import openapi
from alula.schema import with_schema


class User(TypedDict):
    id: int
    email: str


class Message(TypedDict):
    id: int
    text: str
    likes: int


class NewMessage(TypedDict):
    text: str


class MessageChanges(TypedDict, total=False):
    text: str
    likes: int


class Archive(TypedDict):
    ids: list[int]


class Messages(TypedService[Message, NewMessage, MessageChanges, Page[Message]]):
    archive: CustomMethod[Archive, list[Message]]
    write: StreamMethod[str, Message]


class MessageModel(BaseModel):
    text: str


app = App()
app.use("messages", with_schema(MemoryService(), MessageModel))
plain = app.service("messages")
messages = app.service("messages", Message)
paged = app.service("messages", Messages)

# -- schemas --------------------------------------------------------------------------------------

checked = with_schema(MemoryService(), Message, hidden=["likes"])
app.use("checked", checked)
inferred = app.service("checked", checked)
of_web = express(app).service("checked", checked)
of_model = app.service("messages", with_schema(MemoryService(), MessageModel))
of_schema = app.service("messages", with_schema(MemoryService(), {"properties": {}}))
assert_type(inferred, TypedService[Message])
assert_type(of_web, TypedService[Message])
assert_type(of_model, TypedService[Any])
assert_type(of_schema, TypedService[Any])
app.service("checked", MemoryService())  # type: ignore[call-overload]
with_schema(MemoryService(), Message, hiden=["likes"])  # type: ignore[call-overload]
with_schema(MemoryService())  # type: ignore[call-overload]


async def call_checked() -> None:
    assert_type(await inferred.get(1), Message)
    assert_type(await inferred.create({"text": "hi"}), Message)
    (await inferred.get(1))["txet"]  # type: ignore[typeddict-item]
    await inferred.creat({"text": "hi"})  # type: ignore[attr-defined]
    await of_web.get(None)  # type: ignore[arg-type]


@inferred.before("create")
def sign_checked(context: HookContext[Message]) -> None: ...


@inferred.before("create")  # type: ignore[arg-type]
def sign_others(context: HookContext[User]) -> None: ...


# -- handles --------------------------------------------------------------------------------------

assert_type(plain, ServiceHandle)
assert_type(messages, TypedService[Message])
assert_type(paged, Messages)
assert_type(messages.path, str)
assert_type(messages.methods, tuple[str, ...])
assert_type(app.services["messages"], ServiceHandle)
assert_type(express(App()).service("messages", Message), TypedService[Message])
assert_type(express(App()).service("messages", Messages), Messages)
app.service("messages", MessageModel)  # type: ignore[type-var]
app.service("messages", int)  # type: ignore[type-var]
app.service("messages", "Message")  # type: ignore[call-overload]
app.service("messages", type=Message)  # type: ignore[call-overload]
app.service("messages", Message, ["archive"])  # type: ignore[call-overload]
express(App()).service("messages", int)  # type: ignore[type-var]


def takes_any_handle(handle: ServiceHandle) -> None: ...


takes_any_handle(messages)
takes_any_handle(paged)


# -- calls ----------------------------------------------------------------------------------------


async def call_services() -> None:
    assert_type(await messages.find(), Page[Message] | list[Message])
    assert_type(
        await messages.find(query={"$limit": 2}, paginate=False), Page[Message] | list[Message]
    )
    assert_type(await paged.find(), Page[Message])
    assert_type((await paged.find())["data"], list[Message])
    assert_type((await paged.find())["data"][0]["text"], str)
    assert_type((await paged.find())["total"], int)
    assert_type(await messages.get(1), Message)
    assert_type(await messages.get("1"), Message)
    assert_type(await messages.get(UUID(int=1)), Message)
    assert_type((await messages.get(1))["likes"], int)
    assert_type(await messages.create({"text": "hi"}), Message)
    assert_type(await messages.create([{"text": "hi"}]), list[Message])
    assert_type(await paged.create({"text": "hi"}), Message)
    assert_type(await paged.create([{"text": "hi"}]), list[Message])
    assert_type(await paged.create(NewMessage(text="hi"), user={"id": 1}), Message)
    assert_type(await messages.update(1, {"text": "hi"}), Message)
    assert_type(await paged.update(1, {"text": "hi"}), Message)
    assert_type(await messages.patch(1, {"text": "hi"}), Message)
    assert_type(await messages.patch(None, {"read": True}, query={"id": 1}), list[Message])
    assert_type(await paged.patch(1, {"likes": 2}), Message)
    assert_type(await paged.patch(None, {"likes": 2}), list[Message])
    assert_type(await messages.remove(1), Message)
    assert_type(await messages.remove(None, query={"likes": 0}), list[Message])
    assert_type(await paged.archive({"ids": [1]}), list[Message])
    assert_type(await paged.archive({"ids": [1]}, Params(), query={"likes": 1}), list[Message])
    assert_type(await messages.call("archive", data={"ids": [1]}), Any)
    assert_type(await plain.archive({"ids": [1]}), Any)

    # methods
    await messages.creat({"text": "hi"})  # type: ignore[attr-defined]
    await messages.delete(1)  # type: ignore[attr-defined]
    await messages.archive({"ids": [1]})  # type: ignore[attr-defined]
    await paged.archiv({"ids": [1]})  # type: ignore[attr-defined]
    print(messages.pth)  # type: ignore[attr-defined]

    # keywords
    await messages.find(qurey={"likes": 1})  # type: ignore[call-arg]  # a keyword
    await messages.find(likes=1)  # type: ignore[call-arg]  # a keyword
    await messages.find(query="likes")  # type: ignore[arg-type]
    await messages.find(5)  # type: ignore[arg-type]
    await messages.get(1, likes=1)  # type: ignore[call-arg]  # a keyword
    await messages.create({"text": "hi"}, likes=1)  # type: ignore[call-overload]  # a keyword
    await messages.patch(None, {"likes": 1}, text="hi")  # type: ignore[call-overload]  # a keyword
    await messages.remove(None, likes=0)  # type: ignore[call-overload]  # a keyword
    await paged.archive({"ids": [1]}, likes=0)  # type: ignore[call-arg]  # a keyword
    await messages.call("archive", likes=0)  # type: ignore[call-arg]  # a keyword

    # ids
    await messages.get()  # type: ignore[call-arg]
    await messages.get(None)  # type: ignore[arg-type]
    await messages.get({"id": 1})  # type: ignore[arg-type]
    await messages.get(await messages.get(1))  # type: ignore[arg-type]
    await messages.update(None, {"text": "hi"})  # type: ignore[arg-type]
    await messages.remove()  # type: ignore[call-overload]
    await messages.patch({"text": "hi"})  # type: ignore[call-overload]

    # data
    await messages.create("hi")  # type: ignore[arg-type]
    await messages.create()  # type: ignore[call-overload]
    await paged.create({"txet": "hi"})  # type: ignore[call-overload]
    await paged.create({"text": 5})  # type: ignore[call-overload]
    await paged.create({"text": "hi", "likes": 5})  # type: ignore[call-overload]
    await paged.create({})  # type: ignore[call-overload]
    await paged.update(1, {"likes": 1})  # type: ignore[typeddict-item, typeddict-unknown-key]
    await paged.patch(1, {"likse": 1})  # type: ignore[call-overload]
    await paged.patch(None, {"likes": "many"})  # type: ignore[call-overload]
    await paged.archive({"id": 1})  # type: ignore[typeddict-item, typeddict-unknown-key]
    await paged.archive([1])  # type: ignore[arg-type]

    # results
    (await messages.get(1))["name"]  # type: ignore[typeddict-item]
    print((await messages.get(1)).text)  # type: ignore[attr-defined]
    (await paged.find())["dta"]  # type: ignore[call-overload]
    (await paged.find())["data"][0]["name"]  # type: ignore[typeddict-item]
    (await messages.find())["data"]  # type: ignore[call-overload]
    (await messages.patch(None, {}))["text"]  # type: ignore[call-overload]
    (await paged.archive({"ids": []}))["text"]  # type: ignore[call-overload]
    messages.get(1)["text"]  # type: ignore[index]
    assert_type(int(await messages.get(1)), int)  # type: ignore[assert-type, call-overload]


# -- params and context ---------------------------------------------------------------------------


def read(context: HookContext[Message, NewMessage, User, App]) -> None:
    assert_type(context.result, Message)
    assert_type(context.data, NewMessage)
    assert_type(context.params, Params[User])
    assert_type(context.params.user, User)
    assert_type(context.params.user["email"], str)
    assert_type(context.params.copy(query={}), Params[User])
    assert_type(context.app, App)
    assert_type(context.app.service("messages", Message), TypedService[Message])
    context.result["name"]  # type: ignore[typeddict-item]
    context.data["txet"]  # type: ignore[typeddict-item]
    context.params.user["name"]  # type: ignore[typeddict-item]
    context.app.servce("messages")  # type: ignore[attr-defined]
    context.result = {"id": 1}  # type: ignore[typeddict-item]
    context.resutl = {}  # type: ignore[attr-defined]


def read_service(context: HookContext[Message, NewMessage, User, App, Messages]) -> None:
    assert_type(context.service, Messages)
    assert_type(context.service.path, str)
    context.service.creat({})  # type: ignore[attr-defined]


async def call_service(context: HookContext[Message, NewMessage, User, App, Messages]) -> None:
    assert_type(await context.service.get(1), Message)
    assert_type(await context.service.archive({"ids": [1]}), list[Message])
    await context.service.get(None)  # type: ignore[arg-type]
    await context.service.archive({"id": [1]})  # type: ignore[typeddict-item]
    await context.service.find(qurey={})  # type: ignore[call-arg]  # a keyword


def read_part(context: HookContext[Page[Message]]) -> None:
    assert_type(context.result["data"], list[Message])
    assert_type(context.data, Any)
    assert_type(context.params.user, Any)
    assert_type(context.app, Any)


def read_maybe(context: HookContext[Any, Any, User | None]) -> None:
    context.params.user["email"]  # type: ignore[index]


def read_nothing(context: HookContext) -> None:
    assert_type(context.result, Any)
    assert_type(context.data, Any)
    assert_type(context.params, Params)
    assert_type(context.params.user, Any)


# -- hooks ----------------------------------------------------------------------------------------


def of_message(context: HookContext[Message]) -> None: ...
def of_new(context: HookContext[Message, NewMessage]) -> None: ...
def of_page(context: HookContext[Page[Message]]) -> None: ...
def of_user(context: HookContext[User]) -> None: ...
def of_any_record(context: HookContext[Mapping[str, Any]]) -> None: ...
async def around_message(context: HookContext[Message], next: Next) -> None: ...
async def around_user(context: HookContext[User], next: Next) -> None: ...


assert_type(
    messages.hooks(after={"get": [of_message], "all": [read_nothing]}), TypedService[Message]
)
assert_type(paged.hooks(before={"create": [of_new]}, after={"find": of_page}), Messages)
paged.hooks(around=[authenticate("jwt")], error=[read_nothing])
paged.hooks(around={"get": [around_message, authenticate("jwt")]})
paged.hooks({"after": {"get": [of_any_record], "remove": (of_message,)}})
messages.hooks(befor=[read_nothing])  # type: ignore[call-arg]
messages.hooks(before={"creat": [read_nothing]})  # type: ignore[arg-type]
messages.hooks(after={"get": [of_user]})  # type: ignore[arg-type]
messages.hooks(after={"get": [around_message]})  # type: ignore[arg-type]
messages.hooks(around={"get": [of_message]})  # type: ignore[arg-type]
messages.hooks(around={"get": [around_user]})  # type: ignore[arg-type]
messages.hooks(before={"create": 5})  # type: ignore[arg-type]
paged.hooks(after={"find": [of_message]})  # type: ignore[arg-type]
messages.hooks({"befor": {}})  # type: ignore[arg-type]
plain.hooks(befor=[read_nothing])  # type: ignore[call-arg]  # a keyword
plain.hooks(before=5)  # type: ignore[arg-type]
messages.hooks(setup=[read_nothing])  # type: ignore[call-arg]
app.hooks(befor=[read_nothing])  # type: ignore[call-arg]  # a keyword
express(App()).hooks(befor=[read_nothing])  # type: ignore[call-arg]  # a keyword
app.hooks(setup=[around_message], before={"archive": [read_nothing]})
plain.hooks(before={"archive": [read_nothing]})


@messages.before("create", "update")
def stamp(context: HookContext[Message, Mapping[str, Any]]) -> None: ...


@paged.before("create")
def stamp_new(context: HookContext[Message, NewMessage]) -> int:
    return len(context.data["text"])


@paged.after("find")
async def note(context: HookContext[Page[Message]]) -> None:
    assert_type(context.result["data"][0]["text"], str)


@paged.around("get", "remove")
async def measure(context: HookContext[Message], next: Next) -> None:
    await next()


@messages.before()
def every(context: HookContext) -> None: ...


@messages.after("find", "get")
def several(context: HookContext) -> None: ...


@messages.error("get", "create", "patch")
def one_record(context: HookContext[Message]) -> None: ...


@messages.before("creat")  # type: ignore[call-overload, untyped-decorator]
def misspelt(context: HookContext) -> None: ...


@messages.after("get")  # type: ignore[arg-type]
def of_others(context: HookContext[User]) -> None: ...


@messages.after("get")  # type: ignore[arg-type]
async def takes_too_much(context: HookContext[Message], next: Next) -> None: ...


@messages.around("get")  # type: ignore[arg-type]
async def takes_too_little(context: HookContext[Message]) -> None: ...


@messages.befor("create")  # type: ignore[attr-defined, untyped-decorator]
def no_such_type(context: HookContext) -> None: ...


@messages.before(["create"])  # type: ignore[call-overload, untyped-decorator]
def in_a_list(context: HookContext) -> None: ...


assert_type(stamp_new(HookContext(app, messages, "create", Params())), int)

# -- events ---------------------------------------------------------------------------------------


@messages.on("created")
def announce(message: Message, context: HookContext) -> int:
    return len(message["text"])


@messages.once("removed")
async def say(message: Message, context: HookContext[Message]) -> None: ...


@messages.on("creatd")  # type: ignore[call-overload, untyped-decorator]
def hears_nothing(message: Message, context: HookContext) -> None: ...


@messages.on("created")  # type: ignore[arg-type]
def hears_users(user: User, context: HookContext) -> None: ...


def hears_one(message: Message) -> None: ...
def hears_message(message: Message, context: HookContext) -> None: ...


messages.on("updated", hears_message)
messages.on("updated", hears_one)  # type: ignore[call-overload]
messages.on("update", hears_message)  # type: ignore[call-overload]
messages.once("patched", 5)  # type: ignore[call-overload]
messages.off("updated", hears_message)
plain.on("typing", hears_one)


# -- paths ----------------------------------------------------------------------------------------

ServicePath: TypeAlias = Literal["messages", "users"]
Application: TypeAlias = ExpressApplication[ServicePath]

core = App[ServicePath]()
web = express(core)
assert_type(web, Application)
assert_type(core.service("messages"), ServiceHandle)
assert_type(web.service("users", User), TypedService[User])
assert_type(web.service("messages", Messages), Messages)
assert_type(web.configure(rest()).configure(openapi()).configure(health()), Application)
assert_type(web.use("messages", MemoryService()), Application)
core.service("mesages")  # type: ignore[call-overload]
web.service("mesages")  # type: ignore[call-overload]
web.service("user", User)  # type: ignore[call-overload]
web.service("mesages", Messages)  # type: ignore[call-overload]
App[int]()  # type: ignore[type-var]


def plugin(app: ExpressApplication) -> None: ...
def typed_plugin(app: Application) -> None: ...


async def unuse(context: HookContext[Message, Any, User, Application]) -> None:
    await web.unuse("mesages")  # type: ignore[arg-type]
    await context.app.service("users").get(1)
    context.app.service("user")  # type: ignore[call-overload]


web.configure(plugin).configure(typed_plugin)
express(App()).configure(typed_plugin)
