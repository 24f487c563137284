"""Hostile names and values in every place of a request, against a running server.

What holds is seen at the database: whatever a client sends, the text of a statement is made of
words, of names that the service knows, and of the numbers of parameters. No answer is a 5xx, and
none has a part of a statement.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, unquote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import JSON, BigInteger, Boolean, Column, Integer, MetaData, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from alula import App
from alula.adapters.sql import Database, SQLService, belongs_to
from alula.adapters.sql._tables import _catalogue, _constraints, _drift
from alula.express import error_handler, express, not_found, rest
from alula.express import json as json_body

# The other tests of SQL try the versions of packages.
pytestmark = pytest.mark.slow

OBJECTS = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
given_requests = int(os.environ.get("ALULA_INJECTION", "0"))
METADATA = MetaData()
SECONDS_TO_START = 30
ODD = 'a "quoted" na;me--'
NOTES = Table(
    "injection notes",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text),
    Column("n", BigInteger),
    Column("flag", Boolean),
    Column("select", Text),
    Column(ODD, Text),
    Column("data", OBJECTS),
    Column("more", OBJECTS),
)
BY_TEXT = Table("injection_keys", METADATA, Column("key", Text, primary_key=True))
BY_UUID = Table(
    "injection_uuids", METADATA, Column("id", Uuid, primary_key=True), Column("name", Text)
)
OPEN = ["$like", "$ilike", "$notlike", "$null", "$contains", "$eq", "$not"]
KNOWN = {*NOTES.columns.keys(), *BY_TEXT.columns.keys(), *BY_UUID.columns.keys()} | {
    *(table.name for table in METADATA.sorted_tables),
    f"{NOTES.name}_search",
}
PATHS = {"data.color": str, "data.size.w": int}
TOKEN = re.compile(
    r"""(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?P<text>'(?:[^']|'')*')|(?P<parameter>[$?]\d+)"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<number>\d+)|(?P<space>\s+)|(?P<sign>[^\sA-Za-z0-9"'`])"""
)


def parts_of(text):
    """Return the parts of a statement: names in quotes, constants, words, signs."""
    position, parts = 0, []
    while position < len(text):
        match = TOKEN.match(text, position)
        assert match, f"no part of a statement: {text[position:]!r} in {text!r}"
        if match.lastgroup != "space":
            parts.append((match.lastgroup, match.group()))
        position = match.end()
    return parts


class Logged(Database):
    """Keeps the texts of all statements."""

    def __init__(self, url, **options):
        super().__init__(url, **options)
        self.texts = set()

    def run(self, statement, *arguments, **more):
        self.texts.add(statement.text)
        return super().run(statement, *arguments, **more)

    def begin(self, **options):
        transaction = super().begin(**options)
        run = transaction.run

        def logged(statement, *arguments, **more):
            self.texts.add(statement.text)
            return run(statement, *arguments, **more)

        transaction.run = logged
        return transaction


def make_app(database):
    app = express(App())
    app.use(json_body())
    app.configure(rest())
    paginate = {"default": 5, "max": 10}
    options = {"multi": True, "paths": PATHS}
    app.use("notes", SQLService(NOTES, database, paginate=paginate, **options))
    opened = SQLService(
        NOTES, database, operators=OPEN, update_operators=["$inc"], extra="more",
        search=["name", ODD], relations={"owner": belongs_to("keys", "select", filter=["key"])},
        **options,
    )  # fmt: skip
    app.use("opened", opened)
    app.use("keys", SQLService(BY_TEXT, database, multi=True))
    app.use("uuids", SQLService(BY_UUID, database, multi=True))
    app.use(not_found())
    app.use(error_handler(logger=False))
    return app


async def serve(url, started):
    """Serve the application until told to stop."""
    database, loop, stop = Logged(url), asyncio.get_running_loop(), asyncio.Event()
    app = make_app(database)
    for table in METADATA.sorted_tables:
        await database.execute(f'drop table if exists "{table.name}"')
    await database.create(*(app.service(path).service for path in ("opened", "keys", "uuids")))
    async with await app.listen(0) as server:
        started.put((server.url, database, lambda: loop.call_soon_threadsafe(stop.set)))
        await stop.wait()
    for table in METADATA.sorted_tables:
        await database.execute(f'drop table if exists "{table.name}"')
    await database.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
async def target(request):
    """A client of the application, which runs in a thread of its own, and its database."""
    url = "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    started = queue.Queue()
    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, serve(url, started))
        address, database, stop = await asyncio.to_thread(started.get, timeout=SECONDS_TO_START)
        async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
            yield client, database
        stop()
        served.result()


KEYWORDS = """
all and any array as bigint blob bool boolean by bytea case cast coalesce conflict count cross
default delete desc do else end escape exists false first for from ilike in insert int4 int8 into
is join json json_array_elements json_array_length json_each json_extract json_type jsonb
jsonb_array_elements jsonb_typeof key last lateral left length like limit locked match
materialized nextval not nothing null nulls numeric o octet_length offset on or order ordinality
over overriding pg_get_serial_sequence regclass returning row_number rowid select set set_config
skip sum system text then to_tsvector true unnest update using uuid value values
websearch_to_tsquery when where with
"""
WORDS = set(KEYWORDS.split())
POSITION = re.compile(r"'\$\[\d+\]'\Z")
# What a statement gives a name to: a name in quotes never begins so.
GIVEN = re.compile(r"alula_\w+\Z")
CONSTANTS = {
    "'{}'", "'[]'", "'object'", "'text'", "'integer'", "'real'", "'number'", "'string'", "'array'",
    "'$.\"color\"'", "'$.\"size\".\"w\"'", "'color'", "'size'", "'w'", r"'\'",
    "'simple'", "''", "' '", "'lock_timeout'", "'50'", "'\"injection notes\"'", "'id'",
}  # fmt: skip
OF_THE_CATALOGUE = {
    value
    for module in (_catalogue, _constraints, _drift)
    for value in vars(module).values()
    if isinstance(value, str)
}


def assert_harmless(database):
    """Check all statements since the last time."""
    texts = database.texts - OF_THE_CATALOGUE
    database.texts.clear()
    for text in texts:
        for kind, part in parts_of(text):
            if kind == "name":
                assert part[1:-1].replace(part[0] * 2, part[0]) in KNOWN, text
            elif kind == "word":
                assert part in WORDS or GIVEN.match(part), (part, text)
            elif kind == "text":
                assert part in CONSTANTS or POSITION.match(part), text
        others = text.replace(ODD.replace('"', '""'), "").replace(ODD.replace("`", "``"), "")
        assert ";" not in others
        assert "--" not in others


