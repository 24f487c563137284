import asyncio
import logging
import socket
import sqlite3
import sys

import asyncpg
import pytest
import sqlalchemy
from tests.adapters.sql.statements import created

from alula import App
from alula.adapters.sql import Database, SQLService
from alula.adapters.sql._errors import (
    is_of_asyncpg,
    is_outage,
    is_serialization_failure,
    translated,
    was_undone,
)
from alula.adapters.sql._statement import Statement
from alula.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    FrameworkError,
    GeneralError,
    NotFound,
    Timeout,
    Unavailable,
)

METADATA = sqlalchemy.MetaData()
OWNERS = sqlalchemy.Table(
    "owners", METADATA, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True)
)
PETS = sqlalchemy.Table(
    "pets",
    METADATA,
    sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
    sqlalchemy.Column("owner id", sqlalchemy.ForeignKey("owners.id"), key="ownerId"),
    sqlalchemy.Column("name", sqlalchemy.Text, unique=True),
    sqlalchemy.Column("first", sqlalchemy.Text),
    sqlalchemy.Column("last", sqlalchemy.Text),
    sqlalchemy.Column("age", sqlalchemy.Integer, nullable=False),
    sqlalchemy.Column("low", sqlalchemy.Integer),
    sqlalchemy.Column("high", sqlalchemy.Integer),
    sqlalchemy.UniqueConstraint("first", "last", name="full_name"),
    sqlalchemy.CheckConstraint("age >= 0"),
)
PETS.append_constraint(sqlalchemy.CheckConstraint(PETS.c.low <= PETS.c.high, name="in_order"))


@pytest.fixture
async def pets(database):
    _, pets = await created(database, OWNERS, PETS)
    return pets


async def failed(database, table, text, error_type, *parameters, removes=False):
    """Run a statement that fails, and return the error."""
    with pytest.raises(FrameworkError) as caught, translated(table, removes=removes):
        await database.run(Statement(text, parameters), 10, writes=True)
    assert type(caught.value) is error_type
    assert caught.value.__cause__ is not None
    assert "insert" not in caught.value.message.lower()
    return caught.value


# -- constraints -----------------------------------------------------------------------------------


async def test_a_unique_value_that_is_taken(database, pets):
    await database.execute("insert into pets (age, name) values (1, 'secret')")
    error = await failed(
        database, pets, "insert into pets (age, name) values (1, 'secret')", Conflict
    )
    assert error.message == "There is a record with this name already"
    assert error.errors == {"name": "is taken"}


async def test_an_id_that_is_taken(database, pets):
    await database.execute("insert into pets (id, age) values (1, 1)")
    error = await failed(database, pets, "insert into pets (id, age) values (1, 1)", Conflict)
    assert error.errors == {"id": "is taken"}


async def test_two_unique_columns(database, pets):
    text = "insert into pets (age, first, last) values (1, 'A', 'L')"
    await database.execute(text)
    error = await failed(database, pets, text, Conflict)
    assert error.message == "There is a record with this first and last already"
    assert error.errors == {"first": "is taken", "last": "is taken"}


async def test_a_unique_index_that_came_with_a_migration(database, pets):
    await database.execute('create unique index late on pets ("high")')
    await database.execute("insert into pets (age, high) values (1, 5)")
    text = "insert into pets (age, high) values (2, 5)"
    await failed(database, pets, text, Conflict)
    await asyncio.sleep(0)
    if pets.constraints._task is not None:
        await pets.constraints._task
    assert (await failed(database, pets, text, Conflict)).errors == {"high": "is taken"}


async def test_an_index_on_an_expression_names_no_field(database, pets):
    await database.execute("create unique index lower_name on pets (lower(name))")
    await database.execute("insert into pets (age, name) values (1, 'a')")
    error = await failed(database, pets, "insert into pets (age, name) values (1, 'A')", Conflict)
    assert error.message == "There is a record with this unique key already"
    assert error.errors is None


async def test_a_record_that_is_referred_to_is_not_there(database, pets):
    text = 'insert into pets (age, "owner id") values (1, 5)'
    error = await failed(database, pets, text, BadRequest)
    assert error.message == "There is no record that ownerId refers to"
    assert error.errors == {"ownerId": "is not there"}


async def test_a_record_that_others_refer_to(database, pets):
    await database.execute("insert into owners (id) values (5)")
    await database.execute('insert into pets (age, "owner id") values (1, 5)')
    error = await failed(database, pets, "delete from owners", Conflict, removes=True)
    assert error.message == "Other records refer to this one"


async def test_a_missing_value(database, pets):
    error = await failed(database, pets, "insert into pets (name) values ('x')", BadRequest)
    assert error.message == "age is missing"
    assert error.errors == {"age": "is missing"}


