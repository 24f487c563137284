"""No request holds the process for long, whatever it makes it multiply.

Times are those of the processor and not of the clock, as multiples of what a plain loop takes at
the same time, so that a slow or busy machine counts little. What is refused stays far below a
second; without a budget each of these took from two seconds to minutes.
"""

from __future__ import annotations

import gc
import json
import time
from decimal import Decimal
from typing import ClassVar
from uuid import UUID

import pytest
from pydantic import create_model
from tests.express.asgi_client import call

from alula import App
from alula._json_encoding import MAX_INTEGERS_OF_ONE_HASH
from alula._routes import RouteTable
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.express import error_handler, express, rest, serve_static
from alula.express import json as json_bodies
from alula.express._body_parsing import MAX_CONTAINERS
from alula.query import ordered
from alula.query._query import MAX_STEPS, Budget
from alula.schema import Validator, get_validator, with_schema
from alula.schema._failures import MOST_COUNTED

LOOP = 200_000  # rounds; they take about 5 milliseconds
MOST_LOOPS = 300  # so 1.5 seconds
MEGABYTE = 1_048_000
MODULUS = 2**61 - 1  # integers that differ by this have one hash


pytestmark = [pytest.mark.slow, pytest.mark.untraced]


def seconds_of_a_loop():
    begun = time.process_time()
    for _ in range(LOOP):
        pass
    return time.process_time() - begun


class Stopwatch:
    """Measures without the garbage collector, which looks at what all tests so far have left."""

    def __enter__(self):
        gc.disable()
        self.loop = seconds_of_a_loop()
        self.begun = time.process_time()
        return self

    def __exit__(self, *_):
        seconds = time.process_time() - self.begun
        gc.enable()
        assert seconds < MOST_LOOPS * max(self.loop, seconds_of_a_loop())


def server(service=None):
    app = express(App())
    app.use(json_bodies()).configure(rest())
    app.use("records", service or MemoryService(start_id=1, multi=True))
    return app.use(error_handler(logger=None))


async def quickly(app, verb, url, body=b""):
    headers = {"content-type": "application/json"} if body else {}
    with Stopwatch():
        return await call(app, verb, url, body, headers)


def filled(before, item, after):
    count = (MEGABYTE - len(before) - len(after)) // (len(item) + 1)
    return (before + ",".join([item] * count) + after).encode()