async def assert_answered(client, method, path, **more):
    """Send a request; its answer is no failure, and tells nothing of statements."""
    answer = await client.request(method, path, **more)
    assert answer.status_code < 500, (method, path, more, answer.text)
    sent = f"{unquote(path)} {more}"
    for told in ("returning", "sqlite", "asyncpg", "syntax", "constraint", "traceback"):
        is_told = answer.status_code >= 400 and told in answer.text.lower()
        assert not is_told or told in sent.lower(), (path, more, answer.text)
    return answer


HOSTILE = [
    "'", '"', "`", "]", "[", ";", "--", "/*", "*/", "\\", "%", "_", "$1", "?1", ":name", "@x", "#",
    "\0", "a\0b", "\u2019", "\uff07", "\u02ba", "\uff02", "\u037e", "\ufe54", "\u2028", "\ufeff",
    "' or '1'='1", '" or "1"="1', "x'; drop table keys; --", 'x"; drop table keys; --', "1 or 1=1",
    "name as other", "name, secret", "*", "count(*)", "name) or (1=1", "name::text", "name->>'a'",
    "rowid", "oid", "ctid", "xmin", "_rowid_", "sqlite_master", "pg_sleep(9)", "injection notes",
    "data.color'", "data.color", "data.size.w", "data.'x", 'data."x', "data.color.x", "data.size",
    "data.", ".data", "data..x", "data.$x", "data[0]", "$.color", "more.x", "name.x", "more",
    "$where", "$like", "$or", "$and", "$select", "$sort", "$in", "$ne", "$not", "$inc", "$set",
    "__proto__", "constructor", "id", "name", "n", "flag", "select", ODD, ODD[:-1], "NAME", "Name",
    "\\'; select 1", "\\x27", "%27", "char(39)", "E'\\x27'", "U&\"\\0061\"", "$$x$$", "\U0001f600",
    "e\u0301", "\u0130", "", " ", "null", "true", "1", "-1", "1e9", "9" * 30, "NaN", "Infinity",
    "0x1", "1_000", "\ud7ff", "2024-01-01", "{}", "[]", "01900000-0000-7000-8000-0000000000aa",
]  # fmt: skip
words = st.sampled_from(HOSTILE)
characters = st.characters(exclude_categories=["Cs"])
texts = words | st.builds("".join, st.lists(words, max_size=3)) | st.text(characters, max_size=8)
COMMON = ["name", "n", "flag", "select", ODD, "data", "id", "data.color", "owner.key"]
keys = st.sampled_from(COMMON) | texts
json_values = st.recursive(
    texts | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)
brackets = st.lists(texts | st.sampled_from(["0", "$in", "$ne", "$like", "$gt", ""]), max_size=3)


def pair_of(name, inner, value):
    return "".join([quote(name), *(f"[{quote(each)}]" for each in inner), "=", quote(value)])


