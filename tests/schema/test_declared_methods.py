"""Methods with annotations: what reaches them, what hooks see, and what leaves them."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from alula import UNSET, App, HookContext, Page, Params, answers
from alula.adapters.memory import MemoryService
from alula.authentication import protect
from alula.errors import BadRequest, NotFound
from alula.outgoing import RedactedRecord, public_part
from alula.schema import with_schema

pytestmark = pytest.mark.anyio


class Draft(BaseModel):
    title: str = Field(alias="Title", min_length=1)
    tags: list[str] = []
    code: SecretStr | None = Field(None, exclude=True)


class Article(BaseModel):
    id: int
    title: str


class Named(typing.TypedDict):
    name: str


class Group(typing.TypedDict, total=False):
    name: typing.Required[str]
    members: Annotated[list[Named], Field(max_length=2)]
    lead: Named | None
    kind: Literal["a", "b"]


@dataclass
class Point:
    x: int
    y: int = 0


class Color(Enum):
    red = "red"


def serve(path="things", hooks=None, schema=None, **methods):
    service = type("Service", (), methods)()
    names = [*methods]
    bundle = service if schema is None else with_schema(service, schema)
    app = App().use("/".join(["", path]), bundle, methods=names)
    if hooks is not None:
        app.service(path).hooks(hooks)
    return app.service(path)


def failures(error):
    return [(each["instancePath"], each["keyword"]) for each in error.value.data]


# -- data ------------------------------------------------------------------------------------------


async def test_data_is_an_instance_in_the_method_and_a_dict_in_hooks():
    seen: list[Any] = []

    async def create(self, data: Draft, params: Params):
        seen.append((data.title, data.model_fields_set, data.code))
        return {}

    def look(context: HookContext) -> None:
        seen.append(dict(context.data))
        context.data["Title"] += "!"

    given = {"Title": "a", "code": "s3cret", "more": 1}
    service = serve(create=create, hooks={"before": {"create": [look]}})
    await service.create(given)
    assert seen[0] == {"Title": "a", "code": SecretStr("s3cret")}
    assert seen[1] == ("a!", {"title", "code"}, SecretStr("s3cret"))
    await serve(create=create).create({"Title": "b"})
    assert seen[2] == ("b", {"title"}, None)


@pytest.mark.parametrize("with_hooks", [False, True])
async def test_wrong_data_is_a_bad_request(with_hooks):
    async def create(self, data: Draft, params: Params): ...

    hooks = {"before": {"create": [lambda context: None]}} if with_hooks else None
    with pytest.raises(BadRequest) as error:
        await serve(create=create, hooks=hooks).create({"Title": ""})
    assert failures(error) == [("/Title", "minLength")]


async def test_a_hook_that_makes_wrong_data_is_an_error_of_the_server():
    async def create(self, data: Draft, params: Params): ...

    def spoil(context: HookContext) -> None:
        context.data = {}

    service = serve(create=create, hooks={"before": {"create": [spoil]}})
    with pytest.raises(RuntimeError, match="a hook has changed the query or the data"):
        await service.create({"Title": "a"})


@pytest.mark.parametrize("instance", [Article(id=1, title="a"), Point(1)])
async def test_own_code_passes_plain_data(instance):
    async def create(self, data: Draft, params: Params): ...

    with pytest.raises(TypeError, match=r"data\.model_dump\(\)"):
        await serve(create=create).create(instance)


async def test_a_method_may_take_no_data():
    async def ping(self, data: None, params: Params) -> Literal["pong"]:
        assert data is None
        return "pong"

    service = serve(ping=ping)
    hooked = serve(ping=ping, hooks={"before": {"ping": [lambda context: None]}})
    for each in (service, hooked):
        assert await each.ping() == await each.ping({}) == "pong"
        with pytest.raises(BadRequest, match="takes no data"):
            await each.ping({"a": 1})


async def test_typed_dicts_are_closed_whichever_module_they_come_from():
    async def create(self, data: Group, params: Params) -> Group:
        assert type(data) is dict
        return data

    service = serve(create=create)
    given = {"name": "a", "members": [{"name": "b"}], "lead": None, "kind": "a"}
    assert await service.create(given) == given
    with pytest.raises(BadRequest) as error:
        await service.create({**given, "members": [{"name": "b", "age": 1}], "more": 1})
    wanted = [("", "additionalProperties"), ("/members/0", "additionalProperties")]
    assert sorted(failures(error)) == wanted


async def test_a_typed_dict_of_the_standard_library_contains_no_other_of_its_own_kind():
    class Tree(typing.TypedDict):
        children: list[Tree]  # itself

    async def create(self, data, params: Params): ...

    Tree.__annotations__["children"] = list[Tree]
    create.__annotations__["data"] = Tree
    if sys.version_info < (3, 12):
        with pytest.raises(TypeError, match="Tree contains itself"):
            serve(create=create)


async def test_the_config_of_a_typed_dict_counts():
    class Loose(typing.TypedDict):
        name: str

    async def create(self, data, params: Params):
        return data

    Loose.__pydantic_config__ = ConfigDict(extra="allow")
    create.__annotations__["data"] = Loose
    given = {"name": "a", "more": 1}
    assert await serve(create=create).create(given) == given


async def test_a_typed_dict_may_be_open():
    class Loose(typing_extensions.TypedDict):
        __pydantic_config__ = ConfigDict(extra="allow")
        name: str

    async def create(self, data, params: Params): ...

    create.__annotations__["data"] = list[Loose]
    await serve(create=create).create([{"name": "a", "more": 1}])


async def test_hooks_may_change_typed_dicts_and_an_update_has_an_id():
    async def update(self, id: int, data: Group, params: Params) -> Group:
        return {**data, "name": f"{data['name']} {id}"}

    async def patch(self, id: int, data: Group, params: Params, *, loud: bool = False) -> Group:
        return data

    def change(context: HookContext) -> None:
        context.data["name"] += "!"

    service = serve(update=update, patch=patch, hooks={"before": {"update": [change]}})
    assert await service.update("1", {"name": "a"}) == {"name": "a! 1"}
    assert await service.patch("1", {"name": "a"}) == {"name": "a"}


async def test_a_list_of_a_client_has_a_limit():
    async def create(self, data: list[int], params: Params) -> int:
        return len(data)

    service = serve(create=create)
    assert await service.create([1] * 5_001) == 5_001
    with pytest.raises(BadRequest, match="more than 5000 records"):
        await service.create([1] * 5_001, provider="rest")


# -- queries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_hooks", [False, True])
async def test_query_parameters_are_converted_and_the_query_stays_a_dict(with_hooks):
    async def find(
        self,
        params: Params,
        *,
        json: int,
        tags: list[str] | None = None,
        since: Annotated[date, Field()] = date(2026, 1, 1),
        color: Color = Color.red,
    ):
        return params.query, (json, tags, since, color)

    hooks = {"before": {"find": [lambda context: None]}} if with_hooks else None
    service = serve(find=find, hooks=hooks)
    query, values = await service.find(query={"json": "5", "tags": "a"})
    assert values == (5, ["a"], date(2026, 1, 1), Color.red)
    assert query == {"json": 5, "tags": ["a"], "since": date(2026, 1, 1), "color": Color.red}
    with pytest.raises(BadRequest) as error:
        await service.find(query={"tgas": "a", "color": "blue"})
    wanted = [("", "additionalProperties"), ("", "required"), ("/color", "enum")]
    assert sorted(failures(error)) == wanted


async def test_hooks_may_add_to_a_query():
    async def find(self, params: Params, *, limit: int = 2):
        return limit, params.query

    def add(context: HookContext) -> None:
        context.params.query |= {"owner": 1, "limit": "3"}

    service = serve(find=find, hooks={"before": {"find": [add]}})
    assert await service.find() == (3, {"limit": "3", "owner": 1})


class Filters(BaseModel):
    state: str | None = None
    page: int = Field(1, ge=1)
    tags: list[str] = []


class OpenFilters(BaseModel):
    model_config = ConfigDict(extra="ignore")
    page: int = Field(1, validation_alias="p")


class Paging(typing_extensions.TypedDict, total=False):
    page: int


async def test_a_whole_query_may_be_a_model():
    async def find(self, params: Params, *, query: Filters):
        return query, params.query

    service = serve(find=find)
    made, query = await service.find(query={"page": "2", "tags": "a"})
    assert (made, type(query)) == (Filters(page=2, tags=["a"]), dict)
    assert query == {"state": None, "page": 2, "tags": ["a"]}
    with pytest.raises(BadRequest) as error:
        await service.find(query={"pgae": 2})
    assert failures(error) == [("", "additionalProperties")]


async def test_a_query_model_may_take_more_than_its_fields():
    async def find(self, params: Params, *, query: OpenFilters):
        return query.page

    assert await serve(find=find).find(query={"p": "2", "more": 1}) == 2


@pytest.mark.parametrize("with_hooks", [False, True])
async def test_a_whole_query_may_be_a_typed_dict(with_hooks):
    async def find(self, params: Params, *, query: Paging):
        return query

    hooks = {"before": {"find": [lambda context: None]}} if with_hooks else None
    service = serve(find=find, hooks=hooks)
    assert await service.find(query={"page": "2"}) == {"page": 2}
    with pytest.raises(BadRequest):
        await service.find(query={"more": 1})


async def test_a_whole_query_may_be_a_dataclass():
    async def find(self, params: Params, *, query: Point):
        return query, params.query

    service = serve(find=find)
    assert await service.find(query={"x": "1"}) == (Point(1), {"x": 1, "y": 0})
    with pytest.raises(BadRequest):
        await service.find(query={"x": "1", "z": "1"})


async def test_a_placeholder_needs_no_query_beside_it():
    async def find(self, params: Params, *, year: int):
        return year, params.query

    service = serve("reports/:year", find=find)
    assert await service.find(route={"year": "2026"}, query={"a": 1}) == (2026, {"a": 1})


async def test_placeholders_are_converted():
    async def find(self, params: Params, *, copy: int, month: int = 1):
        return copy, month

    service = serve("years/:copy/days", find=find)
    assert await service.find(route={"copy": "2026"}, query={"month": "2"}) == (2026, 2)
    for route in ({"copy": "last"}, {}):
        with pytest.raises(NotFound, match="There is nothing at copy"):
            await service.find(route=route)


# -- results ---------------------------------------------------------------------------------------


class Row:
    id, title, password = 1, "a", "hash"


class Envelope(BaseModel):
    article: Article
    other: Point | None = None


class Many(BaseModel):
    articles: list[Article]


class Wrapped(typing_extensions.TypedDict):
    article: Article


class Keys(BaseModel):
    key: SecretStr
    more: list[SecretStr] = []


class NamedModel(BaseModel):
    name: str


class Titled(typing_extensions.TypedDict):
    id: int
    title: str


ROW = {"id": 1, "title": "a", "password": "hash"}
SHOWN = {"id": 1, "title": "a"}


class Subclass(Article):
    password: str = "hash"


@pytest.mark.parametrize(
    ("type_", "result", "expected"),
    [
        (Article, ROW, SHOWN),
        (Article, Article(id=1, title="a"), SHOWN),
        (Article, Subclass(id=1, title="a"), SHOWN),
        (Article, Row(), SHOWN),
        (list[Article], [ROW, Row(), Subclass(id=1, title="a")], [SHOWN] * 3),
        (list[Article], [Subclass(id=1, title="a")], [SHOWN]),
        (Envelope, {"article": ROW}, {"article": SHOWN, "other": None}),
        (Envelope, Envelope.model_construct(article=ROW), {"article": SHOWN, "other": None}),
        (Wrapped, {"article": Subclass(id=1, title="a")}, {"article": SHOWN}),
        (Point, Point(1), {"x": 1, "y": 0}),
        (Named, {"name": "a", "password": "hash"}, {"name": "a"}),
        (list[Named], [{"name": "a", "password": "hash"}], [{"name": "a"}]),
        (
            Named,
            type("Named", (BaseModel,), {"__annotations__": {"name": str}})(name="a"),
            {"name": "a"},
        ),
        (Keys, Keys(key="a", more=["b"]), {"key": "**********", "more": ["**********"]}),
        (Keys, {"key": "a"}, {"key": "**********", "more": []}),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (int, "5", 5),
        (Callable[..., int], len, len),
        (Many, Many.model_construct(articles=[ROW]), {"articles": [SHOWN]}),
        (Article | None, None, None),
        (None, None, None),
    ],
)
async def test_results_are_cut_to_their_type(type_, result, expected):
    async def get(self, id, params):
        return result

    get.__annotations__["return"] = type_
    made = await serve(get=get).get(1)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    "result", [{"id": 1}, {"id": "s3cret", "title": "a"}, NamedModel(name="s3cret"), [ROW], 5, None]
)
@pytest.mark.parametrize("type_", [Article, Titled])
async def test_a_result_that_does_not_fit_is_an_error_of_the_server(type_, result):
    async def get(self, id, params):
        return result

    get.__annotations__["return"] = type_
    with pytest.raises(
        TypeError, match="`get` of the service at 'things': the result is not"
    ) as error:
        await serve(get=get).get(1)
    assert "s3cret" not in str(error.value)


async def test_pages_keep_their_type_and_more():
    pages: list[Any] = [
        Page(total=1, limit=1, skip=0, data=[ROW], cursor="x"),
        {"total": 1, "limit": 1, "skip": 0, "data": [ROW]},
        [ROW],
    ]

    async def find(self, params: Params) -> Page[Article] | list[Article]:
        return pages[int(params.query["at"])]

    async def listed(self, data, params: Params) -> Page[Article]:
        return pages[1]

    service = serve(find=find, listed=listed)
    page = await service.find(query={"at": 0})
    assert type(page) is Page
    assert page == {"total": 1, "limit": 1, "skip": 0, "data": [SHOWN], "cursor": "x"}
    assert await service.find(query={"at": 2}) == [SHOWN]
    assert (await service.listed())["data"] == [SHOWN]
    assert pages[0]["data"] == [ROW]


async def test_a_result_must_be_set():
    async def get(self, id: int, params: Params) -> Article:
        return UNSET

    with pytest.raises(RuntimeError, match="is UNSET"):
        await serve(get=get).get(1)


async def test_redacted_records_of_other_services_stay_redacted():
    class User(typing_extensions.TypedDict):
        id: Any
        name: str
        password: typing_extensions.NotRequired[str]

    app = App().use("users", MemoryService({"1": {"id": "1", "name": "Ada", "password": "hash"}}))
    app.service("users").hooks(after=[protect("password")])

    async def get(self, id, params):
        return await app.service("users").get(id)

    async def find(self, params):
        return await app.service("users").find()

    async def count(self, data, params):
        return {"user": await app.service("users").get("1"), "n": 1}

    get.__annotations__["return"], find.__annotations__["return"] = User, list[User]
    count.__annotations__["return"] = dict[str, User | int]
    app.use("own", type("Own", (), {"get": get, "find": find, "count": count})(), methods=["count"])
    own, public = app.service("own"), {"id": "1", "name": "Ada"}
    assert public_part(await own.get("1")) == public
    assert public_part(await own.find()) == [public]
    assert public_part(await own.count()) == {"user": public, "n": 1}


async def test_a_record_that_clients_do_not_get_at_all_stays_hidden():
    async def get(self, id, params):
        return RedactedRecord(ROW, None)

    get.__annotations__["return"] = Article | None
    assert await serve(get=get).get(1) is None


async def test_a_method_is_not_called_if_a_hook_has_the_result():
    def answer(context: HookContext) -> None:
        context.result = {"cached": True}

    async def get(self, id: int, params: Params) -> Article: ...

    service = serve(get=get, hooks={"before": {"get": [answer]}})
    assert await service.get(1) == {"cached": True}


async def test_plain_methods_may_declare_too():
    def get(self, id: int, params: Params) -> Article:
        return Article(id=id, title="a")

    assert await serve(get=get).get("1") == SHOWN


# -- answers, and schemas beside annotations -------------------------------------------------------


@pytest.mark.parametrize("status", [None, 203])
async def test_a_hook_has_the_last_word_about_the_status(status):
    contexts: list[HookContext] = []

    @answers(202)
    async def create(self, data: dict[str, Any], params: Params):
        return {}

    def choose(context: HookContext) -> None:
        contexts.append(context)
        context.http = {"headers": {"X-A": "b"}, **({} if status is None else {"status": status})}

    await serve(create=create, hooks={"before": {"create": [choose]}}).create({})
    assert contexts[0].http == {"headers": {"X-A": "b"}, "status": status or 202}


async def test_a_schema_checks_what_has_no_annotation():
    async def find(self, params: Params, *, tag: str = ""):
        return [tag]

    async def create(self, data: Draft, params: Params):
        return data.title

    async def update(self, id, data, params):
        return data

    async def get(self, id, params):
        return dict(params.query)

    service = serve(find=find, get=get, create=create, update=update, schema=Article)
    assert await service.find(query={"tag": "x"}) == ["x"]
    assert await service.create({"Title": "a"}) == "a"
    with pytest.raises(BadRequest):
        await service.update(1, {"id": "x"})
    with pytest.raises(BadRequest):
        await service.get(1, query={"tag": "x"})


async def test_a_validator_of_the_application_may_fail():
    class Odd(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def _check(cls, text: str) -> str:
            raise LookupError(text)

    async def create(self, data, params: Params): ...

    create.__annotations__["data"] = Odd
    with pytest.raises(LookupError):
        await serve(create=create).create({"text": "a"})
