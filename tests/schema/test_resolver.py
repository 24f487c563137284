"""Resolvers: every property of every record, all at once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.errors import BadRequest, Forbidden, NotFound
from alula.schema.properties import virtual
from alula.schema.resolver import Resolver, resolve
from alula.types import UNSET


async def later(value):
    await asyncio.sleep(0)
    return value


async def test_resolves_and_keeps_the_rest():
    resolver = resolve({"name": lambda name: name.upper(), "size": virtual(len)})
    record = {"id": 1, "name": "ada", "more": [1]}
    assert await resolver.resolve(record) == {"id": 1, "name": "ADA", "more": [1], "size": 3}
    assert record == {"id": 1, "name": "ada", "more": [1]}


async def test_keeps_the_order_of_the_record_also_for_what_comes_late():
    resolver = resolve({"last": lambda: 3, "b": later, "a": lambda: 1})
    assert list(await resolver.resolve({"a": 0, "b": 0, "c": 0})) == ["a", "b", "c", "last"]


async def test_unset_removes_and_stands_for_what_is_not_there():
    seen = []
    resolver = resolve(
        {
            "password": lambda: UNSET,
            "late": lambda: later(UNSET),
            "absent": lambda value: seen.append(value) or value,
            "null": lambda: None,
        }
    )
    assert await resolver.resolve({"password": "x", "late": "x", "id": 1}) == {
        "id": 1,
        "null": None,
    }
    assert seen == [UNSET]


async def test_functions_get_the_record_as_it_came_and_the_context():
    resolver = resolve({"a": lambda: 2, "b": lambda _, record, context: (record["a"], context)})
    assert await resolver.resolve({"a": 1}, "context") == {"a": 2, "b": (1, "context")}


async def test_only_what_is_named_is_resolved():
    resolver = resolve({"a": lambda: 2, "b": lambda: 2, "c": virtual(lambda: 2)})
    assert await resolver.resolve({"a": 1, "b": 1}, names=["b", "id"]) == {"a": 1, "b": 2}


async def test_what_is_no_record_stays():
    assert await resolve({"a": lambda: 1}).resolve_many([3, None, {}]) == [3, None, {"a": 1}]


async def test_all_properties_of_all_records_are_under_way_at_the_same_time():
    begun = []
    gate = asyncio.Event()

    async def wait(value, record):
        begun.append(record["id"])
        if len(begun) == 6:
            gate.set()
        await gate.wait()
        return value

    resolver = resolve({"a": wait, "b": wait})
    records = [{"id": n, "a": n, "b": -n} for n in range(3)]
    async with asyncio.timeout(5):
        assert await resolver.resolve_many(records) == records
    assert sorted(begun) == [0, 0, 1, 1, 2, 2]


async def test_faults_are_shown_by_property_for_the_first_record_that_has_any():
    async def missing():
        await asyncio.sleep(0)
        raise NotFound("no user")

    def forbidden(value):
        if value == "bad":
            raise Forbidden("not you", {"a": 1})
        return value

    resolver = resolve({"user": missing, "name": forbidden, "ok": lambda: 1})
    with pytest.raises(BadRequest, match=r"^Error resolving data$") as caught:
        await resolver.resolve_many([{"name": "bad"}, {"name": "good"}])
    assert set(caught.value.data) == {"user", "name"}
    assert caught.value.data["user"] == NotFound("no user").to_dict()
    assert caught.value.data["name"]["data"] == {"a": 1}
    assert isinstance(caught.value.__cause__, Forbidden)


async def test_properties_called_message_and_errors_are_shown_too():
    def refuse():
        raise NotFound("no")

    with pytest.raises(BadRequest) as caught:
        await resolve({"message": refuse, "errors": refuse}).resolve({})
    assert set(caught.value.data) == {"message", "errors"}
    assert caught.value.message == "Error resolving data"


async def test_the_first_record_counts_where_a_later_one_fails_sooner():
    async def slow(value):
        await asyncio.sleep(0)
        raise NotFound(value)

    def quick(value):
        raise NotFound(value)

    resolver = resolve({"user": lambda value: slow(value) if value == "first" else quick(value)})
    with pytest.raises(BadRequest) as caught:
        await resolver.resolve_many([{"user": "first"}, {"user": "second"}])
    assert caught.value.data["user"]["message"] == "first"


@pytest.mark.parametrize("waits", [False, True])
async def test_what_nobody_expects_is_raised_as_it_is_and_says_where(waits):
    async def fail():
        if waits:
            await asyncio.sleep(0)
        raise KeyError("secret")

    def refuse():
        raise NotFound("no")

    with pytest.raises(KeyError, match="secret") as caught:
        await resolve({"name": refuse, "size": fail, "other": lambda: later(1)}).resolve({})
    assert caught.value.__notes__ == ["raised by the resolver of the property 'size'"]


async def test_faults_may_be_of_other_kinds():
    def refuse(value):
        raise ValueError(f"{value} is no date")

    resolver = resolve({"at": refuse})
    with pytest.raises(ValueError, match="x is no date"):
        await resolver.resolve({"at": "x"})
    with pytest.raises(BadRequest) as caught:
        await resolver.resolve({"at": "x"}, faults=(ValueError,))
    assert caught.value.data == {"at": {"message": "x is no date"}}


async def test_a_call_that_is_cancelled_ends_what_it_began():
    begun, ended = [], []

    async def wait(value):
        begun.append(value)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(value)

    resolver = resolve({"a": wait, "b": wait})
    task = asyncio.ensure_future(resolver.resolve({"a": 1, "b": 2}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun == [1, 2]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [1, 2]


async def test_a_cancellation_within_is_no_fault():
    async def cancelled():
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await resolve({"a": cancelled, "b": cancelled}).resolve({})


names = st.sampled_from(["a", "b", "c"])
values = st.one_of(st.integers(), st.just(UNSET))


@given(
    st.lists(st.dictionaries(names, st.integers())), st.dictionaries(names, values), st.booleans()
)
def test_many_records_are_resolved_as_each_alone(records, outcomes, waits):
    async def compare():
        resolver = resolve(
            {
                name: (lambda outcome=outcome: later(outcome))
                if waits
                else (lambda outcome=outcome: outcome)
                for name, outcome in outcomes.items()
            }
        )
        together = await resolver.resolve_many(records)
        kept = {name: value for name, value in outcomes.items() if value is not UNSET}
        for record, resolved in zip(records, together, strict=True):
            assert resolved == await resolver.resolve(record)
            rest = {name: value for name, value in record.items() if name not in outcomes}
            assert resolved == {**rest, **kept}

    asyncio.run(compare())


@pytest.mark.parametrize("properties", [None, [("a", len)], "a"])
def test_says_what_is_no_mapping(properties):
    with pytest.raises(TypeError, match="resolve takes a mapping of properties to functions"):
        resolve(properties)


def test_says_what_is_no_name_and_no_function():
    with pytest.raises(TypeError, match="3 is no name of a property"):
        resolve({3: lambda: 1})
    with pytest.raises(TypeError, match="the resolver of 'a' is 'text'"):
        resolve({"a": "text"})


def test_knows_its_names():
    resolver = resolve({"a": lambda: 1, "b": virtual(lambda: 1)})
    assert resolver.names == ("a", "b")
    assert resolver.virtual_names == {"b"}


def test_finds_a_name_that_can_not_be():
    properties = {"passwrod": lambda: UNSET, "size": virtual(lambda: 1)}
    with pytest.raises(ValueError, match=r"'passwrod'.*did you mean 'password'\?.*virtual"):
        Resolver(properties, ["id", "password"])
    with pytest.raises(ValueError, match=r"no such property: id, at\. A computed"):
        Resolver(properties, ["id", "at"])
    assert Resolver({"id": lambda: 1, "size": virtual(lambda: 1)}, ["id"]).names == ("id", "size")


class Makes:
    def __call__(self, value):
        return value

    def reads(self, value):
        return value

    def ignores(self, value, record):
        return record


def reads_inside(value):
    return lambda: value


def reads_two(value, record):
    return value + record


async def waits(_value, _record, context):
    return await later(context)


def sets(value):
    value = 5
    return [value]


def takes_all(*values):
    return values


@pytest.mark.parametrize(
    ("function", "needs"),
    [
        (lambda: 5, False),
        (lambda _value, record: record, False),
        (waits, False),
        (virtual(lambda record: record), False),
        (virtual(len), False),
        (Makes().ignores, False),
        (lambda *, value=1: value, False),
        (lambda value, record: record["value"], False),
        (lambda real, record: record.real, False),
        (lambda value: value, True),
        (lambda value, record, context: context or value, True),
        (reads_inside, True),
        (reads_two, True),
        (later, True),
        (sets, True),
        (takes_all, True),
        (Makes().reads, True),
        (Makes(), True),
        (int, True),
    ],
)
def test_knows_which_functions_need_a_value(function, needs):
    assert resolve({"a": function}).made_names == (set() if needs else {"a"})


def unset_or(value):
    return value or UNSET


async def unset_late():
    return UNSET


def shadowed():
    nothing = UNSET
    return nothing or UNSET


OTHER = None


@pytest.mark.parametrize(
    ("function", "hides"),
    [
        (lambda: UNSET, True),
        (lambda _value, _record, _context: UNSET, True),
        (Makes().__call__, False),
        (lambda: OTHER, False),
        (lambda: None, False),
        (unset_or, False),
        (unset_late, False),
        (shadowed, False),
        (virtual(lambda: UNSET), False),
        (int, False),
    ],
)
def test_knows_which_functions_hide_in_any_case(function, hides):
    assert resolve({"a": function}).hidden_names == ({"a"} if hides else set())
