from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextvars import ContextVar
from random import Random

import pytest
from tests.waiting import eventually

from alula.adapters import _batching as batching
from alula.adapters._batching import ALONE, MAX_BATCH, Batcher, ChangesInTurn, one_for_each

TENANT: ContextVar[str] = ContextVar("TENANT", default="nobody")


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Let no pause of a busy machine look like a query that hangs."""
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 1000)


class Store:
    """Answers each batch when it is told to, and keeps what it was asked."""

    def __init__(
        self, *, at_once: bool = False, side_by_side: int = 1, evenly: bool = False
    ) -> None:
        self.batches: list[list[object]] = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.left = 0
        self.error: Exception | None = None
        self.batcher: Batcher[object, object] = Batcher(
            self.load_many, self.leave, side_by_side, evenly=evenly
        )
        if at_once:
            self.gate.set()

    def ask(self, question: object) -> asyncio.Task[object]:
        return asyncio.ensure_future(self.batcher.load(question))

    async def sent(self, number: int) -> None:
        while len(self.batches) < number:
            self.asked.clear()
            await self.asked.wait()

    def leave(self) -> None:
        self.left += 1

    async def load_many(self, questions: list[object]) -> list[object]:
        self.batches.append(questions)
        self.asked.set()
        await self.gate.wait()
        if self.error:
            error, self.error = self.error, None
            raise error
        return [
            question if isinstance(question, Exception) else f"answer to {question}"
            for question in questions
        ]


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_those_of_one_turn_go_together():
    store = Store(at_once=True)
    answers = await asyncio.gather(*(store.ask(n) for n in range(5)))
    assert answers == [f"answer to {n}" for n in range(5)]
    assert store.batches == [[0, 1, 2, 3, 4]]
    assert store.left == 1


async def test_one_alone_is_asked_when_its_turn_is_over():
    store = Store()
    store.ask("a")
    await turns(2)
    assert store.batches == [["a"]]
    store.gate.set()
    await turns()
    assert store.left == 1


async def test_who_comes_later_never_joins_a_query_under_way_but_shares_the_next():
    store = Store()
    first = store.ask("a")
    await turns()
    later = [store.ask("b"), store.ask("c")]
    await turns()
    assert store.batches == [["a"]]
    store.gate.set()
    assert [await first, *[await each for each in later]] == [
        "answer to a",
        "answer to b",
        "answer to c",
    ]
    assert store.batches == [["a"], ["b", "c"]]
    assert store.left == 1


async def test_while_one_is_under_way_those_of_a_later_turn_have_another():
    store = Store(side_by_side=2)
    for batch in ["a", "b"], ["c", "d"]:
        for question in batch:
            store.ask(question)
        await turns()
    store.ask("e")
    await turns()
    assert store.batches == [["a", "b"], ["c", "d"]]  # and the next one waits for either
    store.gate.set()
    await turns()
    assert store.batches[2:] == [["e"]]
    assert store.left == 1


async def test_what_an_idle_batcher_gathers_goes_as_one_and_what_waits_is_dealt_out():
    store = Store(side_by_side=2)
    for number in 40, 10, 40:
        for n in range(number):
            store.ask(n)
        await turns()
    assert [len(batch) for batch in store.batches] == [40, 10]
    store.gate.set()
    await turns()
    assert [len(batch) for batch in store.batches] == [40, 10, 20, 16, 4]
    assert store.left == 1


async def test_who_came_before_all_that_is_under_way_was_sent_goes_next():
    store = Store(side_by_side=2)
    for number in 40, 40:
        for n in range(number):
            store.ask(n)
        await turns()
    assert [len(batch) for batch in store.batches] == [40, 20]  # dealt out: 20 wait for the first
    store.gate.set()
    await turns()
    assert [len(batch) for batch in store.batches] == [40, 20, 20]
    assert store.left == 1


async def come(store, number):
    """Let so many callers come in one turn."""
    answers = [store.ask(n) for n in range(number)]
    await turns()
    return answers


def sizes(store):
    return [len(batch) for batch in store.batches]


async def test_evenly_a_query_is_sent_beside_others_with_its_share_only():
    store = Store(side_by_side=3, evenly=True)
    await come(store, 10)
    await come(store, 4)
    assert sizes(store) == [10]
    await come(store, 1)
    assert sizes(store) == [10, 5]  # the second of two that the ten have room for beside them
    await come(store, 7)
    assert sizes(store) == [10, 5]
    await come(store, 3)
    assert sizes(store) == [10, 5, 10]
    store.gate.set()
    await turns()
    assert store.left == 1


async def test_evenly_fewer_wait_until_one_of_the_others_has_ended():
    store = Store(side_by_side=3, evenly=True)
    gates = []
    for number in 10, 5:
        await come(store, number)
        gates.append(store.gate)
        store.gate = asyncio.Event()
    late = await come(store, 3)
    assert sizes(store) == [10, 5]
    gates[0].set()  # five are under way, whose share is three
    await turns()
    assert sizes(store) == [10, 5, 3]
    later = await come(store, 2)
    gates[1].set()  # three are under way
    await turns()
    assert sizes(store) == [10, 5, 3, 2]
    store.gate.set()
    assert len(await asyncio.gather(*late, *later)) == 5
    await turns()
    assert store.left == 1


async def test_evenly_those_that_are_too_few_wait_for_a_query_to_end_and_for_no_other():
    store = Store(side_by_side=2, evenly=True)
    await come(store, 10)
    first, store.gate = store.gate, asyncio.Event()
    await come(store, 10)
    await come(store, 2)
    first.set()
    await turns()
    assert sizes(store) == [10, 10]  # the second one was under way when they came, too
    store.gate.set()
    await turns()
    assert sizes(store) == [10, 10, 2]
    assert store.left == 1


async def test_evenly_one_whose_company_has_gone_waits_with_its_key():
    """It completed the share, and in the same turn a query has ended and taken the others."""
    store = Store(side_by_side=3, evenly=True)
    await come(store, 10)
    first, store.gate = store.gate, asyncio.Event()
    await come(store, 10)
    second, store.gate = store.gate, asyncio.Event()
    await come(store, 9)
    first.set()
    second.set()
    last = store.ask("last")
    await turns()
    assert sizes(store) == [10, 10, 9]
    store.gate.set()
    assert await last == "answer to last"
    assert sizes(store) == [10, 10, 9, 1]


async def test_evenly_the_waiting_keep_the_order_in_which_they_came():
    """One comes in the turn in which another gathers, after a query has taken those that waited."""
    store = Store(side_by_side=3, evenly=True)
    await come(store, 10)
    first, store.gate = store.gate, asyncio.Event()
    await come(store, 10)
    await come(store, 9)
    later: list[asyncio.Task[object]] = []

    def end_the_first() -> None:
        first.set()
        later.append(store.ask("later"))

    asyncio.get_running_loop().call_soon(end_the_first)
    gathers = store.ask("gathers")
    await turns(3)
    assert sizes(store) == [10, 10, 9]
    assert [caller.key for caller in store.batcher._waiting] == ["gathers", "later"]
    store.gate.set()
    assert len(await asyncio.gather(gathers, *later)) == 2


async def test_evenly_those_that_are_too_few_do_not_wait_for_one_that_hangs(monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 1)
    store = Store(side_by_side=3, evenly=True)
    await come(store, 10)
    late = await come(store, 2)
    assert sizes(store) == [10]
    await store.sent(2)
    assert sizes(store) == [10, 2]
    store.gate.set()
    assert len(await asyncio.gather(*late)) == 2


@pytest.mark.parametrize("evenly", [False, True])
async def test_nobody_waits_for_a_query_that_was_sent_after_it_came(evenly):
    chance = Random(17)
    gates: list[asyncio.Event] = []
    sent: dict[int, int] = {}  # the number of a caller's query by the caller
    came: dict[int, set[int]] = {}  # what was under way when it came

    async def load_many(callers: list[int]) -> list[int]:
        gate = asyncio.Event()
        sent.update(dict.fromkeys(callers, len(gates)))
        gates.append(gate)
        await gate.wait()
        return callers

    batcher: Batcher[int, int] = Batcher(load_many, lambda: None, concurrency=4, evenly=evenly)
    calls = []
    for _ in range(500):
        under_way = {number for number, gate in enumerate(gates) if not gate.is_set()}
        if chance.random() < 0.5:
            for _ in range(chance.randrange(120)):
                came[len(calls)] = under_way
                calls.append(asyncio.ensure_future(batcher.load(len(calls))))
        elif under_way:
            gates[chance.choice(sorted(under_way))].set()
        await turns(6)
        for caller, earlier in came.items():
            assert caller in sent or any(not gates[number].is_set() for number in earlier)
        came = {caller: earlier for caller, earlier in came.items() if caller not in sent}
    while not all(call.done() for call in calls):
        for gate in gates:
            gate.set()
        await turns()
    assert [await call for call in calls] == list(range(len(calls)))
    assert max(Counter(sent.values()).values()) > batching.MIN_SPLIT


@pytest.mark.parametrize("evenly", [False, True])
@pytest.mark.parametrize("concurrency", [1, 2, 4])
async def test_nobody_waits_longer_than_the_limit(monkeypatch, concurrency, evenly):
    """Virtual time: each step takes 5 ms, a query up to 300."""
    chance, now, limit = Random(concurrency), 0.0, 0.1
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", limit)
    monkeypatch.setattr(batching, "MAX_BATCH", 40)
    monkeypatch.setattr(batching, "time", lambda: now)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    ends: list[tuple[float, asyncio.Event]] = []
    waiting: dict[int, float] = {}

    async def load_many(callers: list[int]) -> list[int]:
        for caller in callers:
            del waiting[caller]
        gate = asyncio.Event()
        ends.append((now + chance.choice([0.001, 0.03, 0.09, 0.3]), gate))
        await gate.wait()
        return callers

    batcher: Batcher[int, int] = Batcher(load_many, lambda: None, concurrency, evenly=evenly)
    calls: list[asyncio.Task[int]] = []
    longest = 0.0
    for step in range(1500):
        for _ in range(chance.randrange(9) if step < 1200 else 0):
            waiting[len(calls)] = now
            calls.append(asyncio.ensure_future(batcher.load(len(calls))))
        await turns(8)
        longest = max(longest, *(now - came for came in waiting.values()), 0.0)
        now += 0.005
        for end, gate in ends:
            if end <= now:
                gate.set()
    assert [await call for call in calls] == list(range(len(calls)))
    assert limit / 2 < longest <= limit + 0.005


async def test_more_than_one_query_takes_are_asked_side_by_side():
    store = Store(side_by_side=2)
    answers = [store.ask(n) for n in range(MAX_BATCH + 100)]
    await turns()
    assert [len(batch) for batch in store.batches] == [MAX_BATCH, 100]
    store.gate.set()
    assert await asyncio.gather(*answers) == [f"answer to {n}" for n in range(MAX_BATCH + 100)]
    assert store.left == 1


async def test_those_that_one_query_cannot_take_do_not_wait_for_it(monkeypatch):
    monkeypatch.setattr(batching, "MAX_BATCH", 3)
    store = Store()
    store.ask("first")
    await turns()
    waits = [store.ask(n) for n in range(8)]
    await turns()
    assert store.batches == [["first"]]
    gate, store.gate = store.gate, asyncio.Event()
    gate.set()
    await turns()
    assert store.batches[1:] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    waits += [store.ask("last")]
    store.gate.set()
    assert await asyncio.gather(*waits)
    assert store.batches[4:] == [["last"]]
    await turns()
    assert store.left == 1


async def test_the_batcher_works_again_after_it_was_idle():
    store = Store(at_once=True)
    assert await store.ask("a") == "answer to a"
    assert await store.ask("b") == "answer to b"
    assert store.left == 2


async def test_one_that_is_asked_in_the_turn_in_which_the_last_answer_comes_is_not_forgotten():
    store = Store(at_once=True)
    answers = []
    for n in range(20):
        future = store.ask(n)
        for _ in range(n % 7):  # at every distance from the end of the query before
            await asyncio.sleep(0)
        answers.append(asyncio.wait_for(future, 30))
    assert await asyncio.gather(*answers) == [f"answer to {n}" for n in range(20)]


async def test_a_failed_query_fails_for_all_that_shared_it_and_for_nobody_else():
    store = Store()
    store.error = OSError("gone")
    shared = [store.ask("a"), store.ask("b")]
    await turns()
    next_one = store.ask("c")
    store.gate.set()
    for future in shared:
        with pytest.raises(OSError, match="gone"):
            await future
    assert await next_one == "answer to c"


async def test_an_error_among_the_answers_reaches_its_own_caller():
    store = Store(at_once=True)
    good, bad = store.ask("a"), store.ask(KeyError("b"))
    with pytest.raises(KeyError, match="b"):
        await bad
    assert await good == "answer to a"


async def test_a_cancelled_caller_hurts_no_other_and_is_not_asked_for():
    store = Store()
    first = store.ask("a")
    await turns()
    gone, stays = store.ask("b"), store.ask("c")
    gone.cancel()
    store.gate.set()
    assert await first == "answer to a"
    assert await stays == "answer to c"
    assert store.batches == [["a"], ["c"]]


async def test_a_caller_cancelled_while_its_query_is_under_way_hurts_no_other():
    store = Store()
    gone, stays = store.ask("a"), store.ask("b")
    await turns()
    gone.cancel()
    store.gate.set()
    assert await stays == "answer to b"


async def test_where_all_were_cancelled_nothing_is_asked():
    store = Store(at_once=True)
    alone = store.ask("a")
    await turns(1)
    alone.cancel()
    await turns()
    assert store.batches == []
    assert store.left == 1


async def test_where_all_that_waited_were_cancelled_nothing_more_is_asked():
    store = Store()
    first = [store.ask("a"), store.ask("b")]
    await turns()
    waiting = [store.ask("c"), store.ask("d")]
    await turns()
    for task in waiting:
        task.cancel()
    store.gate.set()
    assert await asyncio.gather(*first) == ["answer to a", "answer to b"]
    await turns()
    assert store.batches == [["a", "b"]]
    assert store.left == 1


async def test_a_query_takes_no_more_than_its_number(monkeypatch):
    monkeypatch.setattr(batching, "MAX_BATCH", 3)
    store = Store(at_once=True)
    await asyncio.gather(*(store.ask(n) for n in range(7)))
    assert store.batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_query_that_hangs_holds_nobody_up_for_long(monkeypatch):
    store = Store()
    hangs = store.ask("a")
    await turns()
    waits = store.ask("b")
    await turns()
    assert store.batches == [["a"]]
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 0.0001)
    await asyncio.sleep(0.002)
    comes = store.ask("c")
    await turns()
    assert store.batches == [["a"], ["b", "c"]]
    assert store.left == 0
    store.gate.set()
    assert await asyncio.gather(hangs, waits, comes)
    await turns()
    assert store.left == 1


@pytest.mark.parametrize("side_by_side", [1, 2])
async def test_who_waits_for_a_query_that_hangs_needs_nobody_else_to_come(
    monkeypatch, side_by_side
):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 1)
    store = Store(side_by_side=side_by_side)
    for n in range(side_by_side):
        store.ask(n)
        await turns()
    began = time.monotonic()
    waits = [store.ask("a"), store.ask("b")]
    await turns()
    assert store.batches == [[n] for n in range(side_by_side)]
    await store.sent(side_by_side + 1)
    assert 0.9 < time.monotonic() - began < 30
    assert store.batches[-1] == ["a", "b"]
    store.gate.set()
    assert await asyncio.gather(*waits) == ["answer to a", "answer to b"]


async def test_every_query_may_hang(monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 0.02)
    store = Store()
    callers = []
    for n in range(5):
        callers += [store.ask((n, "a")), store.ask((n, "b"))]
        await store.sent(n + 1)
    assert store.batches == [[(n, "a"), (n, "b")] for n in range(5)]
    assert store.left == 0
    store.gate.set()
    await asyncio.gather(*callers)
    await turns()
    assert store.left == 1
    assert store.batcher._timer is None


async def test_all_that_wait_go_past_a_query_that_hangs(monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(batching, "MAX_BATCH", 3)
    store = Store()
    store.ask("hangs")
    await turns()
    waits = [store.ask(n) for n in range(8)]
    await store.sent(4)
    assert store.batches == [["hangs"], [0, 1, 2], [3, 4, 5], [6, 7]]
    later = [store.ask(n) for n in "abcd"]
    await turns()
    store.gate.set()
    assert await asyncio.gather(*waits, *later)
    assert len(store.batches) > 4
    await turns()
    assert store.left == 1


async def test_of_queries_that_went_past_others_no_more_go_on_than_may(monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(batching, "MAX_BATCH", 3)
    store = Store()
    store.ask("hangs")
    await turns()
    waits = [store.ask(n) for n in range(6)]
    await store.sent(3)
    assert store.batches == [["hangs"], [0, 1, 2], [3, 4, 5]]
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 1000)
    waits += [store.ask(n) for n in "abc"]
    await turns()
    gate, store.gate = store.gate, asyncio.Event()
    gate.set()
    await turns(10)
    assert store.batches[3:] == [["a", "b", "c"]]
    waits += [store.ask(n) for n in "de"]
    await turns(10)
    assert len(store.batches) == 4  # one goes on, so these wait for it
    store.gate.set()
    assert await asyncio.gather(*waits)
    assert store.batches[4:] == [["d", "e"]]
    await turns()
    assert store.left == 1


async def test_a_turn_that_takes_long_loses_nobody(monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 0.01)
    store = Store()
    store.ask("hangs")
    await turns()
    waits = [store.ask("a")]
    await turns()
    await asyncio.sleep(0)
    time.sleep(0.03)  # noqa: ASYNC251  # the timer and the next caller come in one turn
    waits += [store.ask("b")]
    await turns()
    time.sleep(0.03)  # noqa: ASYNC251  # holds the loop on purpose
    waits += [store.ask("c")]
    await eventually(lambda: sum(map(len, store.batches)) == 4)
    assert sorted(question for batch in store.batches[1:] for question in batch) == [*"abc"]
    store.gate.set()
    assert await asyncio.gather(*waits) == ["answer to a", "answer to b", "answer to c"]


async def test_the_context_of_a_caller_stays_its_own():
    seen = []

    async def load_many(questions: list[str]) -> list[str]:
        seen.append((len(questions), TENANT.get()))
        return questions

    batcher: Batcher[str, str] = Batcher(load_many, lambda: None)
    TENANT.set("acme")
    await asyncio.gather(batcher.load("a"), batcher.load("b"))
    assert seen == [(2, "nobody")]
    await batcher.load("c")
    assert seen[1:] == [(1, "acme")]


async def test_who_is_alone_and_cancelled_leaves_the_batcher_to_the_next():
    store = Store()
    alone = store.ask("a")
    await turns()
    waits = store.ask("b")
    await turns()
    alone.cancel()
    await turns()
    assert store.batches == [["a"], ["b"]]
    store.gate.set()
    assert await waits == "answer to b"
    assert alone.cancelled()
    assert store.left == 1


async def test_who_is_cancelled_before_its_turn_is_over_is_not_asked_for():
    store = Store(at_once=True)
    gone, stays = store.ask("a"), store.ask("b")
    await turns(1)
    gone.cancel()
    assert await stays == "answer to b"
    assert store.batches == [["b"]]


async def test_an_error_that_is_the_answer_is_raised_for_one_alone_too():
    store = Store(at_once=True)
    with pytest.raises(KeyError, match="a"):
        await store.ask(KeyError("a"))
    assert store.left == 1


async def test_a_query_that_is_cancelled_from_outside_leaves_nobody_waiting():
    store = Store()
    under_way = [store.ask("a"), store.ask("b")]
    await turns()
    waiting = store.ask("c")
    await turns()
    (task,) = store.batcher._tasks
    task.cancel()
    for future in under_way:
        with pytest.raises(asyncio.CancelledError):
            await future
    store.gate.set()
    assert await waiting == "answer to c"
    assert store.left == 1


async def test_a_timer_that_comes_too_early_is_set_again():
    store = Store()
    first = store.ask("a")
    await turns()
    waits = store.ask("b")
    await turns()
    store.batcher._timer.cancel()
    store.batcher._overtake()  # the query has not hung for long
    assert store.batches == [["a"]]
    assert store.batcher._timer is not None
    store.gate.set()
    assert await asyncio.gather(first, waits)


def test_one_for_each_without_a_key_twice():
    record = {"a": 1}
    results = one_for_each([1, 2], {1: record, 3: {}}, dict)
    assert results == [record, None]
    assert results[0] is record


def test_one_for_each_copies_for_all_callers_but_the_first():
    record = {"a": 1}
    first, nothing, second, third, again = one_for_each([1, 2, 1, 1, 2], {1: record}, dict)
    assert first is record
    assert nothing is again is None
    assert second == third == record
    assert len({id(first), id(second), id(third)}) == 3


# -- changes of the same record --------------------------------------------------------------------


class Register:
    """Sends changes, and notes which went together and in which order they ended."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[str]]] = []
        self.ended: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.alone: set[str] = set()
        self.error: Exception | None = None
        self.changes = ChangesInTurn()
        self.batcher: Batcher[str, object] = Batcher(self.load_shared, lambda: None, 2)

    async def load_shared(self, changes: list[str]) -> list[object]:
        self.sent.append(("shared", changes))
        await self.gate.wait()
        return [ALONE if change in self.alone else change.upper() for change in changes]

    async def load_in_turn(self, changes: list[str]) -> list[object]:
        self.sent.append(("in turn", changes))
        if self.error is not None:
            raise self.error
        return [ALONE if change in self.alone else change.upper() for change in changes]

    async def change(self, record: str, change: str) -> object:
        async def alone() -> object:
            self.sent.append(("alone", [change]))
            return f"{change} alone"

        result = await self.changes.load(
            record,
            change,
            self.batcher,
            self.load_in_turn,
            lambda error: isinstance(error, LookupError),
            alone,
        )
        self.ended.append(change)
        return result


