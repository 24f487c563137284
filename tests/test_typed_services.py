"""Typed handles while the program runs: what `tests/typing` says about them costs nothing."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from alula import App, CustomMethod, HookContext, Page, Params, ServiceHandle, TypedService
from alula.adapters.memory import MemoryService
from alula.client import TypedService as ClientTypedService
from alula.client import create_client, rest
from alula.express import express
from alula.schema import with_schema

pytestmark = pytest.mark.anyio


class Message(TypedDict):
    id: int
    text: str


class User(TypedDict):
    id: int


class Archive(TypedDict):
    ids: list[int]


class Messages(TypedService[Message, Archive, Archive, Page[Message]]):
    archive: CustomMethod[Archive, list[int]]


class MoreMessages(Messages):
    restore: CustomMethod[Archive, list[int]]


class Archives(MemoryService):
    async def archive(self, data: Archive, params: Params) -> list[int]:
        return data["ids"]


@pytest.fixture
def app() -> App:
    archives = Archives(start_id=1, paginate={"default": 5})
    return App().use("messages", archives, methods=["find", "create", "archive"])


@pytest.mark.parametrize(
    "described", [Message, Messages, TypedService[Message], dict, dict[str, Any]]
)
def test_a_type_changes_nothing(app, described):
    handle = app.service("messages", described)
    assert handle is app.service("messages") is app.services["messages"]
    assert type(handle) is TypedService
    assert isinstance(handle, ServiceHandle)


def test_a_web_application_takes_the_same(app):
    web = express(app)
    assert web.service("messages", Message) is web.service("messages") is app.service("messages")


async def test_a_declared_method_is_that_of_the_service(app):
    messages = app.service("messages", Messages)
    assert await messages.archive({"ids": [1]}) == [1]
    await messages.create({"text": "hi"})
    assert (await messages.find())["data"] == [{"id": 1, "text": "hi"}]


def test_a_service_with_the_schema_of_its_records_has_their_type():
    service = with_schema(MemoryService(), {"properties": {"text": {"type": "string"}}})
    app = App().use("messages", service).use("others", MemoryService())
    assert app.service("messages", service) is app.service("messages")
    outer = App().use("inner", app)
    assert outer.service("inner/messages", service) is outer.service("inner/messages")
    assert express(app).service("messages", service) is app.service("messages")
    with pytest.raises(ValueError, match=r"service 'others' is not the service of with_schema"):
        app.service("others", service)


class Model(BaseModel):
    text: str


@pytest.mark.parametrize("described", [Model, int, list, "Message", object(), ServiceHandle])
def test_records_are_dicts(app, described):
    with pytest.raises(
        TypeError, match="records are dicts, also those that a Pydantic model checks"
    ):
        app.service("messages", described)


def test_a_declared_method_has_to_be_there(app):
    with pytest.raises(ValueError, match="MoreMessages declares the method `restore`, but service"):
        app.service("messages", MoreMessages)
    app.use("others", MemoryService())
    with pytest.raises(ValueError, match="Messages declares the method `archive`"):
        app.service("others", Messages)


def test_a_method_may_be_declared_by_a_base_class():
    class Empty(Messages):
        """Declares nothing more."""

    app = App().use("others", MemoryService())
    with pytest.raises(ValueError, match="Messages declares the method `archive`"):
        app.service("others", Empty)


def test_a_client_declares_methods_first():
    client = create_client().configure(rest("http://localhost").fetch())

    class Remote(ClientTypedService[Message]):
        archive: CustomMethod[Archive, list[int]]

    with pytest.raises(ValueError, match="Remote declares the method `archive`"):
        client.service("messages", Remote)
    handle = client.service("messages", Remote, methods=["archive"])
    assert handle is client.service("messages")
    assert "archive" in handle.methods
    with pytest.raises(TypeError, match=r"or give a class of alula\.client\.TypedService"):
        client.service("messages", Messages)


def test_a_path_without_a_service_is_told_first(app):
    with pytest.raises(LookupError, match="did you mean 'messages'"):
        app.service("mesages", int)


def test_types_take_any_number_of_types():
    assert HookContext[Message].__origin__ is HookContext
    assert HookContext[Message, Archive, User, App].__args__ == (Message, Archive, User, App)
    assert TypedService[Message].__args__ == (Message,)
    assert TypedService[Message, Archive, Archive, Page[Message]].__origin__ is TypedService
    assert Params[User] is Params
    assert {*Params[User](user={"id": 1}).keys()} == {"query", "user"}
    assert Page[Message].__origin__ is Page


def test_an_application_may_name_its_paths():
    core = App[Literal["messages"]]()
    assert type(core) is App
    assert express(core).use("messages", MemoryService()).service("messages").path == "messages"


async def test_a_hook_may_say_its_types(app):
    def stamp(context: HookContext[Message, Message, User, App]) -> None:
        context.data["text"] = f"{context.data['text']}!"

    app.service("messages", Message).hooks(before={"create": [stamp]})
    assert (await app.service("messages").create({"text": "hi"}))["text"] == "hi!"