NAMES = "?" + "&".join(f"$select[]=a.x{number}" for number in range(990))
ITEMS = json.dumps({"a": [{"b": [1, 1]}] * (MAX_CONTAINERS // 2 - 1)}).encode()
WIDE = json.dumps({"a": [{f"x{number}": 1 for number in range(9)}] * 10_000}).encode()


class TestSelect:
    @pytest.mark.parametrize("body", [ITEMS, WIDE], ids=["items", "wide"])
    async def test_takes_no_product_of_names_and_elements(self, body):
        answer = await quickly(server(), "POST", f"/records{NAMES}", body)
        assert answer.status == 201
        assert len(answer.json["a"]) == len(json.loads(body)["a"])

    async def test_of_many_records(self):
        service = MemoryService([{"id": number} for number in range(5000)])
        answer = await quickly(server(service), "GET", f"/records{NAMES.replace('a.', '')}")
        assert len(answer.json) == 5000


SORTS = {
    "rows": [f"a.b.c.{number}" for number in range(30)],
    "one row": ["a.b.c"],
    "lists": ["a"],
    "objects": ["a.0", "a.1", "a.2"],
}


@pytest.fixture(scope="module")
def nested_lists():
    record = {"a": [{"b": [{"c": [number]} for number in range(20)]}] * 500}
    return MemoryService([{"id": number, **record} for number in range(10)])


class TestSort:
    @pytest.mark.parametrize("names", SORTS.values(), ids=SORTS)
    async def test_is_answered_or_refused_in_time(self, nested_lists, names):
        url = "/records?$select[]=id&" + "&".join(f"$sort[{name}]=1" for name in names)
        answer = await quickly(server(nested_lists), "GET", url)
        assert answer.status in (200, 400)
        if len(names) == 30:
            assert "too many fields in $sort" in answer.json["message"]

    async def test_of_the_application_itself_has_no_limit(self, nested_lists):
        sort = dict.fromkeys(SORTS["rows"][:2], 1)
        assert len(await nested_lists.find({"query": {"$sort": sort}})) == 10

    async def test_of_what_people_have_is_answered(self):
        people = [{"id": n, "tags": ["a", "b"], "by": [{"at": n % 7}] * 3} for n in range(5000)]
        app = server(MemoryService(people, paginate={"default": 1}))
        for name in ("id", "tags", "by.at", "absent", "by.0.at"):
            answer = await quickly(app, "GET", f"/records?$sort[{name}]=-1&$sort[n]=1")
            assert answer.status == 200

    @pytest.mark.parametrize(
        ("record", "names", "steps"),
        [
            ({"a": 1}, ["a"], 1),
            ({"a": 1}, ["b"], 5),
            ({"a": [1, 2, 3]}, ["a"], 1 + 4 + 16),
            ({"a": {"b": [1]}}, ["a"], 1 + 4 + 8 + 8),
            ({"a": [{"b": 1}, {"b": 2}]}, ["a.b"], 1 + 4 + 2 * 16),
            ({"a": [{"b": 1, "c": [3]}] * 2}, ["a.b", "a.c"], 2 + 4 * 16 + 2 * 16),
        ],
    )
    def test_counts_every_key(self, record, names, steps):
        budget = Budget(MAX_STEPS)
        ordered([record], [(name, 1) for name in names], budget)
        assert MAX_STEPS - budget.steps_left == steps


async def test_one_patch_of_very_many_records_is_refused_before_anything_is_changed():
    service = MemoryService([{"id": number} for number in range(2000)], multi=True)
    body = json.dumps({f"k{number}": number for number in range(1000)}).encode()
    answer = await quickly(server(service), "PATCH", "/records", body)
    assert answer.status == 400
    assert await service.get(0) == {"id": 0}
    assert (await quickly(server(service), "PATCH", "/records/0", body)).status == 200
    assert (await quickly(server(service), "PATCH", "/records", b'{"a":{"b":[1]}}')).status == 200


NAMES_WITH_DOTS = {
    "items of one list": (json.dumps({f"list.{number}": 1 for number in range(60_000)}), 200),
    "very many levels": (json.dumps({"a." * 500_000 + "a": 1}), 400),
}


@pytest.mark.parametrize(("body", "status"), NAMES_WITH_DOTS.values(), ids=NAMES_WITH_DOTS)
async def test_a_patch_by_names_with_dots(body, status):
    service = MemoryService([{"list": []}], dotted_names=True)
    answer = await quickly(server(service), "PATCH", "/records/0", body.encode())
    assert answer.status == status


SHAPES = {
    "lists": ('{"a":[', "[]", "]}"),
    "objects": ('{"a":[', '{"a":1}', "]}"),
    "nested": ('{"a":[', "[" * 90 + "]" * 90, "]}"),
    "records": ("[", "{}", "]"),
    "numbers": ('{"a":[', "1", "]}"),
    "large numbers": ('{"a":[', "1" * 30, "]}"),
    "fractions": ('{"a":[', "1e-308", "]}"),
    "strings": ('{"a":[', '""', "]}"),
    "brackets": ('{"a":"', "[[{{", '"}'),
    "quotes that never end": ('{"a":["', '\\"[', ""),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_a_body_of_a_megabyte(shape):
    answer = await quickly(server(), "POST", "/records", filled(*shape))
    assert answer.status in (201, 400)


class TestContainers:
    async def test_a_body_may_hold_so_many(self):
        body = b'{"a":[' + b",".join([b"[]"] * (MAX_CONTAINERS - 2)) + b"]}"
        assert (await quickly(server(), "POST", "/records", body)).status == 201
        answer = await quickly(server(), "POST", "/records", body.replace(b"[[]", b"[[],[]"))
        assert answer.status == 400
        assert f"more than {MAX_CONTAINERS} objects and lists" in answer.json["message"]

    async def test_brackets_in_strings_count_for_nothing(self):
        body = json.dumps({"a": '[{"\\' * MAX_CONTAINERS}).encode()
        assert (await quickly(server(), "POST", "/records", body)).status == 201

    async def test_a_parser_can_take_more_or_fewer(self):
        for most, status in ((3, 201), (2, 400)):
            app = express(App())
            app.use(json_bodies(max_containers=most)).configure(rest())
            app.use("records", MemoryService())
            app.use(error_handler(logger=None))
            answer = await call(
                app, "POST", "/records", b'{"a":[[]]}', {"content-type": "application/json"}
            )
            assert answer.status == status

    @pytest.mark.parametrize("given", [0, -1, None, "5", True])
    def test_a_number_from_1_on(self, given):
        with pytest.raises(ValueError, match="max_containers"):
            json_bodies(max_containers=given)


class TestIntegersOfOneHash:
    NUMBERS: ClassVar = [number * MODULUS for number in range(1, 20_000)]

    async def test_are_refused_in_a_body(self):
        body = json.dumps({"a": self.NUMBERS}).encode()
        answer = await quickly(server(), "POST", "/records", body)
        assert answer.status == 400
        assert "of one hash" in answer.json["message"]

    async def test_a_few_are_taken_and_stay_exact(self):
        numbers = self.NUMBERS[:MAX_INTEGERS_OF_ONE_HASH] + [-(10**40)] * 1000 + [10**39 + 1]
        app = server()
        body = json.dumps({"a": numbers}).encode()
        assert (await quickly(app, "POST", "/records", body)).json["a"] == numbers

    @pytest.mark.parametrize(
        "change", [int, lambda n: {"x": n}, lambda n: [n], lambda n: {"a": [{"b": n}]}]
    )
    def test_are_distinguished_quickly(self, change):
        validator = Validator({"type": "array", "uniqueItems": True})
        values = [*map(change, self.NUMBERS)]
        with Stopwatch():
            assert validator.validate(values) is values
        with Stopwatch(), pytest.raises(BadRequest) as caught:
            validator.validate([*values, values[0]])
        assert caught.value.data[0]["params"] == {"i": len(values), "j": 0}

    @pytest.mark.parametrize(
        ("kind", "text"),
        [(int, str), (Decimal, lambda n: f"{n}.0"), (UUID, lambda n: str(UUID(int=n)))],
    )
    def test_in_texts_of_which_a_model_makes_a_set(self, kind, text):
        model = create_model("Model", a=(set[kind], ...), b=(dict[kind, int], {}))
        values = [*map(text, self.NUMBERS)]
        validator = get_validator(model)
        for data in ({"a": values}, {"a": [], "b": dict.fromkeys(values, 1)}):
            with Stopwatch(), pytest.raises(BadRequest, match="of one hash"):
                validator.validate(data)
        assert validator.validate({"a": values[:50] + [text(10**12)] * 2000})
        assert validator.validate({"a": [text(n + 10**12) for n in range(2000)]})


TREE = {
    "$defs": {
        "tree": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": kind}, "below": {"$ref": "#/$defs/tree"}},
                    "required": ["kind"],
                }
                for kind in "ab"
            ]
        }
    },
    "$ref": "#/$defs/tree",
}


def tree_of(depth, kind="b", last="c"):
    value = {"kind": last}
    for _ in range(depth):
        value = {"kind": kind, "below": value}
    return value


class TestChecks:
    def test_branches_that_double_with_every_level(self):
        with Stopwatch(), pytest.raises(BadRequest, match="takes too long to check"):
            Validator(TREE).validate(tree_of(60))
        assert Validator(TREE).is_valid(tree_of(8, last="a"))
        assert Validator(TREE).is_valid(tree_of(60, kind="a", last="a"))

    def test_references_to_very_many_values_are_followed(self):
        schema = {"$defs": {"n": {"type": "object", "properties": {"in": {"$ref": "#/$defs/n"}}}}}
        schema |= {"type": "array", "items": {"$ref": "#/$defs/n"}}
        value = [{"in": {"in": {}}} for _ in range(15_000)]
        assert Validator(schema).validate(value) is value

    PATTERNS = (
        r"\p{L}" * 1600,
        "[" + r"\p{L}" * 1600 + "]",
        r"\p{L}" * 190,
        "(" * 4000 + ")" * 4000,
        "(" * 490 + ")" * 490,
        "(?i)" + "[\x01-\U0010ffff]" * 100,
        "[\x01-\U0010ffff]" * 200,
        "(?:a|b){0,9}" * 80,
    )

    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_the_format_of_regular_expressions(self, pattern):
        with Stopwatch():
            Validator({"format": "regex"}).is_valid(pattern)

    @pytest.mark.parametrize("pattern", ["[a-z]x%d", r"\p{L}%d", "a%d"])
    def test_very_many_regular_expressions(self, pattern):
        validator = Validator({"items": {"format": "regex"}})
        with Stopwatch(), pytest.raises(BadRequest, match="takes too long to check"):
            validator.validate([pattern % number for number in range(60_000)])
        validator.validate([pattern % number for number in range(100)])

    @pytest.mark.parametrize(
        ("pattern", "valid"),
        [
            (r"^\p{Lu}[\p{L}\d]+$", True),
            (r"\p{Nothing}", False),
            ("(?i)a", False),
            ("(?P<a>x)", False),
            (r"\(?i", True),
            (r"\\(?i)", False),
            ("(?<year>[0-9]{4})(?=x)(?!y)(?:z)(?<=a)", True),
            ("a" * 1000, True),
            ("a" * 1001, False),
        ],
    )
    def test_which_of_them_are_valid(self, pattern, valid):
        assert Validator({"format": "regex"}).is_valid(pattern) is valid

    def test_what_is_refused_counts_for_the_next_check_in_nothing(self):
        validator = Validator({"items": {"format": "regex"}})
        for _ in range(3):
            with pytest.raises(BadRequest, match="takes too long"):
                validator.validate([f"{number}" for number in range(9000)])
            validator.validate(["a"] * 100)

    SCHEMAS = (
        {"items": {"multipleOf": 0.01}},
        {"items": {"multipleOf": 7}},
        {"items": {"type": "integer"}},
        {"items": {"enum": [1, "x"]}},
        {"items": {"anyOf": [{"type": "null"}, {"const": 5}]}},
        {"contains": {"type": "null"}},
        {"uniqueItems": True},
    )

    @pytest.mark.parametrize("schema", SCHEMAS, ids=str)
    @pytest.mark.parametrize("item", [1e-308, 1e308, 3, 2**70, "x", True], ids=str)
    def test_a_list_of_a_megabyte(self, schema, item):
        value = [item] * (MEGABYTE // (len(str(item)) + 1))
        with Stopwatch():
            get_validator(schema).is_valid(value)

    @pytest.mark.parametrize(
        "schema",
        [
            {"additionalProperties": False},
            {"additionalProperties": {"type": "null"}},
            {"propertyNames": {"maxLength": 1}},
            {"patternProperties": {"^k": {"type": "null"}}},
        ],
        ids=str,
    )
    def test_failures_beyond_those_reported_cost_nothing(self, schema):
        with Stopwatch(), pytest.raises(BadRequest) as caught:
            Validator(schema).validate({f"k{number}": 1 for number in range(90_000)})
        assert len(caught.value.data) == 1000


@pytest.fixture(scope="module")
def short_lists():
    words = [f"word {number}" for number in range(490)]
    record = {"words": words, "objects": [{"a": word} for word in words]}
    return MemoryService([{"id": number, **record} for number in range(1000)])


@pytest.mark.parametrize("field", ["words", "objects.a"])
@pytest.mark.parametrize("count", [5, 20, 50])
async def test_short_lists_of_many_records(short_lists, field, count):
    conditions = "&".join(f"$or[{number}][{field}][$gt]=x{number}" for number in range(count))
    answer = await quickly(server(short_lists), "GET", f"/records?{conditions}")
    assert answer.status == 400
    assert "too many conditions for these records" in answer.json["message"]


@pytest.mark.parametrize("kind", [str, bool, dict])
@pytest.mark.parametrize("count", [MOST_COUNTED, 400_000])
def test_pydantic_is_asked_for_so_many_failures(kind, count):
    checker = get_validator(create_model("Model", a=(list[kind], ...)))
    with Stopwatch(), pytest.raises(BadRequest) as caught:
        checker.validate({"a": [7.5] * count})
    if count > MOST_COUNTED:
        assert "too many failures" in caught.value.message
    else:
        assert len(caught.value.data) == 1000


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"multipleOf": 2}}])
async def test_over_http_too(schema):
    service = with_schema(MemoryService(), {"type": "object", "properties": {"a": schema}})
    answer = await quickly(server(service), "POST", "/records", filled('{"a":[', "3", "]}"))
    assert answer.status == 400
    assert len(answer.json["data"]) == 1000


@pytest.mark.parametrize("path", ["/" + "%" * 64_000, "/" + "%41" * 21_000, "/" + "%41/" * 16_000])
async def test_a_long_path_that_every_route_looks_at(path):
    app = server()
    for number in range(500):
        app.get(f"/page{number}/:id", lambda req, res: res.end())
    assert (await quickly(app, "GET", path)).status == 404


def test_a_path_of_more_segments_than_any_service_has():
    routes = RouteTable()
    routes.add("users/:id/posts", 1)
    with Stopwatch():
        for _ in range(300):
            assert routes.find("/%41" * 16_000) is None


async def test_folders_of_a_path_that_no_system_has(tmp_path):
    app = express().use(serve_static(tmp_path))
    with Stopwatch():
        for _ in range(20):
            assert (await call(app, "GET", "/" + "a/" * 30_000)).status == 404
