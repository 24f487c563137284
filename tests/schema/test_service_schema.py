"""A service from a model in one line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Annotated, ClassVar, NotRequired
from uuid import UUID

import pytest
from bson import ObjectId
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    RootModel,
    SecretStr,
    computed_field,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)
from pymongo import AsyncMongoClient
from typing_extensions import TypedDict

from alula import App, Params
from alula._json_encoding import dumps
from alula._service_object import ServiceBundle
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService, ObjectIdSchema
from alula.common_hooks import set_owner
from alula.errors import BadRequest
from alula.hooks import hook_metadata
from alula.outgoing import HiddenValue, public_part
from alula.outgoing._redaction import shown_value
from alula.query import ValidatedQuery
from alula.schema import SchemaError, hidden, resolve, virtual, with_schema
from alula.schema._json_schema.formats import DATE_SCHEMA, keyword_date
from alula.types import UNSET

Params.declare("own")


class Unknown:
    """A type of which nobody says what it is in JSON."""


class Message(BaseModel):
    text: str = Field(min_length=1)
    likes: int = 0
    at: datetime | None = None
    owner: Annotated[ObjectId, ObjectIdSchema] | None = None


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "likes": {"type": "integer", "default": 0},
        "at": DATE_SCHEMA,
        "owner": ObjectIdSchema,
    },
    "required": ["text"],
}
PLAIN = {**SCHEMA, "properties": {**SCHEMA["properties"], "owner": {"type": "string"}}}

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
both = pytest.mark.parametrize("model", [Message, PLAIN], ids=["model", "schema"])


def messages(model, service=None, **options):
    app = App()
    app.use("messages", with_schema(service or MemoryService(start_id=1), model, **options))
    return app.service("messages")


def places(error):
    return {(each["instancePath"], each["keyword"]) for each in error.value.data}


@both
class TestWithEither:
    async def test_checks_and_completes_new_records(self, model):
        service = messages(model)
        created = await service.create({"text": "a", "at": "2026-01-01T12:00:00Z"})
        assert {name: created[name] for name in ("id", "text", "likes", "at")} == {
            "id": 1,
            "text": "a",
            "likes": 0,
            "at": NOON,
        }
        with pytest.raises(BadRequest) as caught:
            await service.create({"likes": "many"})
        assert places(caught) == {("", "required"), ("/likes", "type")}

    async def test_a_patch_needs_and_adds_nothing(self, model):
        service = messages(model)
        await service.create({"text": "a", "likes": 3})
        assert (await service.patch(1, {"at": "2026-01-01T12:00:00Z"}))["likes"] == 3
        assert (await service.get(1))["at"] == NOON
        with pytest.raises(BadRequest) as caught:
            await service.patch(1, {"text": ""})
        assert places(caught) == {("/text", "minLength")}

    async def test_an_update_is_a_whole_record(self, model):
        service = messages(model)
        await service.create({"text": "a", "likes": 3})
        assert (await service.update(1, {"text": "b"}))["likes"] == 0
        with pytest.raises(BadRequest) as caught:
            await service.update(1, {"likes": 4})
        assert places(caught) == {("", "required")}

    async def test_queries_have_typed_values(self, model):
        service = messages(model)
        await service.create({"text": "a", "likes": 3, "at": "2026-01-01T12:00:00Z"})
        for query in (
            {"likes": "3"},
            {"likes": {"$in": ["3", "4"]}},
            {"$or": [{"likes": {"$gt": "2"}}]},
            {"id": "1"},
            {"at": {"$gte": "2026-01-01T12:00:00Z"}},
        ):
            assert len(await service.find(query=query)) == 1
            assert (await service.get(1, query=query))["id"] == 1
        assert await service.find(query={"likes": {"$gt": "3"}}) == []
        assert await service.find(query={"$select": ["text"]}) == [{"id": 1, "text": "a"}]

    @pytest.mark.parametrize("method", ["find", "get", "create", "update", "patch", "remove"])
    async def test_every_query_is_checked(self, model, method):
        service = messages(model)
        arguments = {
            "find": [],
            "get": [1],
            "create": [{"text": "a"}],
            "update": [1, {"text": "a"}],
            "patch": [1, {}],
            "remove": [1],
        }[method]
        with pytest.raises(BadRequest) as caught:
            await getattr(service, method)(*arguments, query={"nope": 1})
        assert places(caught) == {("", "additionalProperties")}

    async def test_extensions_open_operators(self, model):
        kind = str if model is Message else {"type": "string"}
        service = messages(
            model,
            MemoryService(start_id=1, operators=["$exists"]),
            extensions={"text": {"$exists": kind}},
        )
        assert await service.find(query={"text": {"$exists": "true"}}) == []

    async def test_resolvers_stand_in_their_places(self, model):
        service = messages(
            model,
            query=resolve({"likes": lambda likes: likes if likes is UNSET else likes + 1}),
            data=resolve({"text": lambda _text, _, context: context.params["own"]}),
            result=resolve({"size": virtual(lambda record: len(record["text"]))}),
            external=resolve({"at": lambda: UNSET}),
        )
        seen = []

        async def note(context, next):
            await next()
            seen.append(context.dispatch)

        service.app.hooks(around=[note])
        # What is made without a value need not be sent.
        created = await service.create({"likes": 4}, own="hello")
        assert (created["text"], created["size"]) == ("hello", 5)
        assert await service.find(query={"likes": "4"}) == []
        assert len(await service.find(query={"likes": "3"})) == 1
        assert "at" not in seen[2][0]
        assert await service.get(1, query={"$select": ["size"]}) == {"id": 1, "size": 5}

    async def test_hooks_that_are_registered_later_follow(self, model):
        service = messages(model)
        service.hooks(before={"create": [lambda context: context.data.update(likes=9)]})
        assert (await service.create({"text": "a", "likes": 3}))["likes"] == 9

    async def test_custom_methods_have_queries_and_data_of_their_own(self, model):
        class Store(MemoryService):
            async def announce(self, data, params):
                return {"data": data, "query": params.query, "text": "secret"}

        app = App()
        hide = resolve({"text": lambda: UNSET})
        app.use("messages", with_schema(Store(), model, external=hide), methods=["announce"])
        answer = await app.service("messages").announce({"x": 1}, query={"y": 2})
        assert (answer["data"], answer["query"]) == ({"x": 1}, {"y": 2})
        assert "secret" not in repr(answer)

    async def test_a_service_may_lack_methods(self, model):
        class Few:
            async def find(self, params):
                return [params.query]

            async def create(self, data, params):
                return data

        service = messages(model, Few())
        assert await service.find(query={"likes": "2"}) == [{"likes": 2}]
        assert (await service.create({"text": "a"}))["likes"] == 0

    def test_is_a_bundle_that_describes_its_records(self, model):
        store = MemoryService()
        bundle = with_schema(store, model)
        assert isinstance(bundle, ServiceBundle)
        assert bundle.service is store
        assert set(bundle.schema["properties"]) == {"id", "text", "likes", "at", "owner"}

    def test_a_resolver_for_an_unknown_property_is_refused(self, model):
        for place in ("query", "data", "result", "external"):
            with pytest.raises(ValueError, match=r"'txet'.*did you mean 'text'\?"):
                with_schema(MemoryService(), model, **{place: resolve({"txet": lambda: 1})})


@both
class TestDataThatResolversMake:
    async def test_what_a_resolver_looks_at_has_to_be_there(self, model):
        async def loud(text):
            return text if text is UNSET else text.upper()

        service = messages(model, data=resolve({"text": loud}))
        for method, ids in (("create", []), ("update", [1])):
            with pytest.raises(BadRequest) as caught:
                await getattr(service, method)(*ids, {"likes": 4})
            assert places(caught) == {("", "required")}
        assert (await service.create({"text": "a"}))["text"] == "A"
        assert (await service.patch(1, {"likes": 4}))["text"] == "A"

    async def test_what_it_makes_by_itself_need_not(self, model):
        for make in (lambda: "own", virtual(lambda _, context: context.params["own"])):
            service = messages(model, data=resolve({"text": make}))
            assert (await service.create({}, own="own"))["text"] == "own"

    @pytest.mark.parametrize("form", ["plain", "async", "decorated", "partial", "method", "object"])
    async def test_a_function_of_any_form_may_make_it(self, model, form):
        ran = []

        def make(value, record, context):
            ran.append((value, "text" in record))
            return "made"

        async def wait(value, record, context):
            return make(value, record, context)

        class Maker:
            def __call__(self, value, record, context):
                return make(value, record, context)

        @functools.wraps(make)
        def decorated(*given):
            return make(*given)

        function = {
            "plain": make,
            "async": wait,
            "decorated": decorated,
            "partial": functools.partial(make),
            "method": Maker().__call__,
            "object": Maker(),
        }[form]
        service = messages(model, data={"create": resolve({"text": function})})
        assert (await service.create({"likes": 4}))["text"] == "made"
        assert ran == [(UNSET, False)]

    async def test_what_it_removes_has_not_been_sent(self, model):
        service = messages(model, data=resolve({"text": lambda text: UNSET}))
        with pytest.raises(BadRequest) as caught:
            await service.create({"text": "a"})
        assert places(caught) == {("", "required")}

    async def test_a_function_that_falls_over_what_is_missing_is_a_400(self, model):
        service = messages(
            model, MemoryService(multi=True), data=resolve({"text": lambda text: text.strip()})
        )
        for data in ({"likes": 4}, [{"text": " a "}, {"likes": 4}]):
            with pytest.raises(BadRequest) as caught:
                await service.create(data)
            assert places(caught) == {("", "required")}
        assert await service.find() == []

    async def test_a_description_names_what_has_to_be_sent(self, model):
        service = messages(model, data=resolve({"text": lambda text: text, "likes": lambda: 1}))
        (noted,) = [
            hook_metadata(hook)["data"]("create")
            for hook in service.hook_table.of("before", "create")
            if "data" in hook_metadata(hook)
        ]
        schema = noted.json_schema() if model is Message else noted.schema
        assert schema["required"] == ["text"]


class Account(BaseModel):
    email: str
    password: str = "x"
    pin: SecretStr | None = None


ACCOUNT = {
    "type": "object",
    "properties": {
        "email": {"type": "string"},
        "password": {"type": "string"},
        "pin": {"type": "string", "writeOnly": True},
    },
    "required": ["email", "password"],
}
HIDING = {
    "a resolver": {"external": resolve({"password": hidden})},
    "a resolver of a method": {"external": {"find": resolve({"password": hidden})}},
    "names": {"hidden": ["password"]},
    "both": {
        "external": resolve({"email": lambda email: email, "password": lambda: UNSET}),
        "hidden": {"password"},
        "queryable": ["email"],
    },
}
ASKED = [
    {"password": "x"},
    {"password": {"$gt": "a"}},
    {"$or": [{"email": "a"}, {"password": {"$ne": "a"}}]},
    {"$sort": {"password": 1}},
    {"$select": ["password"]},
    {"password": {"$exists": True}},
    {"pin": {"$lt": "5"}},
]


@pytest.mark.parametrize("model", [Account, ACCOUNT], ids=["model", "schema"])
class TestHidden:
    ADA: ClassVar = {"email": "a@b.c", "password": "x", "pin": "1234"}

    def accounts(self, model, options):
        exists = {"password": {"$exists": bool if model is Account else {"type": "boolean"}}}
        store = MemoryService(start_id=1, operators=["$exists"])
        return messages(model, store, extensions=exists, **options)

    @pytest.mark.parametrize("how", HIDING)
    async def test_cannot_be_asked_for_from_outside(self, model, how):
        service = self.accounts(model, HIDING[how])
        await service.create(self.ADA)
        for query in ASKED:
            assert isinstance(await service.find(query=query), list)
            for method, ids in (("find", []), ("get", [1]), ("remove", [1])):
                with pytest.raises(BadRequest, match="validation failed"):
                    await getattr(service, method)(*ids, query=query, provider="rest")
        assert len(await service.find(query={"email": {"$gt": "a"}}, provider="rest")) == 1

    @pytest.mark.parametrize("how", sorted(HIDING.keys() - {"a resolver of a method"}))
    async def test_stays_inside(self, model, how):
        service = self.accounts(model, HIDING[how])
        created = await service.create(self.ADA)
        assert created == {"id": 1, **self.ADA}
        assert public_part(created) == {"id": 1, "email": "a@b.c"}
        assert set(service.record_schema["properties"]) == {"id", "email"}
        assert "password" not in service.record_schema.get("required", ())

    async def test_what_a_model_excludes_is_always_hidden(self, model):
        service = messages(model)
        assert public_part(await service.create(self.ADA)) == {
            "id": 1,
            "email": "a@b.c",
            "password": "x",
        }
        with pytest.raises(BadRequest):
            await service.find(query={"pin": "1234"}, provider="rest")

    def test_an_unknown_property_is_refused(self, model):
        with pytest.raises(ValueError, match=r"'pasword'.*did you mean 'password'\?"):
            with_schema(MemoryService(), model, hidden=["pasword"])
        with pytest.raises(TypeError, match=r"hidden takes .*in a list"):
            with_schema(MemoryService(), model, hidden="password")
        for names in (None, lambda record: ["password"]):
            with pytest.raises(TypeError, match=r"hidden takes .*in a list"):
                with_schema(MemoryService(), model, hidden=names)
        with pytest.raises(ValueError, match=r"'pasword'.*did you mean 'password'\?"):
            with_schema(MemoryService(), model, queryable=["pasword"])
        with pytest.raises(TypeError, match=r"queryable takes .*in a list"):
            with_schema(MemoryService(), model, queryable="password")
        for hiding in ({"hidden": ["email"]}, {"external": resolve({"email": hidden})}):
            with pytest.raises(ValueError, match="'email' is both hidden and queryable"):
                with_schema(MemoryService(), model, queryable=["email"], **hiding)


class Kind(Enum):
    A = "a"
    B = "b"


class Range(BaseModel):
    kind: Kind = Kind.A
    start: int = 0
    end: int

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value):
        assert value["end"] is not None
        return value

    @model_validator(mode="after")
    def _in_order(self):
        if self.end < self.start:
            raise ValueError("end before start")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _wrapped(cls, value, handler):
        assert "end" in value
        return handler(value)

    def model_post_init(self, _):
        assert self.end > -100

    @field_validator("start")
    @classmethod
    def _near(cls, start, info):
        if start == 50 and info.data["kind"].value == "b":
            raise ValueError("not so far")
        return start

    @computed_field
    @property
    def length(self) -> int:
        return self.end - self.start


class TestModelsOfPydantic:
    async def test_rules_over_several_fields_do_not_run_for_patches(self):
        service = messages(Range)
        await service.create({"end": 5})
        assert await service.patch(1, {"start": 2}) == {
            "id": 1,
            "kind": "a",
            "start": 2,
            "end": 5,
        }
        assert (await service.patch(1, {"end": 7}))["end"] == 7
        assert await service.patch(1, {}) == await service.get(1)
        for method, ids in (("create", []), ("update", [1])):
            with pytest.raises(BadRequest) as caught:
                await getattr(service, method)(*ids, {"start": 6, "end": 5})
            assert caught.value.data[0]["message"] == "end before start"
        with pytest.raises(BadRequest, match="validation failed"):
            await service.patch(1, {"end": "far"})

    async def test_a_validator_that_falls_over_what_a_patch_lacks_is_a_400(self):
        class Span(BaseModel):
            start: int
            end: int

            @field_validator("end")
            @classmethod
            def _in_order(cls, end, info):
                if end < info.data["start"]:
                    raise ValueError("end before start")
                return end

        service = messages(Span)
        await service.create({"start": 1, "end": 2})
        with pytest.raises(BadRequest, match="cannot be checked without the others") as caught:
            await service.patch(1, {"end": 5})
        assert isinstance(caught.value.__cause__, TypeError)
        assert (await service.patch(1, {"start": 3, "end": 5}))["end"] == 5
        with pytest.raises(KeyError):  # in a whole record that is an error of the program
            await service.create({"start": "x", "end": 5})

    async def test_computed_fields_are_not_stored(self):
        store = MemoryService(start_id=1)
        service = messages(Range, store)
        assert "length" not in await service.create({"end": 5})
        assert "length" not in await store.get(1)
        assert set(service.record_schema["properties"]) == {"id", "kind", "start", "end"}
        with pytest.raises(BadRequest):
            await service.find(query={"length": 5})

    @pytest.mark.parametrize("kind", [Unknown, Callable[[int], int], list[Unknown]])
    def test_a_type_that_cannot_be_stored_is_an_error(self, kind):
        class Strange(BaseModel):
            model_config = ConfigDict(arbitrary_types_allowed=True)
            text: str = "a"
            odd: kind

        with pytest.raises(SchemaError, match=r"^Strange\.odd .*no JSON Schema"):
            with_schema(MemoryService(), Strange)

    def test_the_error_of_a_bare_object_id_names_the_annotation_it_needs(self):
        class Owned(BaseModel):
            model_config = ConfigDict(arbitrary_types_allowed=True)
            owner: ObjectId

        with pytest.raises(SchemaError, match=r"^Owned\.owner .* ObjectId, ") as caught:
            with_schema(MemoryService(), Owned)
        assert "Annotated[ObjectId, ObjectIdSchema]" in str(caught.value)
        assert "alula.adapters.mongodb" in str(caught.value)

    def test_that_is_not_of_a_field_is_an_error(self):
        class Strange(BaseModel):
            model_config = ConfigDict(arbitrary_types_allowed=True)
            text: str

            @model_serializer
            def odd(self) -> Unknown:
                return Unknown()

        with pytest.raises(SchemaError, match=r"^Strange has no JSON Schema: "):
            with_schema(MemoryService(), Strange)

    def test_records_have_all_fields_but_computed_and_excluded_ones(self):
        class Inner(BaseModel):
            tags: list[str] = Field(default_factory=list)

            @computed_field
            @property
            def count(self) -> int:
                return len(self.tags)

        @dataclass
        class Place:
            city: str = ""

            @computed_field
            @property
            def shown(self) -> str:
                return self.city

        class Rest(TypedDict):
            given: int
            absent: NotRequired[int]

        class Outer(BaseModel):
            inner: Inner = Inner()
            place: Place = Place()
            rest: Rest = {"given": 1}
            code: str = Field("", exclude=True)
            note: str = Field("", exclude_if=lambda note: not note)

            @computed_field
            @property
            def length(self) -> int:
                return len(self.code)

        schema = messages(Outer).record_schema
        assert schema["required"] == ["inner", "place", "rest", "id"]
        assert list(schema["properties"]) == ["inner", "place", "rest", "note", "id"]
        inner = {
            name: (list(of["properties"]), of["required"]) for name, of in schema["$defs"].items()
        }
        assert inner == {
            "Inner": (["tags"], ["tags"]),
            "Place": (["city"], ["city"]),
            "Rest": (["given", "absent"], ["given"]),
        }

    async def test_a_whole_model_without_rules_is_used_as_it_is(self):
        service = messages(Account)
        await service.create({"email": "a"})
        assert (await service.patch(1, {"password": "y"}))["password"] == "y"


NUMBER = "c351e8b9-71b3-42e4-b115-4923418642a2"
TYPES = {
    "enum": (Kind, "a", "a"),
    "uuid": (UUID, NUMBER, NUMBER),
    "decimal": (Decimal, "1.50", Decimal("1.50")),
    "date": (date, "2026-01-31", "2026-01-31"),
    "time": (time, "10:30", "10:30:00"),
    "duration": (timedelta, "PT5S", "PT5S"),
    "set": (set[Kind], ["a"], ["a"]),
    "url": (HttpUrl, "http://a.example", "http://a.example/"),
    "secret": (SecretStr, "hush", "hush"),
    "ip": (IPv4Address, "10.0.0.1", "10.0.0.1"),
}


@pytest.mark.parametrize("name", TYPES)
async def test_everyday_types_are_stored_and_queried(name):
    await check_type(MemoryService(id="_id", start_id=1), name)


@pytest.mark.parametrize("name", TYPES)
async def test_everyday_types_are_stored_and_queried_in_a_database(collection, name):
    await check_type(MongoDBService(collection), name)


async def check_type(store, name):
    kind, sent, stored = TYPES[name]
    service = messages(create_model("Any", v=(kind, ...), inner=(dict[str, kind], {})), store)
    created = await service.create({"v": sent, "inner": {"a": sent}})
    assert created == {"_id": created["_id"], "v": stored, "inner": {"a": stored}}
    # Secrets are hidden values, which are equal to their text and sent nowhere.
    assert isinstance(created["v"], HiddenValue) is (kind is SecretStr)
    assert type(shown_value(created["v"])) is type(stored)
    one = sent[0] if name == "set" else sent
    for query in ({"v": one}, {"v": {"$in": [one]}}, {"$or": [{"v": one}]}):
        assert await service.find(query=query) == [created]
    assert await service.find(query={"v": {"$ne": one}}) == []
    assert (await service.patch(created["_id"], {"v": sent}))["v"] == stored
    dumps(created)


class Thread(BaseModel):
    id: int | None = None
    text: str
    below: list[Thread] = []

    @computed_field
    @property
    def count(self) -> int:
        return len(self.below)


async def test_a_model_may_be_made_of_itself():
    service = messages(Thread)
    created = await service.create({"text": "a", "below": [{"text": "b"}]})
    assert await service.find(query={"below.text": "b"}) == [created]
    schema = service.record_schema
    assert list(schema["properties"]) == ["id", "text", "below"]
    assert schema["properties"]["below"]["items"] == {"$ref": "#/$defs/Thread"}
    assert "Thread" in schema["$defs"]


class Renamed(BaseModel):
    read_as: int = Field(0, validation_alias="in")
    written_as: int = Field(0, serialization_alias="out")
    either: int = Field(0, validation_alias=AliasChoices("a", "b"), serialization_alias="c")


async def test_queries_know_the_names_that_are_stored():
    service = messages(Renamed)
    stored = {"read_as": 1, "out": 2, "c": 3}
    created = await service.create({"in": 1, "written_as": 2, "b": 3})
    assert created == {"id": 1, **stored}
    for name, value in stored.items():
        assert await service.find(query={name: str(value)}) == [created]
    for name in ("in", "written_as", "either", "a", "b"):
        with pytest.raises(BadRequest):
            await service.find(query={name: "1"})


class Named(BaseModel):
    model_config = ConfigDict(validate_by_name=True)
    plain: int = 0
    owner_id: int = Field(0, alias="ownerId")
    size: int = Field(0, validation_alias=AliasChoices("length", AliasPath("m", "x"), "size"))
    # Names of other fields: which field they mean is for Pydantic to say.
    one: int = Field(0, alias="two")
    two: int = Field(0, alias="one")
    third: int = Field(0, validation_alias=AliasChoices("third", "shared"))
    fourth: int = Field(0, validation_alias=AliasChoices("fourth", "shared"))


class NamedAlone(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    owner_id: int = Field(0, alias="ownerId")


class TestFieldsOfSeveralNames:
    async def seen(self, data, model=Named, **params):
        """Return what the first around hook gets, and the record."""
        seen = []

        async def see(context, next):
            seen.append(context.data)
            await next()

        service = messages(model, MemoryService(multi=True)).hooks(around=[see])
        return seen, await service.create(data, **params)

    @pytest.mark.parametrize(
        ("data", "named"),
        [
            ({"owner_id": 1}, {"ownerId": 1}),
            ({"owner_id": 1, "ownerId": 2}, {"ownerId": 2}),
            ({"size": 1, "length": 2, "plain": 3}, {"size": 2, "plain": 3}),
            ({"two": 1, "one": 2, "shared": 3}, {"two": 1, "one": 2, "shared": 3}),
            ({"m": {"x": 1}}, {"m": {}, "size": 1}),
            ({"m": {"x": 1}, "size": 2}, {"m": {}, "size": 1}),
            ({"m": 5}, {"m": 5}),
        ],
    )
    async def test_hooks_see_the_stored_name_of_what_clients_send(self, data, named):
        seen, record = await self.seen(data, provider="rest")
        assert seen == [named]
        assert record == await messages(Named, MemoryService()).create(data)

    async def test_a_list_of_them(self):
        seen, records = await self.seen([{"owner_id": 1}, {"plain": 2}], provider="rest")
        assert seen == [[{"ownerId": 1}, {"plain": 2}]]
        assert [record["ownerId"] for record in records] == [1, 0]

    @pytest.mark.parametrize("data", ["text", None, ["text"]])
    async def test_what_is_no_record_is_left_to_the_check(self, data):
        with pytest.raises(BadRequest):
            await self.seen(data, provider="rest")

    async def test_calls_of_the_application_keep_their_names(self):
        seen, record = await self.seen({"owner_id": 1})
        assert seen == [{"owner_id": 1}]
        assert record["ownerId"] == 1

    async def test_a_stored_name_that_the_model_does_not_read_is_one_of_them(self):
        seen, record = await self.seen({"owner_id": 1}, NamedAlone, provider="rest")
        assert seen == [{"ownerId": 1}]
        assert record["ownerId"] == 1

    @pytest.mark.parametrize(
        "data",
        [{"by": 1}, {"meta": {"owner": 1, "x": 2}}, {"meta": {"owner": 1}, "by": 2}, {"owner": 1}],
    )
    @pytest.mark.parametrize(
        "alias",
        [
            AliasChoices(AliasPath("meta", "owner"), "by"),
            AliasChoices("by", AliasPath("meta", "owner")),
            AliasChoices(AliasPath("meta", "owner"), "by", "owner"),
            AliasPath("meta", "owner"),
            AliasPath("meta", 0, "owner"),
        ],
    )
    @pytest.mark.parametrize("placed", ["before", "around"])
    async def test_no_name_of_the_owner_passes_set_owner(self, data, alias, placed):
        class Note(BaseModel):
            owner: int = Field(0, validation_alias=alias)

        app = App()
        app.use("notes", with_schema(MemoryService([{"owner": 7, "id": 0}]), Note))
        notes = app.service("notes").hooks(**{placed: [set_owner("owner")]})
        client = {"provider": "rest", "user": {"id": 7}}
        if alias == AliasPath("meta", 0, "owner") and "meta" in data:
            data = {"meta": [data["meta"]]}
        assert (await notes.create(data, **client))["owner"] == 7
        assert (await notes.patch(0, data, **client))["owner"] == 7
        assert (await notes.update(0, data, **client))["owner"] == 7

    async def test_nor_does_one_in_an_update_operator(self):
        class Note(BaseModel):
            owner: int = Field(0, validation_alias=AliasChoices("by", "owner"))
            other: int = 0

        seen = []

        async def see(context, next):
            seen.append(context.data)
            await next()

        data = {"$set": {"by": 1, "other": 2}, "$rename": {"other": "by"}, "by.x": 5, "$inc": 5}
        with pytest.raises(BadRequest):
            await messages(Note).hooks(around=[see]).patch(0, data, provider="rest")
        renamed = {"$set": {"owner": 1, "other": 2}, "$rename": {"other": "owner"}}
        assert seen == [{**renamed, "owner.x": 5, "$inc": 5}]

    @pytest.mark.parametrize("other", ["by", "owner"])
    def test_a_name_beside_an_item_of_a_list_is_an_error(self, other):
        class Note(BaseModel):
            owner: int = Field(0, validation_alias=AliasChoices(AliasPath("owners", 0), other, "x"))

        with pytest.raises(SchemaError, match="'owner' is also read from an item of a list"):
            with_schema(MemoryService(), Note)

    async def test_an_item_of_a_list_alone_is_left_to_the_model(self):
        class Note(BaseModel):
            first: str = Field("", validation_alias=AliasPath("names", 0))

        seen, record = await self.seen({"names": ["Ada", "L."]}, Note, provider="rest")
        assert (seen, record["first"]) == ([{"names": ["Ada", "L."]}], "Ada")


class TestIds:
    async def test_one_that_the_model_lacks_takes_the_place_of_no_field(self):
        class Audit(BaseModel):
            record_id: int
            record_id_: int = 0

        service = messages(Audit)
        created = await service.create({"record_id": 5})
        assert created == {"id": 1, "record_id": 5, "record_id_": 0}
        for query in ({"id": "1"}, {"record_id": "5"}, {"record_id_": "0"}):
            assert await service.find(query=query) == [created]
        assert list(service.record_schema["properties"]) == ["record_id", "record_id_", "id"]

    @pytest.mark.parametrize("id", ["id", "key"])
    async def test_one_that_the_model_has_need_not_be_sent(self, id):
        class Noted(BaseModel):
            number: int = Field(alias=id)
            text: str

        properties = {id: {"type": "integer"}, "text": {"type": "string"}}
        schema = {"properties": properties, "required": [id, "text"]}
        for model in (Noted, schema):
            service = messages(model, MemoryService(id=id, start_id=1))
            assert await service.create({"text": "a"}) == {id: 1, "text": "a"}
            assert await service.create({id: 7, "text": "b"}) == {id: 7, "text": "b"}
            assert await service.update(7, {id: 7, "text": "c"}) == {id: 7, "text": "c"}
            assert await service.find(query={id: {"$gt": "5"}}) == [{id: 7, "text": "c"}]
            with pytest.raises(BadRequest):
                await service.find(query={id: "x"})

    @both
    async def test_one_that_it_lacks_is_a_number_or_a_text(self, model):
        service = messages(model, MemoryService())
        a, b = await service.create({"text": "a"}), await service.create({"text": "b"})
        found = await service.find(query={"id": {"$in": [str(a["id"]), b["id"]]}})
        assert [each["text"] for each in found] == ["a", "b"]
        assert await service.find(query={"id": "abc"}) == []
        with pytest.raises(BadRequest):
            await service.find(query={"id": {"a": 1}})

    async def test_data_cannot_have_one_that_a_schema_lacks(self):
        with pytest.raises(BadRequest) as caught:
            await messages(PLAIN).create({"id": 5, "text": "a"})
        assert places(caught) == {("", "additionalProperties")}


@pytest.fixture
async def collection(mongodb_url):
    async with AsyncMongoClient(mongodb_url, tz_aware=True) as client:
        database = client[f"alula_with_schema_{ObjectId()}"]
        yield database["messages"]
        await client.drop_database(database)


@pytest.mark.parametrize("model", [Message, SCHEMA], ids=["model", "schema"])
async def test_ids_and_dates_are_those_of_the_database(collection, model):
    service = messages(model, MongoDBService(collection))
    owner = ObjectId()
    data = {"text": "a", "at": "2026-01-01T12:00:00Z", "owner": str(owner)}
    created = await service.create(data)
    stored = await collection.find_one()
    assert (stored["at"], stored["owner"]) == (NOON, owner)
    assert isinstance(created["_id"], ObjectId)
    for query in (
        {"owner": str(owner)},
        {"owner": {"$in": [str(owner)]}},
        {"$or": [{"_id": str(created["_id"])}, {"text": "b"}]},
        {"_id": {"$in": [created["_id"]]}},
        {"at": {"$lte": "2026-01-01T12:00:00Z"}},
    ):
        assert [each["_id"] for each in await service.find(query=query)] == [created["_id"]]
    assert await service.find(query={"_id": "abc"}) == []
    changed = await service.patch(created["_id"], {"owner": str(created["_id"])})
    assert changed["owner"] == created["_id"]
    for wrong in ({"owner": "abc"}, {"owner": {"$ne": "abc"}}):
        with pytest.raises(BadRequest, match="validation failed"):
            await service.find(query=wrong)
    with pytest.raises(BadRequest, match="validation failed"):
        await service.patch(created["_id"], {"owner": "abc"})


class TestSchemas:
    async def test_one_that_says_so_is_open(self):
        service = messages({**PLAIN, "additionalProperties": True})
        assert (await service.create({"text": "a", "more": 1}))["more"] == 1

    async def test_one_that_continues_elsewhere_is_not_closed(self):
        service = messages({**PLAIN, "allOf": [{"properties": {"more": {"type": "integer"}}}]})
        assert (await service.create({"text": "a", "more": 1}))["more"] == 1

    @pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": {}}])
    def test_one_without_properties_is_an_error(self, schema):
        with pytest.raises(SchemaError, match="with_schema: the schema has no properties"):
            with_schema(MemoryService(), schema)

    @pytest.mark.parametrize(
        "model", [None, str, "Message", Message(text="a"), RootModel[list[int]]]
    )
    def test_what_is_no_model_is_an_error(self, model):
        with pytest.raises(SchemaError, match="with_schema takes a JSON Schema"):
            with_schema(MemoryService(), model)

    @pytest.mark.parametrize("service", [MemoryService, ServiceBundle(MemoryService(), {})])
    def test_what_is_no_service_is_an_error(self, service):
        with pytest.raises(TypeError, match=r"with_schema takes a service.*MemoryService"):
            with_schema(service, Message)


class TestDates:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("2026-01-01T12:00:00Z", NOON),
            ("2026-01-01t12:00:00z", NOON),
            ("2026-01-01T13:00:00+01:00", NOON),
            ("2026-01-01T12:00:00", NOON),
            (NOON, NOON),
            (datetime(2026, 1, 1, 12), NOON),
        ],
    )
    def test_text_becomes_a_date(self, value, expected):
        assert keyword_date.convert(value, True) == expected
        assert keyword_date.convert(value, True).tzinfo is not None

    @pytest.mark.parametrize("value", ["yesterday", 5, None, ["2026-01-01"]])
    def test_everything_else_is_none(self, value):
        with pytest.raises(ValueError, match="must be a date"):
            keyword_date.convert(value, True)
        assert keyword_date.convert(value, False) == value


class TestWhatIsOpenStaysOpen:
    """What a schema opens beside the common operators is open until the adapter has read it."""

    async def found(self, service):
        await service.create({"text": "a"})
        return await service.find(query={"text": {"$exists": True}})

    def opened(self, app, service):
        exists = {"text": {"$exists": {"type": "boolean"}}}
        app.use("messages", with_schema(service, PLAIN, extensions=exists))
        return app.service("messages")

    async def test_where_a_hook_copies_the_params(self):
        seen = []

        def note(context):
            context.params = context.params.copy(tenant="acme")
            seen.append(context.params.tenant)

        service = self.opened(App(), Opening()).hooks(before=[note])
        assert await self.found(service) == [True]
        assert seen == ["acme"] * 2

    async def test_where_the_service_is_that_of_another_application(self):
        inner, outer = App(), App()
        inner.use("store", Opening())
        outer.use("inner", inner)
        app = App()
        service = self.opened(app, outer.service("inner/store"))
        assert await self.found(service) == [True]

    async def test_but_not_for_another_service(self):
        app = App()
        app.use("other", Opening())

        async def ask_other(context, next):
            context.result = await app.service("other").find(context.params)

        service = self.opened(app, Opening())
        service.hooks(around={"find": [ask_other]})
        assert await self.found(service) == [False]


class Opening(MemoryService):
    """Answers whether the query that arrives is marked as checked."""

    async def find(self, params=None):
        return [isinstance(params.query, ValidatedQuery)]


async def test_a_property_may_be_anything():
    service = messages({"properties": {"any": True, "key": {"type": "string"}}}, hidden=["key"])
    created = await service.create({"any": [1], "key": "secret"})
    assert public_part(created) == {"id": 1, "any": [1]}


class Forms(MemoryService):
    """A service that has the record in its method only, and checks it there."""

    check = None

    def with_record_check(self, check):
        checked = Forms()
        checked.check = check
        return checked

    async def create(self, data, params):
        return await self.check({"text": data["form"], "likes": data.get("likes", 0)})


async def test_a_service_may_check_its_records_itself():
    forms = Forms()
    likes = resolve({"likes": lambda value, record, context: value + len(context.data["form"])})
    app = App().use("forms", with_schema(forms, Message, data=likes))
    assert forms.check is None
    record = await app.service("forms").create({"form": "Hello"})
    assert (record["text"], record["likes"]) == ("Hello", 5)
    with pytest.raises(BadRequest):
        await app.service("forms").create({"form": ""})
    # Without a call of the application there is no context, so nothing is resolved.
    record = await app.service("forms").service.create({"form": "Hello"}, None)
    assert (record["text"], record["likes"]) == ("Hello", 0)
    with pytest.raises(BadRequest):  # the other methods are checked as ever
        await app.service("forms").patch(1, {"text": ""})
    described = [
        hook_metadata(hook)["data"]("create").json_schema()["properties"]
        for hook in app.service("forms").hook_table.of("before", "create")
        if "data" in hook_metadata(hook)
    ]
    assert ["text" in properties for properties in described] == [True]


class Renewed(TypedDict):
    text: str


def validators_of(model, service=None, **options):
    """Return the validators of queries, of new records and of patches."""
    first = with_schema(service or MemoryService(), model, **options).first
    found = {name: hook_metadata(first[name][-1]) for name in ("find", "create", "patch")}
    made = [found[name]["data"](name) for name in ("create", "patch")]
    return [found["find"]["query"], *made]


@pytest.mark.parametrize("model", [Message, Renewed])
def test_each_validator_of_a_model_is_made_once(model):
    first = validators_of(model)
    again = validators_of(model)
    assert [one is another for one, another in zip(first, again, strict=True)] == [True] * 3
    # Whatever a service changes has validators of its own.
    for other, shared in (
        (validators_of(model, MemoryService(id="key")), [False, False, False]),
        (validators_of(model, hidden=["text"]), [False, True, True]),
        (validators_of(model, extensions={"text": {"$like": str}}), [False, True, True]),
        (validators_of(model, data=resolve({"text": lambda: "x"})), [True, False, True]),
    ):
        assert [one is another for one, another in zip(first, other, strict=True)] == shared
