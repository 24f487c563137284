"""Services on SQL: the tables of the recorded application, and a service for each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Uuid,
)
from tests.conformance.services.stored import test_params

from alula.adapters.sql import Database, SQLService, belongs_to, transaction
from alula.errors import BadRequest
from alula.schema import get_validator, query_syntax, validate_query

metadata = MetaData()


def table(name: str, *columns: Any) -> Table:
    """Return a table with an id that the database counts."""
    return Table(name, metadata, Column("id", Integer, primary_key=True), *columns)


people = table(
    "people",
    Column("name", String(255), nullable=False),
    *(Column(name, String(255)) for name in ("city", "dept", "zip")),
    Column("age", Integer),
    Column("active", Boolean),
    Column("note", Text),
    Column("score", Double),
)
messages = table(
    "messages",
    Column("text", String(255), nullable=False),
    Column("room", String(255)),
    Column("n", Integer),
)
codes = table(
    "codes",
    Column("code", String(255), nullable=False, unique=True),
    Column("label", String(255), nullable=False, server_default="none"),
    Column("ownerId", ForeignKey("people.id")),
    Column("amount", Integer),
    Column("status", String(255), server_default="new"),
    CheckConstraint("amount >= 0", name="amount_not_negative"),
)
keyed = Table(
    "keyed",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("value", String(255)),
)
todos = table("todos", Column("text", String(255)), Column("personId", Integer))
typed = table(
    "typed",
    Column("name", String(255)),
    Column("price", Numeric(10, 2)),
    Column("big", BigInteger),
    Column("ratio", Double),
    Column("flag", Boolean),
    Column("day", Date),
    Column("at", DateTime(timezone=True)),
    Column("data", JSON),
    Column("tags", ARRAY(Text)),
    Column("uid", Uuid),
    Column("kind", Text),
    CheckConstraint("kind in ('a', 'b', 'c')"),
)
strict = table(
    "strict",
    Column("code", String(5), nullable=False),
    Column("n", Integer, nullable=False),
)
uuids = Table("uuids", metadata, Column("id", Uuid, primary_key=True), Column("name", String(255)))
accounts = table(
    "accounts",
    Column("email", String(255), unique=True),
    Column("display name", String(255)),
    Column("select", String(255)),
)
atsql = table(
    "atsql",
    Column("name", String(255), nullable=False),
    Column("age", Integer),
    Column("time", BigInteger),
    Column("created", Boolean),
)

SERVICES = {
    "people": people,
    "codes": codes,
    "keyed": keyed,
    "typed": typed,
    "strict": strict,
    "uuids": uuids,
    "accounts": accounts,
    "messages": messages,
    "todos": todos,
}
"""The services whose records are the seed data."""

PAGINATE = {"messages": {"default": 10, "max": 50}, "todos": {"default": 5, "max": 20}}
RELATIONS = {"todos": {"person": belongs_to("people", "personId", filter=["name"])}}
LIKE = ["$like", "$ilike", "$notlike"]
"""Operators that every service of the original has."""


def register(app: Any, database: Database) -> None:
    """Register all services."""
    for path, model in SERVICES.items():
        multi = path != "uuids"
        service = SQLService(
            model,
            database,
            multi=multi,
            paginate=PAGINATE.get(path),
            operators=LIKE,
            relations=RELATIONS.get(path),
        )
        app.use(path, service)
    app.use("single", SQLService(messages, database, paginate={"default": 5, "max": 20}))
    app.use("missing", SQLService("no_such_table", database))
    app.service("todos").hooks(after=[person_of_result])
    app.use("validated", SQLService(people, database, multi=True, operators=LIKE))
    app.service("validated").hooks(around=[checked_query(PERSON, dict.fromkeys(NAMES, LIKES))])
    app.use("at-sql", SQLService(atsql, database, events=["testing"]))
    app.service("at-sql").hooks(before=[test_params], around=[checked_query(AT)])
    app.use("bank", Bank(app))
    app.service("bank").hooks(around={"create": [transaction(database)]})


# -- schemas of queries ------------------------------------------------------------------------

TEXT, NUMBER, BOOLEAN = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
NAMES = ("name", "city")
LIKES = dict.fromkeys(LIKE, TEXT)
PERSON = {"id": NUMBER, "name": TEXT, "city": TEXT, "age": NUMBER, "active": BOOLEAN}
AT = {"id": {"anyOf": [NUMBER, TEXT]}, "name": TEXT, "age": NUMBER, "created": BOOLEAN}


def checked_query(properties: dict[str, Any], extensions: Any = None) -> Any:
    """Return the hook that checks queries by the schema of their properties."""
    return validate_query(get_validator(query_syntax(properties, extensions), coerce=True))


# -- a join ------------------------------------------------------------------------------------


async def person_of_result(context: Any) -> None:
    """Add the name of the person to every todo; the names are read in one query."""
    result = context.result
    todos = result["data"] if isinstance(result, dict) and "data" in result else result
    todos = [todos] if isinstance(todos, dict) else todos
    ids = {todo["personId"] for todo in todos if todo.get("personId") is not None}
    query = {"id": {"$in": sorted(ids)}, "$select": ["name"]}
    persons = await context.app.service("people").find({"query": query})
    names = {person["id"]: person["name"] for person in persons}
    for todo in todos:
        if "personId" in todo:
            todo["personName"] = names.get(todo["personId"])


# -- a transaction -----------------------------------------------------------------------------


class Bank:
    """Makes a person and a code, both or none."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def create(self, data: Any, params: Any) -> Any:
        """Create a person, then a code of theirs; on request, fail in between."""
        sql = {"sql": params.sql}
        person = await self.app.service("people").create({"name": data.get("name")}, sql)
        if data.get("fail"):
            raise BadRequest("failed on purpose")
        code = {"code": data.get("code"), "ownerId": person["id"]}
        return {"person": person, "code": await self.app.service("codes").create(code, sql)}
