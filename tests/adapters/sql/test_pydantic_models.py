from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from tests.adapters.sql.statements import created, insert

from alula.adapters.sql import Database
from alula.adapters.sql._tables._tables import TableSource


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Numbered(BaseModel):
    id: int = 0


class Made(BaseModel):
    id: UUID = Field(default_factory=lambda: UUID(int=1))


class Level(IntEnum):
    LOW = 1


class Address(BaseModel):
    town: str


class Person(BaseModel):
    id: int | None = None
    name: str
    code: Annotated[str, Field(max_length=5)]
    age: int | None = None
    score: float = 0.5
    price: Decimal = Field(max_digits=10, decimal_places=2)
    weight: Decimal
    active: bool = True
    born: date
    seen: datetime
    at: time
    lasts: timedelta
    key: UUID
    mood: Mood
    level: Level
    size: Literal["s", "m"]
    rank: Literal[1, 2]
    mixed: Literal["a", 1]
    either: int | str
    tags: list[str] = Field(default_factory=list)
    numbers: list[int] | None = None
    gaps: list[int | None]
    addresses: list[Address]
    nested: list[list[int]]
    address: Address
    data: dict[str, Any]
    picture: bytes
    hidden: int = Field(default=1, exclude=True)
    given_name: str = Field(alias="givenName")
    surname: str = Field(alias="sn", serialization_alias="surName")
    wrapped: list[Annotated[str, Field(max_length=3)]]
    nothing: None = None


TYPES = {
    "id": "integer", "name": "text", "code": "text", "age": "integer", "score": "number",
    "price": "decimal", "weight": "decimal", "active": "boolean", "born": "date",
    "seen": "timestamp", "at": "time", "lasts": "interval", "key": "uuid", "mood": "enum",
    "level": "integer", "size": "enum", "rank": "integer", "mixed": "json", "either": "json",
    "tags": "array", "numbers": "array", "gaps": "json", "addresses": "json", "nested": "json",
    "address": "json", "data": "json", "picture": "bytes", "givenName": "text", "surName": "text",
    "wrapped": "array", "nothing": "json",
}  # fmt: skip


def table_of(model, **options):
    return TableSource((model, "people"), "postgresql", **options).table


def test_each_field_has_a_column_of_its_type():
    table = table_of(Person)
    assert {name: column.type.name for name, column in table.columns.items()} == TYPES
    assert table.name == "people"
    assert (table.id.name, table.new_ids) == ("id", "database")


def test_fields_that_may_be_none_may_be_null():
    columns = table_of(Person).columns
    nullable = {name for name, column in columns.items() if column.nullable}
    assert nullable == {"age", "numbers", "nothing"}


def test_defaults_are_made_in_python():
    columns = table_of(Person).columns
    made = {name: column.default() for name, column in columns.items() if column.default}
    assert made == {"score": 0.5, "active": True, "tags": []}


class Named(BaseModel):
    name: str


class WithText(BaseModel):
    id: str


class WithUuid(BaseModel):
    key: UUID


@pytest.mark.parametrize(
    ("model", "options", "made", "type_"),
    [
        (Named, {}, "database", "integer"),
        (Named, {"id": "key"}, "database", "integer"),
        (Named, {"id": "name"}, "brought", "text"),
        (WithText, {}, "brought", "text"),
        (WithUuid, {"id": "key"}, "uuid7", "uuid"),
    ],
)
def test_ids(model, options, made, type_):
    table = table_of(model, **options)
    assert (table.new_ids, table.id.type.name) == (made, type_)
    assert table.id.name == options.get("id", "id")
    assert not table.id.nullable


async def test_the_table_holds_what_the_model_validates(sql_url):
    database = Database(sql_url)
    await database.open()
    (table,) = await created(database, table_of(Person).source)
    person = Person(
        name="Ada", code="abcde", price="1.5", weight="2", born="1815-12-10",
        seen="2024-03-01T12:00:00Z", at="12:00", lasts="PT1H", key=UUID(int=1), mood="bad",
        level=1, size="m", rank=2, mixed=1, either="x", gaps=[1, None], addresses=[], nested=[[1]],
        address={"town": "London"}, data={"a": 1}, picture=b"\1", givenName="A", sn="L",
        wrapped=["abc"],
    )  # fmt: skip
    for data in (person.model_dump(by_alias=True), person.model_dump(by_alias=True, mode="json")):
        data.update(id=None, picture=b"\1")
        record = await insert(database, table, {k: v for k, v in data.items() if v is not None})
        assert record["id"] in (1, 2)
        assert record["mood"] == "bad"
        assert record["price"] == Decimal("1.50")
        assert record["address"] == {"town": "London"}
        assert record["wrapped"] == ["abc"]
    await database.close()


def test_ids_with_defaults():
    with pytest.raises(ValueError, match="the default 0, so every new record would have this id"):
        TableSource((Numbered, "t"), "sqlite")
    assert TableSource((Made, "t"), "sqlite").table.new_ids == "uuid7"