async def test_further_changes_of_a_record_follow_the_first_one_together():
    register = Register()
    calls = [("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3"), ("c", "c1"), ("b", "b2")]
    results = await asyncio.gather(*(register.change(*call) for call in calls))
    assert results == [change.upper() for _, change in calls]
    assert register.sent == [
        ("shared", ["a1", "b1", "c1"]),
        ("in turn", ["a2", "a3"]),
        ("in turn", ["b2"]),
    ]
    assert [change for change in register.ended if change[0] == "a"] == ["a1", "a2", "a3"]
    assert not register.changes._first
    assert not register.changes._batchers
    assert await register.change("a", "a4") == "A4"
    assert register.sent[-1] == ("shared", ["a4"])


async def test_changes_that_come_while_others_follow_wait_for_these():
    register = Register()
    register.gate.clear()
    tasks = [asyncio.ensure_future(register.change("a", f"a{n}")) for n in range(3)]
    await eventually(lambda: register.sent == [("shared", ["a0"])])
    tasks.append(asyncio.ensure_future(register.change("a", "a3")))
    tasks.append(asyncio.ensure_future(register.change("b", "b0")))
    await eventually(lambda: register.sent[-1] == ("shared", ["b0"]))
    register.gate.set()
    await asyncio.gather(*tasks)
    assert register.sent[2:] == [("in turn", ["a1", "a2"]), ("in turn", ["a3"])]


