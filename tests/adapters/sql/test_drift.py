"""A table that differs from the schema of its records, or from what the database has."""

from typing import TypedDict

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from alula import App
from alula.adapters.sql import SQLService
from alula.errors import GeneralError
from alula.schema import resolve, virtual, with_schema


def table(*columns):
    return sa.Table(
        "people",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        *columns,
    )


class Person(BaseModel):
    id: int | None = None
    name: str


class Named(Person):
    nickname: str = "none"


class Typed(TypedDict):
    name: str
    nickname: str


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OPEN = {**SCHEMA, "additionalProperties": True}
WITH_NICKNAME = {**SCHEMA, "properties": {**SCHEMA["properties"], "nickname": {"default": "x"}}}


@pytest.mark.parametrize("model", [Named, Typed, WITH_NICKNAME])
async def test_a_property_without_a_column_is_refused_at_setup(database, model):
    await database.create(SQLService(table(), database))
    for given in (table(), "people"):
        app = App().use("people", with_schema(SQLService(given, database), model))
        with pytest.raises(ValueError, match="'people' has no column for 'nickname'"):
            await app.setup()


@pytest.mark.parametrize("model", [Person, SCHEMA])
async def test_a_column_that_needs_a_value_is_refused_at_setup(database, model):
    secret = table(sa.Column("secret", sa.Text, nullable=False))
    app = App().use("people", with_schema(SQLService(secret, database), model))
    with pytest.raises(ValueError, match="'people' needs a value for 'secret', which the schema"):
        await app.setup()


async def secret(value, record):
    return "made"


@pytest.mark.parametrize(
    ("columns", "model", "options"),
    [
        ([lambda: sa.Column("n", sa.Text)], Person, {}),
        ([lambda: sa.Column("n", sa.Text, nullable=False, server_default="1")], Person, {}),
        ([lambda: sa.Column("n", sa.Integer, sa.Computed("id + 1"), nullable=False)], Person, {}),
        ([lambda: sa.Column("n", sa.Text, nullable=False)], OPEN, {}),
        ([lambda: sa.Column("n", sa.Text, nullable=False)], Person,
         {"data": resolve({"n": virtual(lambda record, context: "made")})}),
        ([], Person, {"result": resolve({"n": virtual(lambda record, context: "made")})}),
        ([], Named, {"data": resolve({"nickname": secret})}),
        ([], Typed, {"result": resolve({"nickname": virtual(lambda record, context: "made")})}),
    ],
)  # fmt: skip
async def test_what_is_complete(database, columns, model, options):
    people = table(*(make() for make in columns))
    app = App().use("people", with_schema(SQLService(people, database), model, **options))
    await app.setup()
    await app.teardown()


async def test_a_property_that_a_resolver_makes_needs_a_column(database):
    made = resolve({"n": virtual(lambda record, context: "made")})
    app = App().use("people", with_schema(SQLService(table(), database), Person, data=made))
    with pytest.raises(ValueError, match="has no column for 'n'"):
        await app.setup()


async def test_services_that_create_nothing_need_no_values(database):
    secret = table(sa.Column("secret", sa.Text, nullable=False))
    app = App()
    bundle = with_schema(SQLService(secret, database), Person)
    app.use("people", bundle, methods=["find", "get", "patch"])
    await app.setup()
    await app.teardown()


async def test_a_column_for_all_other_properties(database):
    more = table(sa.Column("more", sa.JSON))
    app = App().use("people", with_schema(SQLService(more, database, extra="more"), Named))
    await database.create()
    await app.setup()
    assert (await app.service("people").create({"name": "Ada"}))["nickname"] == "none"
    await app.teardown()


async def test_a_database_without_a_column_of_the_model(database):
    await database.create(SQLService(table(), database))
    for model in ((Named, "people"), table(sa.Column("nickname", sa.Text))):
        app = App().use("people", SQLService(model, database))
        with pytest.raises(ValueError, match="of the database has no column 'nickname'"):
            await app.setup()


async def test_a_table_that_is_made_after_the_setup(database):
    app = App().use("people", SQLService((Named, "people"), database))
    await app.setup()
    await database.create()
    assert (await app.service("people").create({"name": "Ada"}))["nickname"] == "none"
    await app.teardown()


async def test_a_database_with_a_column_that_the_model_lacks(database, caplog):
    await database.create(SQLService(table(sa.Column("secret", sa.Text, nullable=False)), database))
    service = SQLService((Person, "people"), database)
    await service.setup(None, "people")
    assert "'people' cannot create records: the table 'people' needs a value for 'secret'" in (
        caplog.text
    )
    caplog.clear()
    # A client cannot send what the model does not have.
    with pytest.raises(GeneralError):
        await service.create({"name": "Ada"})
    assert "the table 'people' needs a value for 'secret', which the model" in caplog.text
    await service.teardown(None, "people")


async def test_a_database_that_cannot_be_read_passes(database, monkeypatch, caplog):
    async def away():
        raise OSError("away")

    service = SQLService(table(), database)
    monkeypatch.setattr(database, "open", away)
    await service.setup(None, "people")
    assert "could not be read" in caplog.text