pairs = st.one_of(
    st.builds(pair_of, keys, brackets, texts),
    st.builds(pair_of, keys, st.lists(st.sampled_from(["$in", "$nin", "$lt"]), max_size=1), texts),
    st.builds(pair_of, st.just("$sort"), st.lists(keys, min_size=1, max_size=1), st.just("1")),
    st.builds(pair_of, st.just("$select"), st.just([""]), keys),
    st.builds(pair_of, st.just("$or"), st.lists(texts, max_size=1).map(lambda x: ["0", *x]), texts),
    st.builds(pair_of, st.sampled_from(["$limit", "$skip", "$search"]), st.just([]), texts),
    st.builds(pair_of, st.just("$include"), st.just([""]), texts | st.just("owner")),
)
query_strings = st.just("") | pairs | pairs | st.lists(pairs, max_size=3).map("&".join)
places = st.sampled_from(["/notes", "/opened", "/keys", "/uuids"])
bodies = st.dictionaries(keys, json_values, max_size=4)
PLACES = {
    "value": lambda word: f"?name={word}",
    "value of a number": lambda word: f"?n[$lt]={word}",
    "value of a flag": lambda word: f"?flag={word}",
    "list": lambda word: f"?name[$in][]={word}&name[$in][]=x",
    "pattern": lambda word: f"?name[$like]={word}",
    "folded pattern": lambda word: f"?{quote(ODD)}[$ilike]={word}",
    "path": lambda word: f"?data.color={word}",
    "part of JSON": lambda word: f"?data[$contains][]={word}",
    "JSON": lambda word: f"?data={word}",
    "related record": lambda word: f"?owner.key={word}",
    "search": lambda word: f"?$search={word}",
    "name": lambda word: f"?{word}=1",
    "name after a column": lambda word: f"?data.{word}=1",
    "name after a relation": lambda word: f"?owner.{word}=1",
    "operator": lambda word: f"?name[{word}]=1",
    "name in $or": lambda word: f"?$or[0][{word}]=1&$or[1][name]={word}",
    "name in $and": lambda word: f"?$and[0][name][$not][$eq]={word}&$and[1][{word}]=1",
    "$sort": lambda word: f"?$sort[{word}]=-1",
    "direction": lambda word: f"?$sort[name]={word}",
    "$select": lambda word: f"?$select[]=name&$select[]={word}",
    "$limit": lambda word: f"?$limit={word}&$skip={word}",
    "$include": lambda word: f"?$include[]={word}",
    "id": lambda word: f"/{word}",
}


VALUES = {"value", "list", "pattern", "folded pattern", "path", "related record", "search", "JSON"}
"""Places in which most words are values like any other."""


def some_of(places, place):
    """Return a part of the words, another one for each place; all of them in a long run."""
    return HOSTILE if given_requests else HOSTILE[list(places).index(place) % 4 :: 4]


@pytest.mark.parametrize("place", PLACES)
async def test_each_word_in_each_place_of_a_query(target, place):
    client, database = target
    paths = [PLACES[place](quote(word, safe="")) for word in some_of(PLACES, place)]
    for service in ("/opened", "/notes", "/uuids") if place in {"id", "value"} else ("/opened",):
        calls = [assert_answered(client, "GET", service + path) for path in paths]
        answers = await asyncio.gather(*calls)
        assert {answer.status_code for answer in answers} <= {200, 400, 404}
    assert database.texts or place not in VALUES
    assert_harmless(database)


BODIES = {
    "value": lambda word: {"name": word},
    "value of a number": lambda word: {"n": word},
    "odd column": lambda word: {ODD: word, "select": word},
    "JSON": lambda word: {"data": {"color": word, "list": [word, {"x": word}]}},
    "key of JSON": lambda word: {"data": {word: {word: [word]}}},
    "key": lambda word: {word: "x"},
    "operator": lambda word: {"$inc": {word: 1}},
    "operand": lambda word: {"$inc": {"n": word}},
    "id": lambda word: {"id": word},
}


@pytest.mark.parametrize("place", BODIES)
async def test_each_word_in_each_place_of_data(target, place):
    client, database = target
    made = (await assert_answered(client, "POST", "/opened", json={"name": "x"})).json()
    data = [BODIES[place](word) for word in some_of(BODIES, place) if word != "id"]
    for method, path in (("POST", "/opened"), ("PATCH", f"/opened/{made['id']}")):
        calls = [assert_answered(client, method, path, json=each) for each in data]
        for each, answer in zip(data, await asyncio.gather(*calls), strict=True):
            assert answer.status_code in {200, 201, 400, 409}
            if answer.status_code < 300 and place not in {"id", "operator", "operand"}:
                assert answer.json().items() >= each.items()
    await assert_answered(client, "PUT", f"/opened/{made['id']}", json=data[0])
    await assert_answered(client, "POST", "/opened", json=data)
    assert_harmless(database)


many = settings(max_examples=given_requests // 5) if given_requests else lambda test: test


@many
@given(places, texts, query_strings, bodies)
async def test_no_request_brings_anything_through(target, place, id, query, body):
    client, database = target
    one = f"{place}/{quote(id, safe='')}?{query}"
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    await assert_answered(client, "GET", f"{place}?{query}")
    await assert_answered(client, "GET", one)
    for method, path in (("POST", place), ("PATCH", one), ("PUT", one), ("DELETE", one)):
        await assert_answered(client, method, path, content=content, headers=headers)
    assert_harmless(database)