async def test_a_check_of_one_column(database, pets):
    table = sqlalchemy.Table(
        "checked",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("n", sqlalchemy.Integer),
    )
    table.append_constraint(sqlalchemy.CheckConstraint(table.c.n > 0, name="positive"))
    (checked,) = await created(database, table)
    error = await failed(database, checked, "insert into checked (n) values (0)", BadRequest)
    assert error.message == "n has a value that is not allowed"
    assert error.errors == {"n": "is not allowed"}


async def test_a_check_of_two_columns(database, pets):
    text = "insert into pets (age, low, high) values (1, 2, 1)"
    error = await failed(database, pets, text, BadRequest)
    assert error.errors == {"low": "is not allowed", "high": "is not allowed"}


async def test_a_check_of_an_enum_names_its_field(database):
    table = sqlalchemy.Table(
        "checked",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("kind", sqlalchemy.Enum("a", native_enum=False, create_constraint=True,
                                                  name="kind")),
    )  # fmt: skip
    (checked,) = await created(database, table)
    error = await failed(database, checked, "insert into checked (kind) values ('b')", BadRequest)
    assert error.errors == {"kind": "is not allowed"}


async def test_without_a_table_no_field_is_named(database, pets):
    texts = {
        "insert into pets (id, age, name) values (1, 1, 'a'), (1, 1, 'b')": Conflict,
        'insert into pets (age, "owner id") values (1, 5)': None,
        "insert into pets (name) values ('x')": BadRequest,
        "insert into pets (age, low, high) values (1, 2, 1)": BadRequest,
    }
    for text, error_type in texts.items():
        is_sqlite = database.dialect == "sqlite"
        expected = error_type or (BadRequest if is_sqlite else Conflict)
        assert (await failed(database, None, text, expected)).errors is None


# -- values, statements and connections ------------------------------------------------------------


async def test_a_value_that_is_not_valid(database, pets, caplog):
    text = "insert into pets (age) values ('secret')"
    error = await failed(database, pets, text, BadRequest)
    assert "secret" not in str(error.to_dict())
    assert error.errors == ({"age": "is not valid"} if database.dialect == "sqlite" else None)
    assert "refused a value" in caplog.text


async def test_a_statement_that_the_database_does_not_know(database, caplog):
    error = await failed(database, None, "select nonsense from nowhere", GeneralError)
    assert "nonsense" not in error.message
    assert "nowhere" in caplog.text


async def test_a_time_limit(database):
    if database.dialect == "postgresql":
        text = "select pg_sleep(10)"
    else:
        text = (
            "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
        )
    with pytest.raises(Timeout, match="took too long"), translated():
        await database.run(Statement(text), 0.05)


async def test_a_setting_of_the_server_can_limit_the_time(postgresql_schema):
    database = Database(postgresql_schema)
    await database.open()
    with pytest.raises(Timeout), translated():
        async with database.begin(settings={"statement_timeout": "20"}) as transaction:
            await transaction.run(Statement("select pg_sleep(10)"), 10)
    await database.close()


async def test_what_the_user_of_the_database_may_not_do(postgresql_schema):
    database = Database(postgresql_schema)
    await database.open()
    await database.execute("create role nobody_here")
    try:
        with pytest.raises(Forbidden), translated():
            async with database.begin() as transaction:
                await transaction.run(Statement("set local role nobody_here"), 10)
                await transaction.run(Statement("select * from pg_authid"), 10)
    finally:
        await database.execute("drop role nobody_here")
        await database.close()


@pytest.fixture
def closed_port():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield closed.getsockname()[1]


async def test_a_database_that_is_not_there(closed_port, caplog):
    database = Database(f"postgresql://nobody:secret@127.0.0.1:{closed_port}/none")
    with pytest.raises(Unavailable, match="cannot be reached") as caught, translated():
        await database.run(Statement("select 1"), 5)
    assert caught.value.__notes__ == [f"PostgreSQL at 127.0.0.1:{closed_port}: Connection refused"]
    assert "127.0.0.1" not in str(caught.value.to_dict())  # clients do not see the note
    # Whoever responds to the call logs it, once.
    assert caplog.text == ""
    await database.close()


@pytest.mark.parametrize("setting", [None, "CHAT_DATABASE_URL"])
async def test_a_database_that_is_not_there_at_the_start(closed_port, setting):
    database = Database(f"postgresql://127.0.0.1:{closed_port}/none", setting=setting)
    with pytest.raises(Unavailable) as caught:
        await database.open()
    source = ["the URL comes from CHAT_DATABASE_URL"] if setting else []
    assert caught.value.__notes__[1:] == source


async def test_a_name_that_is_not_known_is_named():
    database = Database("postgresql://nowhere.invalid/none")
    with pytest.raises(Unavailable) as caught:
        await database.open()
    (note,) = caught.value.__notes__
    assert note.startswith("PostgreSQL at nowhere.invalid:5432: ")


