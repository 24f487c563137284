"""What methods declare by annotations: how it is read, and what is refused at registration."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from alula import App, Page, Params, Record, answers
from alula._declared import read_declared
from alula.adapters.memory import MemoryService
from alula.errors import Conflict, MethodNotAllowed, NotFound

pytestmark = pytest.mark.anyio

Item = TypeVar("Item")


class Note(BaseModel):
    text: str


class Filters(BaseModel):
    tag: str = ""


def declared(method, arguments=("params",), placeholders=()):
    return read_declared("`x`", method, arguments, placeholders)


async def _open(data: Any, params: Params) -> Page[Any] | list[Record] | None: ...
async def _generic(data: Item, params: Params) -> dict[str, Any] | list[Item]: ...
async def _untyped(data, params, *, secret=None): ...
async def _objects(data: object, params: Params) -> tuple[Any, ...]: ...
async def _bare(data: dict, params: Params) -> list: ...


@pytest.mark.parametrize(
    "method", [_open, _generic, _untyped, _objects, _bare, max, MemoryService.find]
)
def test_open_types_declare_nothing(method):
    assert declared(method, ("data", "params")) is None


def test_reads_all_that_a_method_declares():
    @answers(202, errors=[Conflict])
    async def get(id: int, params: Params, *, year: int, tag: str = "a") -> Awaitable[Note]: ...

    read = declared(get, ("id", "params"), ("year",))
    assert read is not None
    assert (read.id, read.result, read.status, read.errors) == (int, Note, 202, (Conflict,))
    assert [(each.name, each.type) for each in read.route] == [("year", int)]
    assert [(each.name, each.default) for each in read.parameters] == [("tag", "a")]


def test_reads_partials_decorated_methods_and_callable_objects():
    async def get(lang: str, id: int, params: Params) -> Note: ...

    class Callable:
        async def __call__(self, id: int, params: Params) -> Note: ...

    @functools.wraps(Callable.__call__)
    def wrapped(*args: Any) -> Any: ...

    for method in (functools.partial(get, "en"), Callable(), wrapped.__get__(Callable())):
        read = declared(method, ("id", "params"))
        assert (read.id, read.result) == (int, Note)


def use(method, name="find", **options):
    service = type("Service", (), {name: method})()
    return App().use("notes/:year", service, methods=[name], **options)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [("Missing", "'return' cannot be resolved"), ("Unknown", "is neither a JSON Schema")],
)
def test_an_annotation_that_means_nothing_is_an_error(annotation, message, monkeypatch):
    monkeypatch.setitem(globals(), "Unknown", type("Unknown", (), {}))

    async def find(self, params: Params): ...

    find.__annotations__["return"] = annotation
    with pytest.raises(TypeError, match=f"`find` of the service at 'notes/:year'.*{message}"):
        use(find)


def test_a_required_parameter_needs_a_type():
    async def find(self, params, *, tag): ...

    with pytest.raises(TypeError, match="'tag' needs a type"):
        use(find)


def test_a_whole_query_stands_alone():
    async def find(self, params: Params, *, query: Filters, limit: int = 1): ...

    with pytest.raises(TypeError, match="`query` is the whole query, so 'limit'"):
        use(find)


def test_types_need_the_extra(monkeypatch):
    async def find(self, params: Params) -> Note: ...

    async def get(self, id: int, params: Params): ...

    monkeypatch.setitem(sys.modules, "alula.schema._declared_methods", None)
    with pytest.raises(TypeError, match="declares types"):
        use(find)
    use(get, "get")  # simple ids need nothing


@pytest.mark.parametrize("arguments", [(404,), (True,), ("200",)])
def test_the_status_of_a_result_is_one_of_a_success(arguments):
    with pytest.raises(TypeError, match="from 200 to 299"):
        answers(*arguments)


@pytest.mark.parametrize("error", [ValueError, Conflict("no")])
def test_errors_are_classes_of_alula(error):
    with pytest.raises(TypeError, match=r"classes of alula\.errors"):
        answers(errors=[error])


class Typed:
    def __init__(self, type_):
        async def get(id, params):
            return {"id": id}

        get.__annotations__ = {"id": type_}
        self.get = get


GIVEN = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        (int, "-7", -7),
        (int, 7.0, 7),
        (str, 7, "7"),
        (str, "ä", "ä"),
        (UUID, GIVEN, UUID(GIVEN)),
        (UUID, UUID(GIVEN), UUID(GIVEN)),
        (Annotated[int, Field(gt=0)], "7", 7),
        (int | None, None, None),
        (None, None, None),
    ],
)
async def test_ids_are_converted(type_, given, expected):
    app = App().use("things", Typed(type_))
    assert await app.service("things").get(given) == {"id": expected}


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        *((int, each) for each in ("7.5", "seven", "", 7.5, True, "1" * 101, float("inf"), [])),
        *((str, each) for each in (True, {}, [])),
        *((UUID, each) for each in ("1", 7)),
        (Annotated[int, Field(gt=0)], "-7"),
    ],
)
async def test_an_id_of_another_type_is_not_found(type_, given):
    app = App().use("things", Typed(type_))
    with pytest.raises(NotFound, match="No record found"):
        await app.service("things").get(given)


@pytest.mark.parametrize(
    ("type_", "given"), [(int, None), (Annotated[int, Field(gt=0)], None), (None, "1")]
)
async def test_an_id_may_be_needed_or_not_allowed(type_, given):
    app = App().use("things", Typed(type_))
    with pytest.raises(MethodNotAllowed):
        await app.service("things").get(given)


async def test_a_method_that_returns_none_needs_no_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "alula.schema._declared_methods", None)

    class Bell:
        async def ring(self, data: object, params: Params) -> None:
            return data

    bell = App().use("bell", Bell(), methods=["ring"]).service("bell")
    assert await bell.call("ring", data=None) is None
    with pytest.raises(TypeError, match="the result is not None"):
        await bell.call("ring", data={"twice": True})
