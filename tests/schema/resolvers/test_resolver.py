"""Resolvers: every property of every record, all at once."""

from __future__ import annotations

import asyncio
import contextvars
import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.errors import (
    BadGateway,
    BadRequest,
    Forbidden,
    NotFound,
    Timeout,
    TooManyRequests,
    Unavailable,
)
from alula.schema import hidden, virtual
from alula.schema._resolvers.resolver import Resolver, resolve
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
    async with asyncio.timeout(30):
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


@pytest.mark.parametrize("error", [Unavailable, TooManyRequests, Timeout, BadGateway])
async def test_what_other_data_would_not_help_is_raised_as_it_is(error):
    def fail():
        raise error("later")

    def refuse():
        raise NotFound("no")

    with pytest.raises(error) as caught:
        await resolve({"user": refuse, "password": fail}).resolve({})
    assert caught.value.message == "later"


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
async def test_unexpected_errors_are_raised_with_a_note_of_the_property(waits):
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
def test_what_is_not_a_mapping_is_refused(properties):
    with pytest.raises(TypeError, match="resolve takes a mapping of properties"):
        resolve(properties)


def test_invalid_names_and_functions_are_refused():
    with pytest.raises(TypeError, match="3 is not the name"):
        resolve({3: lambda: 1})
    with pytest.raises(TypeError, match="the resolver of 'a' is 'text'"):
        resolve({"a": "text"})
    with pytest.raises(TypeError, match="'create' is a resolver; resolvers by method"):
        resolve({"create": resolve({"a": lambda: 1})})


def test_knows_its_names():
    resolver = resolve({"a": lambda: UNSET, "b": virtual(lambda: 1), "c": hidden, "d": str})
    assert resolver.names == ("a", "b", "c", "d")
    assert resolver.virtual_names == {"b"}
    assert resolver.made_names == {"a", "b", "c"}
    assert resolver.hidden_names == {"c"}


def test_finds_a_name_that_cannot_be():
    properties = {"passwrod": lambda: UNSET, "size": virtual(lambda: 1)}
    with pytest.raises(ValueError, match=r"'passwrod'.*virtual.*did you mean 'password'\?"):
        Resolver(properties, ["id", "password"])
    with pytest.raises(ValueError, match=r"no such property .*; it has id, at$"):
        Resolver(properties, ["id", "at"])
    assert Resolver({"id": lambda: 1, "size": virtual(lambda: 1)}, ["id"]).names == ("id", "size")


async def test_what_never_waits_takes_no_task():
    tasks = set()

    async def plain(value):
        tasks.add(asyncio.current_task())
        return value + 1

    @functools.wraps(plain)
    async def decorated(*given):
        return await plain(*given)

    class Callable:
        async def __call__(self, value):
            return await plain(value)

        async def method(self, value):
            return await plain(value)

    partial = functools.partial(lambda more, value: plain(value), 5)
    functions = {"a": plain, "b": decorated, "c": Callable(), "d": Callable().method, "e": partial}
    records = [dict.fromkeys(functions, number) for number in range(20)]
    assert await resolve(functions).resolve_many(records) == [
        dict.fromkeys(functions, number + 1) for number in range(20)
    ]
    assert tasks == {asyncio.current_task()}


@pytest.mark.parametrize("again", [1, 2])
async def test_what_waits_runs_in_one_task_to_its_end(again):
    """Time limits and context variables belong to the task that has set them."""
    variable = contextvars.ContextVar("variable", default="none")

    async def waits(value):
        token = variable.set(value)
        async with asyncio.timeout(0.01 if value == 1 else 30):
            task = asyncio.current_task()
            try:
                await asyncio.sleep(60 if value == 1 else 0.02)
            except asyncio.CancelledError:
                assert asyncio.current_task() is task
                raise
            assert asyncio.current_task() is task
        variable.reset(token)
        return value

    async def caught(value):
        try:
            return await waits(value)
        except TimeoutError:
            return "late"

    resolver = resolve({"a": caught, "b": caught})
    for _ in range(again):
        assert await resolver.resolve_many([{"a": 0, "b": 1}, {"a": 1, "b": 2}]) == [
            {"a": 0, "b": "late"},
            {"a": "late", "b": 2},
        ]


async def test_what_never_waits_takes_no_task_beside_what_does():
    tasks = []

    async def never(value):
        tasks.append(asyncio.current_task())
        return value

    resolver = resolve({"a": later, "b": never})
    records = [{"a": number, "b": number} for number in range(3)]
    for _ in range(2):
        assert await resolver.resolve_many(records) == records
    assert tasks[-3:] == [asyncio.current_task()] * 3


async def test_awaits_all_that_can_be_awaited():
    class Waits:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return "waited"

    async def future(value):
        made = asyncio.get_running_loop().create_future()
        made.set_result(value)
        return await made

    async def fails(value):
        await asyncio.sleep(0)
        raise BadRequest("no")

    assert await resolve({"a": Waits, "b": future}).resolve({"b": 1}) == {"a": "waited", "b": 1}
    with pytest.raises(BadRequest, match="Error resolving data"):
        await resolve({"a": fails}).resolve({"a": 1})


class TestWhatIsRequired:
    async def test_has_to_be_there_in_the_end(self):
        resolver = resolve({"a": lambda: 1, "b": lambda b: b, "c": lambda c: c.upper()})
        records = [{"b": 2, "c": "x"}, {"b": 2}, {}]
        with pytest.raises(BadRequest, match="validation failed") as caught:
            await resolver.resolve_many(records, required=["a", "b", "c"])
        assert [each["params"]["missingProperty"] for each in caught.value.data] == ["c", "b", "c"]
        assert isinstance(caught.value.__cause__, AttributeError)
        assert await resolver.resolve_many(records[:1], required=["a", "b", "c"]) == [
            {"a": 1, "b": 2, "c": "X"}
        ]

    async def test_late_as_well(self):
        async def late(value):
            await asyncio.sleep(0)
            return value.upper()

        with pytest.raises(BadRequest) as caught:
            await resolve({"a": late, "b": late}).resolve({"b": "x"}, required=["a", "b"])
        assert [each["params"]["missingProperty"] for each in caught.value.data] == ["a"]

    async def test_errors_of_the_program_are_raised(self):
        async def program(value, record, context):
            return context["user"]

        for record in ({"a": 1}, {}):
            resolver = resolve({"a": program, "b": lambda: {}["x"]})
            with pytest.raises((TypeError, KeyError)):
                await resolver.resolve(record, None, required=["a"])
        with pytest.raises(ZeroDivisionError):
            await resolve({"a": lambda a: 1 / 0}).resolve({}, None, required=["a"])