async def test_a_database_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("alula.adapters.sql._drivers._postgresql.SECONDS_TO_CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database(f"postgresql://127.0.0.1:{port}/none?sslmode=disable")
        with pytest.raises(Unavailable) as caught:
            await database.open()
        await database.close()
    where = f"PostgreSQL at 127.0.0.1:{port}"
    assert caught.value.__notes__ == [f"{where}: no connection within 0.2 seconds"]


async def test_a_service_on_a_database_that_is_not_there_logs_one_line_at_the_start(
    closed_port, caplog
):
    database = Database(f"postgresql://127.0.0.1:{closed_port}/none")
    app = App().use("trees", SQLService("trees", database, id="id"))
    await app.setup()
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().endswith(f"127.0.0.1:{closed_port}: Connection refused)")
    await app.teardown()


def test_a_reference_of_a_record_to_its_own_table_depends_on_what_was_done():
    table = sqlalchemy.Table(
        "tree",
        sqlalchemy.MetaData(),
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True),
        sqlalchemy.Column("parent", sqlalchemy.ForeignKey("tree.id")),
    )
    from alula.adapters.sql._tables._tables import TableSource

    tree = TableSource(table, "postgresql").table
    error = postgresql_error("23503", table_name="tree", constraint_name="tree_parent_fkey")
    for removes, error_type in ((False, BadRequest), (True, Conflict)):
        with pytest.raises(error_type), translated(tree, removes=removes):
            raise error


def postgresql_error(state, **details):
    fields = {"C": state, "M": "text of the server"}
    names = {"table_name": "t", "column_name": "c", "constraint_name": "n"}
    fields |= {names[name]: value for name, value in details.items()}
    return asyncpg.PostgresError.new(fields)


def sqlite_error(name, text="", error_type=sqlite3.OperationalError):
    error = error_type(text)
    error.sqlite_errorname = name
    return error


# By name: what is raised, and what becomes of it.
ERRORS = {
    "serialization": (postgresql_error("40001"), Conflict),
    "deadlock": (postgresql_error("40P01"), Conflict),
    "lock": (postgresql_error("55P03"), Conflict),
    "shutdown": (postgresql_error("57P01"), Unavailable),
    "starting": (postgresql_error("57P03"), Unavailable),
    "too many connections": (postgresql_error("53300"), Unavailable),
    "lost connection": (postgresql_error("08003"), Unavailable),
    "raised by a trigger": (postgresql_error("P0001"), BadRequest),
    "not null without a column": (postgresql_error("23502"), BadRequest),
    "check without a name": (postgresql_error("23514"), BadRequest),
    "overlap": (postgresql_error("23P01"), Conflict),
    "restricted": (postgresql_error("23001"), Conflict),
    "not supported": (postgresql_error("0A000"), GeneralError),
    "stale plan": (asyncpg.InvalidCachedStatementError("cached plan is invalid"), Unavailable),
    "interface": (asyncpg.InterfaceError("another operation is in progress"), Unavailable),
    "internal": (asyncpg.InternalClientError("cannot switch to state 12"), Unavailable),
    "client's check": (asyncpg.DataError("invalid input for query argument $1"), BadRequest),
    "refused": (ConnectionRefusedError(), Unavailable),
    "timeout": (TimeoutError(), Timeout),
    "overflow": (OverflowError("int too big"), BadRequest),
    "surrogate": (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x"), BadRequest),
    "busy": (sqlite_error("SQLITE_BUSY_SNAPSHOT"), Unavailable),
    "full": (sqlite_error("SQLITE_FULL"), Unavailable),
    "disk": (sqlite_error("SQLITE_IOERR_WRITE"), Unavailable),
    "interrupt": (sqlite_error("SQLITE_INTERRUPT"), Timeout),
    "mismatch": (sqlite_error("SQLITE_MISMATCH", "x", sqlite3.IntegrityError), BadRequest),
    "too big": (sqlite_error("SQLITE_TOOBIG", "x", sqlite3.DataError), BadRequest),
    "data": (sqlite3.DataError("string or blob too big"), BadRequest),
    "row id": (sqlite_error("SQLITE_CONSTRAINT_ROWID"), Conflict),
    "syntax": (sqlite_error("SQLITE_ERROR", "near x"), GeneralError),
    "programming": (sqlite3.ProgrammingError("closed"), GeneralError),
}


@pytest.mark.parametrize(("error", "error_type"), ERRORS.values(), ids=ERRORS)
def test_each_sort_of_error_has_one_class(error, error_type):
    with pytest.raises(FrameworkError) as caught, translated():
        raise error
    assert type(caught.value) is error_type
    assert "text of the server" not in caught.value.message


@pytest.mark.parametrize("error", [NotFound("x"), KeyError("x"), asyncio.CancelledError()])
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as caught, translated():
        raise error
    assert caught.value is error


def test_nothing_happens_without_an_error():
    with translated():
        pass


async def test_a_row_id_that_is_taken_is_the_id(pets, database):
    if database.dialect == "sqlite":
        with pytest.raises(Conflict) as caught, translated(pets):
            raise sqlite_error("SQLITE_CONSTRAINT_ROWID")
        assert caught.value.errors == {"id": "is taken"}


async def test_only_postgresql_has_to_be_asked_for_constraints(pets, database):
    await pets.constraints.load()
    is_known = pets.constraints.get("pets_pkey") is not None
    assert is_known is (database.dialect == "postgresql")


async def test_a_constraint_that_cannot_be_read_is_not_named(pets, database):
    async def fail():
        raise OSError("down")

    pets.constraints.read_by(fail)
    assert pets.constraints.get("unknown") is None
    task = pets.constraints._task
    assert pets.constraints.get("unknown") is None  # the second error does not ask again
    assert pets.constraints._task is task
    await task
    assert pets.constraints._task is None


# -- what may be tried again -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "outage", "undone"),
    [
        (postgresql_error("23505"), False, True),
        (postgresql_error("55P03"), False, True),
        (postgresql_error("40P01"), False, True),
        (postgresql_error("57014"), False, True),
        (postgresql_error("57P01"), True, False),
        (postgresql_error("53300"), True, False),
        (asyncpg.InterfaceError("x"), True, False),
        (ConnectionResetError(), True, False),
        (TimeoutError(), False, False),
        (ValueError("the driver cannot read a row"), False, False),
        (sqlite3.IntegrityError("x"), False, False),
        (sqlite_error("SQLITE_IOERR_READ"), True, False),
    ],
)
def test_what_a_shared_statement_failed_of(error, outage, undone):
    assert (is_outage(error), was_undone(error)) == (outage, undone)