async def test_a_change_goes_alone_where_the_others_of_its_record_do_not():
    register = Register()
    register.alone = {"a0", "a2"}
    results = await asyncio.gather(*(register.change("a", f"a{n}") for n in range(4)))
    assert results == ["a0 alone", "A1", "a2 alone", "A3"]
    assert register.sent.index(("alone", ["a0"])) < register.sent.index(
        ("in turn", ["a1", "a2", "a3"])
    )


@pytest.mark.parametrize(("error", "kept"), [(LookupError(), False), (OSError("away"), True)])
async def test_an_error_of_changes_in_turn_is_that_of_all_or_each_goes_alone(error, kept):
    register = Register()
    register.error = error
    calls = [register.change("a", f"a{n}") for n in range(3)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert results == ["A0", error, error] if kept else ["A0", "a1 alone", "a2 alone"]


async def test_a_first_change_that_hangs_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(batching, "MAX_WAIT_SECONDS", 0.01)
    register = Register()
    register.gate.clear()
    tasks = [asyncio.ensure_future(register.change("a", f"a{n}")) for n in range(3)]
    assert await asyncio.gather(*tasks[1:]) == ["A1", "A2"]
    assert not tasks[0].done()
    register.gate.set()
    assert await tasks[0] == "A0"


async def test_a_cancelled_change_disturbs_no_other_of_its_record():
    register = Register()
    register.gate.clear()
    tasks = [asyncio.ensure_future(register.change("a", f"a{n}")) for n in range(4)]
    await eventually(lambda: register.sent == [("shared", ["a0"])])
    tasks[0].cancel()
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [results[1], results[3]] == ["A1", "A3"]
    assert [isinstance(result, asyncio.CancelledError) for result in results[::2]] == [True, True]
