"""Several services that declare the same table."""

import subprocess
import sys
from datetime import datetime
from decimal import Decimal

import pytest
import sqlalchemy as sa
from pydantic import BaseModel, Field

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.adapters.sql._tables._ddl import create_statements, with_referenced


class Profile(BaseModel):
    id: int | None = None
    email: str


class Person(BaseModel):
    id: int | None = None
    email: str
    bio: str | None = None


class Dated(BaseModel):
    id: int | None = None
    at: datetime


def users(*columns, email=sa.Text, **options):
    return sa.Table(
        "users",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("email", email, nullable=False, unique=True),
        *columns,
        **options,
    )


def password():
    return sa.Column("password", sa.Text, nullable=False)


@pytest.mark.parametrize("table_first", [True, False])
@pytest.mark.parametrize("only_model", [True, False])
async def test_a_table_wins_over_a_model_with_some_of_its_columns(
    database, table_first, only_model
):
    models = [users(password()), (Profile, "users")]
    services = [SQLService(model, database) for model in (models if table_first else models[::-1])]
    model = services[1 if table_first else 0]
    await database.create(*([model] if only_model else []))
    await services[0 if table_first else 1].create({"email": "a@b.c", "password": "x"})
    assert await model.find() == [{"id": 1, "email": "a@b.c"}]


@pytest.mark.parametrize("larger_first", [True, False])
async def test_a_larger_model_wins_over_a_smaller_one(database, larger_first):
    pair = [(Person, "users"), (Profile, "users")]
    services = [SQLService(model, database) for model in (pair if larger_first else pair[::-1])]
    await database.create()
    await services[0].create({"email": "a@b.c"})
    assert "bio" in (await database.fetch("select * from users"))[0]


async def test_a_table_of_the_database_is_not_declared(database):
    declared, reflected = SQLService(users(password()), database), SQLService("users", database)
    await database.create(declared)
    await database.create(reflected, declared)
    app = App().use("users", declared).use("names", reflected)
    await app.setup()
    await app.teardown()


async def test_mapped_classes_and_models_of_several_metadata(database):
    metadata = sa.MetaData()
    other_users = users()
    other_users.to_metadata(metadata)
    orders = sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("user", sa.ForeignKey("users.id")),
    )
    services = [SQLService(orders, database), SQLService(users(), database)]
    await database.create()  # `orders` comes after the declaration that was chosen
    await services[1].create({"email": "a@b.c"})
    assert await services[0].create({"user": 1}) == {"id": 1, "user": 1}


def owned():
    return users(sa.Column("owner", sa.ForeignKey("users.id")))


def indexed():
    table = users(sa.Column("owner", sa.Integer))
    sa.Index("by_owner", table.c.owner)
    return table


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        (users(), (Person, "users"), "only the second has the column 'bio'"),
        (users(sa.Column("at", sa.Date)), (Dated, "users"), "they differ in the column 'at'"),
        (users(email=sa.Enum("a", "b", name="letters")), (Profile, "users"), "the column 'email'"),
        (users(password()), users(), "only the first has the column 'password'"),
        (users(), users(email=sa.String(50)), "they differ in the column 'email'"),
        (users(sa.Column("n", sa.Integer)), users(sa.Column("n", sa.Integer, server_default="1")),
         "they differ in the column 'n'"),
        (users(sa.Column("owner", sa.Integer)), owned(), "they differ in constraints or indexes"),
        (users(sa.Column("owner", sa.Integer)), indexed(), "they differ in constraints or indexes"),
        (users(sa.CheckConstraint("id > 0")), users(), "they differ in constraints or indexes"),
        ((Dated, "users"), (Profile, "users"), "only the second has the column 'email'"),
    ],
)  # fmt: skip
async def test_declarations_that_contradict_each_other(
    postgresql_schema, first, second, difference
):
    database = Database(postgresql_schema)
    app = App()
    app.use("users", SQLService(first, database))
    app.use("profiles", SQLService(second, database))
    with pytest.raises(ValueError, match=difference) as caught:
        await app.setup()
    for name in ("the table 'users'", "the service 'users'", "the service 'profiles'"):
        assert name in str(caught.value)
    with pytest.raises(ValueError, match="contradict each other: a service"):
        await database.create()
    await database.close()


async def test_declarations_that_agree(database):
    app = App()
    for path, model in {
        "users": users(sa.Column("at", sa.DateTime), email=sa.Enum("a", native_enum=False)),
        "same": users(sa.Column("at", sa.DateTime), email=sa.Enum("a", native_enum=False)),
        "profiles": (Profile, "users"),
        "dates": (Dated, "users"),
    }.items():
        app.use(path, SQLService(model, database))
    await app.setup()
    await app.teardown()


def test_models_whose_shared_columns_differ():
    class Other(Profile):
        email: str = Field(max_length=5)
        price: Decimal

    database = Database("sqlite://")
    services = [SQLService((model, "users"), database) for model in (Profile, Other)]
    with pytest.raises(ValueError, match=r"model Other.* model Profile.*they differ in .*'email'"):
        create_statements([service._source.table.source for service in services], "sqlite")


def test_names_of_tables_without_case():
    upper = sa.Table("USERS", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True))
    assert len(create_statements([upper, users()][:1], "sqlite")) == 1
    with pytest.raises(ValueError, match="contradict"):
        create_statements([upper, users()], "sqlite")
    assert len(create_statements([upper, users()], "postgresql")) == 2


ORDER = """
import sqlalchemy as sa
from alula.adapters.sql import Database, SQLService
from alula.adapters.sql._tables._ddl import create_statements
metadata = sa.MetaData()
def table(name, *columns):
    return sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), *columns)
tables = [table(f"t{n}") for n in range(9)]
keys = [sa.Column(f"c{n}", sa.ForeignKey(f"t{n}.id")) for n in range(9)]
last = table("z", *keys)
padding = [object() for _ in range(PADDING)]
database = Database("sqlite://")
services = [SQLService(table, database) for table in tables]
print([str(each.table) for each in database.declarations()])
texts = create_statements([last], "postgresql")
# SQLAlchemy itself writes foreign keys in the order of a set.
print([*texts[:-1], *sorted(line.rstrip(", ") for line in texts[-1].splitlines())])
"""


def test_statements_do_not_depend_on_addresses_or_hashes():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", ORDER.replace("PADDING", str(padding))],
            env={"PYTHONHASHSEED": str(padding)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for padding in (1, 100, 1_000, 10_001)
    }
    assert len(outputs) == 1


def test_referenced_tables_come_once():
    table = owned()
    assert with_referenced([table, table]) == [table]
