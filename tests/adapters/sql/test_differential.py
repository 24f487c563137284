"""Memory, SQLite and PostgreSQL give the same answers to the same calls.

Generated queries and writes run on all three, on columns of each common type. ``make fuzz`` runs
more of them, and ``ALULA_DIFFERENTIAL=100000`` about that many calls.

Known differences, which the generators leave out:

- Text in a query is converted to the type of the column, since a query string has only text:
  ``{"age": "25"}`` finds 25 in a table, and nothing in memory. So is a value of another type: it is
  a `BadRequest` in a table, and finds nothing in memory.
- A field without a column is a `BadRequest`, in queries and data; in memory it is null, or stored.
- SQLite stores -0.0 as 0.0. Both are equal in every query.
- JSON columns have equality as a whole, and no tests of the elements of lists. At a path, a value
  of another type than the declared one counts as null.
- Records in memory have no update operators; ``update_operators.py`` says what they do. PostgreSQL
  refuses a product that is too small for a float, which elsewhere is 0.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    MetaData,
    Numeric,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB
from tests.adapters.sql.update_operators import changes_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService, belongs_to, has_many
from alula.errors import BadRequest, FrameworkError
from alula.types import Page

# The other tests of SQL try the versions of packages.
pytestmark = pytest.mark.slow

CALLS = 10
"""How many calls an example has at most; it has six on average."""

given_calls = int(os.environ.get("ALULA_DIFFERENTIAL", "0"))
many = settings(max_examples=given_calls // 6) if given_calls else lambda test: test

OBJECTS = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
MODEL = Table(
    "differential",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("whole", BigInteger),
    Column("always", Integer, nullable=False),
    Column("real", Double),
    Column("text", Text),
    Column("flag", Boolean),
    Column("at", DateTime(timezone=True)),
    Column("price", Numeric(12, 2)),
    Column("words", ARRAY(Text)),
    Column("friend", Integer),
    Column("data", OBJECTS),
    Column("more", OBJECTS),
)
COLUMNS = [name for name in MODEL.columns.keys() if name != "more"]  # noqa: SIM118  # columns of SQLAlchemy are iterated, not their names
EXTRA = ["odd", "note", "loose"]
"""Properties without a column."""

FIELDS = [*COLUMNS, *EXTRA]
PATHS = {"data.a": int, "data.b": str, "odd": int, "note": str}
RELATED = {"friend_record.text": "text", "friend_record.whole": "whole"}
OPTIONS = {
    "multi": True,
    "paginate": {"default": 8},
    "operators": ["$eq", "$not"],
    "relations": {
        "friend_record": belongs_to(
            "records", "friend", filter=[name.partition(".")[2] for name in RELATED]
        ),
        "friends": has_many("records", "friend", limit=2, sort={"whole": -1, "id": -1}),
    },
}

# -- values ------------------------------------------------------------------------------------

TEXTS = [
    "", "a", "b", "A", "aa", "ab", "B", "Z", "1", "0", "10", "9", "null", "true", " ", "a ", "%",
    "_", "'", '"', "\\", "\u00e9", "e\u0301", "\u00df", "ss", "\U0001f600", "\uffff", "\u2028",
    "\t", "\n",
]  # fmt: skip
INTEGERS = [0, 1, 2, 3, -1, 2**31, -(2**31), 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, 1.5, 2.0, -1.0, -1.5, 0.1, 1e300, -1e300, 5e-324, 2.0**53, 2.0**63]
MOMENTS = [
    datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
    datetime(1899, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC),
]  # fmt: skip

integers = st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)
floats = st.sampled_from(FLOATS) | finite.map(lambda value: value or 0.0)
texts = st.sampled_from(TEXTS) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3
)
moments = st.sampled_from(MOMENTS) | st.datetimes(
    datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)
)
small = st.integers(-3, 3)
prices = st.integers(-(10**12) + 1, 10**12 - 1) | st.integers(-300, 300)
prices = prices.map(lambda value: Decimal(value).scaleb(-2))
ids = st.integers(1, 8)
# A key with a dollar sign in front is for operators; in memory, new records may have it.
keys = texts.filter(lambda name: name[:1] != "$")
json_values = st.recursive(
    st.none() | st.booleans() | small | st.sampled_from(TEXTS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=3,
)
stored = {
    "whole": small | integers,
    "always": small,
    "real": floats,
    "text": texts,
    "flag": st.booleans(),
    "at": moments,
    "data": st.fixed_dictionaries(
        {}, optional={"a": st.none() | small | integers, "b": st.none() | texts}
    ),
    "price": prices,
    "words": st.lists(texts, max_size=2),
    "friend": st.integers(1, 9),  # nobody is the ninth
    "odd": small | integers,
    "note": texts,
    "loose": json_values,
}
beyond = st.sampled_from([2**63, -(2**63) - 1, 2**64, 10**30, 1e19, -1e19, 0.5, 1.5, 2.0, -0.5])
asked = {
    **{name: values for name, values in stored.items() if name not in {"words", "loose"}},
    "id": ids | beyond,
    "whole": small | integers | beyond,
    "always": small | beyond,
    "real": floats | small | beyond,
    "data.a": small | integers | beyond,
    "data.b": texts,
    "odd": small | integers | beyond,
}
asked |= {name: asked[field] for name, field in RELATED.items()}

# -- queries -----------------------------------------------------------------------------------


def conditions_on(field):
    """Return the strategy of what a query has for a field."""
    value = st.none() | asked[field]
    if field == "data":
        only_equal = st.builds(
            lambda name, value: {name: value}, st.sampled_from(["$ne", "$eq"]), value
        )
        return only_equal | several_of(value)
    one = st.dictionaries(
        st.sampled_from(["$lt", "$lte", "$gt", "$gte", "$ne", "$eq"]),
        value, min_size=1, max_size=2,
    )  # fmt: skip
    tests = one | several_of(value)
    return st.one_of(value, tests, st.builds(lambda test: {"$not": test}, tests))


def several_of(value):
    """Return the strategy of tests that have a list of values."""
    return st.dictionaries(
        st.sampled_from(["$in", "$nin"]), st.lists(value, max_size=3), min_size=1, max_size=2
    )


# Made once each: Hypothesis looks at every new strategy, which takes longer than all databases.
CONDITIONS = {name: conditions_on(name) for name in sorted(asked)}


@st.composite
def one_field(draw):
    name = draw(st.sampled_from(list(CONDITIONS)))
    return {name: draw(CONDITIONS[name])}


named = one_field()
fields = st.builds(lambda *parts: {k: v for p in parts for k, v in p.items()}, named, named)
criteria = st.recursive(
    named | fields,
    lambda inner: st.dictionaries(
        st.sampled_from(["$or", "$and"]), st.lists(inner, min_size=1, max_size=3), min_size=1
    ),
    max_leaves=4,
)
# The id in the end: which of two equal records comes first is open.
sortable = [*(name for name in COLUMNS if name not in {"id", "data", "words"}), *PATHS]
orders = st.dictionaries(st.sampled_from(sortable), st.sampled_from([1, -1]), max_size=3).map(
    lambda sort: {"$sort": {**sort, "id": 1}}
)
by_friends = st.fixed_dictionaries(
    {name: st.sampled_from([1, -1]) for name in RELATED} | {"id": st.just(1)}
).map(lambda sort: {"$sort": sort})
included = st.sampled_from(
    [["friend_record"], ["friends"], ["friend_record.friends", "friends.friend_record"]]
).map(lambda names: {"$include": names})
includes = st.just({}) | st.just({}) | included
selects = st.just({}) | st.lists(st.sampled_from(FIELDS), max_size=3).map(
    lambda names: {"$select": names}
)
pages = st.fixed_dictionaries(
    {}, optional={"$limit": st.integers(0, 5), "$skip": st.integers(0, 5)}
)


def queries_of(*parts):
    """Return the strategy of queries with these parts."""
    return st.builds(
        lambda *parts: {k: v for p in parts for k, v in p.items()}, st.just({}) | criteria, *parts
    )


queries = queries_of(orders, selects, pages)

# For one record: most queries with criteria do not have it.
narrow = selects | selects | queries

# -- calls -------------------------------------------------------------------------------------

needed = {"always": stored["always"]}
optional = {name: st.none() | values for name, values in stored.items() if name != "always"}
whole = st.fixed_dictionaries(needed, optional=optional)
new = st.fixed_dictionaries({"id": ids, **needed}, optional=optional)
part = st.fixed_dictionaries({}, optional={**optional, **needed})
bounds = {name: stored[name] for name in ("whole", "always", "real", "text", "flag", "at", "price")}
factors = {
    "whole": small | integers,
    "always": small | st.sampled_from([2**31 - 1, -(2**31)]),
    "real": st.sampled_from([0.0, 1.0, 1.5, 2.0, -1.0]),
    "price": prices,
}
items = texts | st.lists(texts, max_size=2).map(lambda each: {"$each": each})


def some_of(strategies):
    return st.fixed_dictionaries({}, optional=strategies)


operated = st.builds(
    lambda operators, plain: {**plain, **operators},
    st.fixed_dictionaries(
        {},
        optional={
            "$inc": some_of(factors), "$mul": some_of(factors),
            "$min": some_of(bounds), "$max": some_of(bounds),
            "$push": some_of({"words": items}), "$set": some_of({"note": texts, "flag": st.none()}),
        },
    ),
    some_of({"odd": small, "text": texts}),
)  # fmt: skip
calls = st.one_of(
    st.tuples(st.just("find"), queries),
    st.tuples(st.just("find"), queries_of(orders | by_friends, selects, pages, includes)),
    st.tuples(st.just("get"), ids, narrow | included),
    st.tuples(st.just("patch"), ids, operated, narrow),
    st.tuples(st.just("patch"), st.none(), operated, queries),
    st.tuples(st.just("create"), new, selects),
    st.tuples(st.just("create"), st.lists(new, max_size=3), selects),
    st.tuples(st.just("update"), ids, whole, narrow),
    st.tuples(st.just("patch"), ids, part, narrow),
    st.tuples(st.just("patch"), st.none(), part, queries),
    st.tuples(st.just("remove"), ids, narrow),
    st.tuples(st.just("remove"), st.none(), queries),
)
collections = st.lists(new, min_size=1, max_size=8, unique_by=lambda record: record["id"])


async def answer(service, method, *arguments):
    """Return what a call answers, in a form in which 1, 1.0 and true differ."""
    *given, query = arguments
    try:
        result = await getattr(service, method)(*given, {"query": query})
    except FrameworkError as error:
        return type(error).__name__
    if isinstance(result, list):
        return [exact(record, query) for record in result]
    if isinstance(result, Page):
        return result["total"], [exact(record, query) for record in result["data"]]
    return exact(result, query)


def exact(record, query):
    """Return the fields of a record with their types; those that are missing are null."""
    included = [name.partition(".") for name in query.get("$include", ())]
    names = {*query["$select"], "id"} if "$select" in query else {*FIELDS}
    assert set(record) <= {*names, *(name for name, _, _ in included)}
    values = [(name, kind(record.get(name)), record.get(name)) for name in sorted(names)]
    for name, _, inner in included:
        related = record[name]
        below = {"$include": [inner]} if inner else {}
        several = related if isinstance(related, list) else [related]
        values.append((name, [each and exact(each, below) for each in several]))
    return values


def kind(value):
    """Return the types of a value and of all that is in it."""
    if isinstance(value, dict):
        return {name: kind(inner) for name, inner in value.items()}
    return [*map(kind, value)] if isinstance(value, list) else type(value).__name__


async def answer_in_memory(memory, method, *arguments):
    """Return what a call answers for records in memory, which have no update operators."""
    *given, query = arguments
    if method != "patch" or not any(name[0] == "$" for name in given[1]):
        return await answer(memory, method, *arguments)
    key, patch = given
    selected = {name: value for name, value in query.items() if name == "$select"}
    criteria = {k: v for k, v in query.items() if k not in {"$select", "$limit", "$skip"}}
    try:
        changes_of({}, patch)
        if key is None:
            records = await memory.find({"query": criteria, "paginate": False})
        else:
            records = [await memory.get(key, {"query": criteria})]
        changes = [changes_of(record, patch) for record in records]
    except FrameworkError as error:
        return type(error).__name__
    answers = [
        await answer(memory, "patch", record["id"], change, selected)
        for record, change in zip(records, changes, strict=True)
    ]
    return answers if key is None else answers[0]


@pytest.fixture(scope="module")
async def services(postgresql_url):
    """A service on SQLite, one on PostgreSQL, one in memory, and a count of calls, printed last."""
    databases = [Database("sqlite://"), Database(postgresql_url, pool=2)]
    found = []
    for database in databases:
        await database.open()
        await database.execute(f"drop table if exists {MODEL.name}")
        found.append(SQLService(MODEL, database, paths=PATHS, extra="more", **OPTIONS))
        await database.create(found[-1])
    apps = []
    for service in (*found, memory := MemoryService(**OPTIONS)):
        apps.append(App())
        apps[-1].use("records", service)
        await apps[-1].setup()
    made = Counter()
    yield found, memory, made
    print(dict(made))
    for database in databases:
        await database.execute(f"drop table {MODEL.name}")
    for app in apps:
        await app.teardown()
    for database in databases:
        await database.close()


@many
@given(collections, st.lists(calls, min_size=1, max_size=CALLS))
async def test_all_give_the_same_answers(services, records, calls):
    services, memory, made = services
    memory.reset()
    everything = ("find", {"$sort": {"id": 1}, "$limit": 100})
    for service in services:
        await service.remove(None, {})
    for call in [("create", records, {}), *calls, everything]:
        expected = await answer_in_memory(memory, *call)
        made[f"{call[0]}: {expected if isinstance(expected, str) else 'an answer'}"] += 1
        for service in services:
            found = await answer(service, *call)
            assert found == expected, (service.database.dialect, call)


LIKE = ["$like", "$notlike", "$ilike"]
patterns = st.text(
    st.sampled_from(["a", "A", "b", "%", "_", "\\", "\u00e9", "\u00c9", "\u00df", "'"])
)
like = st.dictionaries(st.sampled_from(LIKE), patterns, min_size=1, max_size=2)


async def selected(service, test):
    """Return the ids of the records whose text meets a test."""
    params = {"query": {"text": test}, "adapter": {"operators": LIKE, "paginate": False}}
    try:
        return sorted(record["id"] for record in await service.find(params))
    except BadRequest as error:
        return str(error)


@many
@given(st.lists(patterns | st.none(), min_size=1, max_size=8), st.lists(like, min_size=1))
async def test_patterns_find_the_same_on_both(services, values, patterns):
    records = [{"id": n, "always": 0, "text": text} for n, text in enumerate(values, 1)]
    found = []
    for service in services[0]:
        await service.remove(None, {})
        await service.create(records)
        found.append([await selected(service, test) for test in patterns])
    assert found[0] == found[1]