def test_serialization_failures_are_found_behind_other_errors():
    for state in ("40001", "40P01"):
        with pytest.raises(Conflict) as caught, translated():
            raise postgresql_error(state)
        assert is_serialization_failure(caught.value)
        outer = GeneralError("outer")
        outer.__context__ = caught.value
        assert is_serialization_failure(outer)
    assert not is_serialization_failure(ValueError())
    circle = ValueError()
    circle.__context__ = KeyError()
    circle.__context__.__context__ = circle
    assert not is_serialization_failure(circle)


def test_the_log_has_the_text_of_the_driver(caplog):
    with caplog.at_level(logging.ERROR, "alula.sql"), pytest.raises(GeneralError), translated():
        raise sqlite_error("SQLITE_ERROR", "near nonsense")
    assert "near nonsense" in caplog.text


async def test_a_value_that_is_too_large_for_an_index_is_the_callers_fault(pets, database):
    if database.dialect == "postgresql":
        name = "".join(map(str, range(20_000)))  # the index has no room for it
        statement = Statement("insert into pets (name, age) values ($1, 1)", (name,))
        with pytest.raises(BadRequest), translated(pets):
            await database.run(statement, 5, writes=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (asyncpg.PostgresError(), True),
        (asyncpg.UniqueViolationError(), True),
        (asyncpg.InterfaceError("no"), True),
        (asyncpg.InternalClientError(), True),
        (sqlite3.Error(), False),
        (OSError(), False),
    ],
)
def test_what_is_of_asyncpg(error, expected):
    assert is_of_asyncpg(error) is expected


def test_nothing_is_of_a_driver_that_is_not_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "asyncpg")
    assert not is_of_asyncpg(asyncpg.PostgresError())


async def test_a_table_that_was_never_made_says_how_to_make_it(database, caplog):
    absent = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "absent", absent, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True)
    )
    with pytest.raises(GeneralError, match="the log has the details"):
        await SQLService(table, database).find()
    assert "run `alula migrate`, or in development" in caplog.text


@pytest.mark.parametrize(
    "text", ["select absent from pets", "insert into pets (absent) values (1)"]
)
async def test_a_column_that_was_never_made_says_how_to_make_it(database, pets, caplog, text):
    await failed(database, pets, text, GeneralError)
    assert "run `alula migrate`, or in development" in caplog.text
    caplog.clear()
    await failed(database, None, text, GeneralError)  # a statement of the user's own
    assert "the database reported an error" in caplog.text
    assert "alula migrate" not in caplog.text


async def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    path = tmp_path / "absent" / "chat.sqlite"
    database = Database(f"sqlite:///{path}")
    with pytest.raises(sqlite3.OperationalError) as caught:
        await database.fetch("select 1")
    await database.close()
    assert f"The file is {path}; its folder must exist." in caught.value.__notes__
