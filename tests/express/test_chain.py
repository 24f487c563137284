"""The chain: order, next() in all its forms, errors and where they go."""

from __future__ import annotations

import asyncio
import functools
from types import SimpleNamespace

import pytest
from tests.express.asgi_client import call

from alula.errors import BadRequest, GeneralError
from alula.express import express
from alula.express._chain import Next, Step, direct_of, goes_on, never, run_steps


class Chain:
    """Steps that note what they do in ``log``, and how the chain was left in ``ends``."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.log: list[str] = []
        self.ends: list[Exception | None] = []
        self.req = SimpleNamespace(ended_by=None)
        self.res = SimpleNamespace(headers_sent=False)

    def add(self, function, *, takes_errors=False):
        self.steps.append(Step(function, takes_errors))
        return function

    def plain(self, name):
        def step(req, res, next):
            self.log.append(name)
            return next()

        self.add(step)

    def around(self, name):
        async def step(req, res, next):
            self.log.append(f"{name} in")
            await next()
            self.log.append(f"{name} out")

        self.add(step)

    def catching(self, name, then="end"):
        async def step(error, req, res, next):
            self.log.append(f"{name}: {error}")
            if then != "end":
                await (next() if then == "next" else next(error))

        self.add(step, takes_errors=True)

    def failing(self, error):
        async def step(req, res, next):
            raise error

        self.add(step)

    async def out(self, error=None):
        self.log.append("out")
        self.ends.append(error)

    async def run(self):
        await run_steps(self.steps, self.req, self.res, self.out)
        return self.log


@pytest.fixture
def chain():
    return Chain()


# -- order -----------------------------------------------------------------------------------------


async def test_an_empty_chain_goes_straight_out(chain):
    assert await chain.run() == ["out"]
    assert chain.ends == [None]


async def test_steps_run_in_the_order_of_registration_and_unwind_in_reverse(chain):
    chain.around("a")
    chain.plain("b")
    chain.around("c")
    assert await chain.run() == ["a in", "b", "c in", "out", "c out", "a out"]


async def test_every_step_gets_the_same_request_and_response(chain):
    seen = []

    async def step(req, res, next):
        seen.append((req, res))
        await next()

    chain.add(step)
    chain.add(step)
    await chain.run()
    assert seen == [(chain.req, chain.res)] * 2


async def test_plain_steps_that_return_next_need_no_stack(chain):
    for number in range(3000):
        chain.plain(str(number))
    assert (await chain.run())[-2:] == ["2999", "out"]


async def test_a_step_added_while_a_request_runs_is_run_too(chain):
    async def step(req, res, next):
        chain.plain("late")
        await next()

    chain.add(step)
    assert await chain.run() == ["late", "out"]


# -- going on --------------------------------------------------------------------------------------


async def test_a_coroutine_function_may_return_next(chain):
    async def step(req, res, next):
        return next()

    chain.add(step)
    chain.plain("b")
    assert await chain.run() == ["b", "out"]


async def test_a_plain_function_may_return_the_coroutine_of_another(chain):
    async def inner(next):
        chain.log.append("inner")
        await next()

    chain.add(lambda req, res, go: inner(go))
    assert await chain.run() == ["inner", "out"]


async def test_a_returned_awaitable_of_an_awaitable_is_awaited_too(chain):
    async def inner():
        chain.log.append("inner")

    async def step(req, res, next):
        await next()
        return inner()

    chain.add(step)
    assert await chain.run() == ["out", "inner"]


async def test_next_can_be_waited_for_with_a_timeout(chain):
    async def step(req, res, next):
        try:
            await asyncio.wait_for(next(), 0.01)
        except TimeoutError:
            chain.log.append("timeout")

    async def slow(req, res, next):
        try:
            await asyncio.sleep(60)
        finally:
            chain.log.append("cleaned up")

    chain.add(step)
    chain.add(slow)
    assert await chain.run() == ["cleaned up", "timeout"]


async def test_cancellation_is_no_error_of_the_chain(chain):
    async def step(req, res, next):
        raise asyncio.CancelledError

    chain.add(step)
    chain.catching("handler")
    with pytest.raises(asyncio.CancelledError):
        await chain.run()
    assert chain.log == []


async def test_a_step_that_does_not_go_on_ends_the_chain(chain):
    def answer(req, res, next):
        res.headers_sent = True

    chain.around("a")
    chain.add(answer)
    chain.plain("never")
    assert await chain.run() == ["a in", "a out"]
    assert chain.req.ended_by is None


async def test_the_innermost_step_that_forgot_to_answer_is_noted(chain):
    def forgets(req, res, next):
        pass

    async def outer(req, res, next):
        await run_steps([Step(forgets)], req, res, next)

    chain.add(outer)
    await chain.run()
    assert chain.req.ended_by is forgets


# -- errors ----------------------------------------------------------------------------------------


async def test_an_exception_skips_to_the_next_error_step(chain):
    chain.failing(BadRequest("no"))
    chain.plain("skipped")
    chain.catching("handler")
    assert await chain.run() == ["handler: no"]


async def test_a_plain_step_may_raise(chain):
    def step(req, res, next):
        raise KeyError("gone")

    chain.add(step)
    chain.catching("handler")
    assert await chain.run() == ["handler: 'gone'"]


async def test_next_with_an_error_skips_to_the_next_error_step(chain):
    error = BadRequest("no")
    chain.add(lambda req, res, go: go(error))
    chain.plain("skipped")
    assert await chain.run() == ["out"]
    assert chain.ends == [error]


async def test_awaited_next_with_an_error_comes_back(chain):
    async def step(req, res, next):
        await next(BadRequest("no"))
        chain.log.append("after")

    chain.add(step)
    chain.catching("handler")
    assert await chain.run() == ["handler: no", "after"]


async def test_what_is_no_exception_becomes_one(chain):
    chain.add(lambda req, res, go: go("in words"))
    await chain.run()
    assert isinstance(chain.ends[0], GeneralError)
    assert str(chain.ends[0]) == "in words"


async def test_next_with_the_request_is_a_mistake(chain):
    """As in other frameworks; its text went to the client as the message of an error."""
    chain.add(lambda req, res, go: go(req))
    await chain.run()
    assert isinstance(chain.ends[0], TypeError)
    assert "called next() with a SimpleNamespace; it takes nothing, or the" in str(chain.ends[0])


async def test_next_with_none_is_next(chain):
    chain.add(lambda req, res, go: go(None))
    chain.plain("b")
    assert await chain.run() == ["b", "out"]


async def test_error_steps_before_the_error_do_not_see_it(chain):
    chain.catching("before")
    chain.failing(BadRequest("no"))
    chain.catching("behind")
    assert await chain.run() == ["behind: no"]


async def test_error_steps_are_passed_by_where_there_is_no_error(chain):
    chain.catching("handler")
    chain.plain("b")
    assert await chain.run() == ["b", "out"]


async def test_several_error_steps_pass_an_error_on(chain):
    chain.failing(BadRequest("no"))
    chain.catching("first", then="same error")
    chain.plain("skipped")
    chain.catching("second", then="same error")
    assert await chain.run() == ["first: no", "second: no", "out"]
    assert [str(error) for error in chain.ends] == ["no"]


async def test_an_error_step_may_raise_another_error(chain):
    async def handler(error, req, res, next):
        raise BadRequest("worse") from error

    chain.failing(BadRequest("no"))
    chain.add(handler, takes_errors=True)
    chain.catching("second")
    assert await chain.run() == ["second: worse"]


async def test_an_error_step_recovers_by_next_without_an_error(chain):
    chain.failing(BadRequest("no"))
    chain.catching("handler", then="next")
    chain.plain("b")
    assert await chain.run() == ["handler: no", "b", "out"]
    assert chain.ends == [None]


async def test_a_plain_error_step_may_return_next(chain):
    chain.failing(BadRequest("no"))
    chain.add(lambda error, req, res, go: go(), takes_errors=True)
    chain.plain("b")
    assert await chain.run() == ["b", "out"]


async def test_next_never_raises_so_the_rest_of_a_step_runs(chain):
    chain.around("a")
    chain.failing(BadRequest("no"))
    assert await chain.run() == ["a in", "out", "a out"]


async def test_an_error_after_next_goes_to_the_error_steps_behind(chain):
    async def step(req, res, next):
        await next()
        raise BadRequest("late")

    chain.add(step)
    chain.plain("b")
    chain.catching("handler")
    assert await chain.run() == ["b", "out", "handler: late"]


async def test_what_out_raises_is_not_an_error_of_the_steps(chain):
    async def out(error=None):
        raise LookupError("outside")

    with pytest.raises(LookupError, match="outside"):
        await run_steps([], chain.req, chain.res, out)


# -- mistakes --------------------------------------------------------------------------------------


async def test_a_forgotten_await_is_an_error_that_names_the_step(chain):
    async def forgets(req, res, next):
        next()

    chain.add(forgets)
    chain.plain("never")
    chain.catching("handler")
    (line,) = await chain.run()
    assert "forgets called next() without waiting for it; write `await next()`" in line


async def test_a_plain_function_that_does_not_return_next_is_an_error(chain):
    def forgets(req, res, next):
        next()

    chain.add(forgets)
    await chain.run()
    assert "`return next()` in a plain function" in str(chain.ends[0])


async def test_an_error_step_that_forgets_to_await_is_named(chain):
    async def forgets(error, req, res, next):
        next(error)

    chain.failing(BadRequest("no"))
    chain.add(forgets, takes_errors=True)
    await chain.run()
    assert "forgets called next() without waiting" in str(chain.ends[0])


async def test_a_task_that_awaits_a_forgotten_next_later_runs_nothing(chain):
    tasks = []

    async def wait_for(following):
        await following

    async def forgets(req, res, next):
        tasks.append(asyncio.ensure_future(wait_for(next())))

    chain.add(forgets)
    chain.plain("never")
    await chain.run()
    with pytest.raises(RuntimeError, match="forgets awaited one next\\(\\) twice"):
        await tasks[0]
    assert chain.log == ["out"]


async def test_next_called_twice_runs_nothing_twice(chain):
    async def twice(req, res, next):
        await next()
        await next()

    chain.add(twice)
    chain.plain("b")
    chain.catching("handler")
    log = await chain.run()
    assert log[:2] == ["b", "out"]
    assert "twice called next() twice" in log[2]
    assert len(log) == 3


async def test_one_next_awaited_twice_runs_nothing_twice(chain):
    async def twice(req, res, next):
        following = next()
        await following
        await following

    chain.add(twice)
    chain.plain("b")
    await chain.run()
    assert chain.log == ["b", "out", "out"]
    assert "awaited one next() twice" in str(chain.ends[1])


async def test_an_error_raised_before_a_called_next_was_awaited_counts(chain):
    async def step(req, res, next):
        next()
        raise BadRequest("no")

    chain.add(step)
    chain.catching("handler")
    assert await chain.run() == ["handler: no"]


def test_next_has_no_room_for_more():
    with pytest.raises(AttributeError):
        Next(([], None, None, None), 0).anything = 1


def test_a_step_that_never_looks_at_bodies_is_asked_for_none():
    assert (
        Step(lambda req, res, go_on: go_on(), may_read_body=never).may_read_body(object()) is False
    )


# -- steps that always go on -----------------------------------------------------------------------


@pytest.mark.parametrize("is_direct", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_one_that_always_goes_on_needs_no_next(chain, waits, is_direct):
    async def later():
        await asyncio.sleep(0)
        chain.log.append("later")

    @goes_on
    def middleware(req, res):
        chain.log.append("begins")
        return later() if waits else None

    chain.steps.append(Step(middleware, direct=direct_of(middleware) if is_direct else None))
    chain.plain("next")
    assert await chain.run() == ["begins", *(["later"] if waits else []), "next", "out"]
    assert chain.req.ended_by is None


@pytest.mark.parametrize("waits", [True, False])
async def test_its_error_goes_to_the_error_steps(chain, waits):
    async def fail_later():
        raise BadRequest("no")

    def fail(req, res):
        if waits:
            return fail_later()
        raise BadRequest("no")

    chain.steps.append(Step(goes_on(fail), direct=fail))
    chain.plain("skipped")
    chain.catching("caught")
    assert await chain.run() == ["caught: no"]


def test_it_has_the_name_of_its_function():
    def count(req, res):
        """Count."""

    assert goes_on(count).__qualname__ == count.__qualname__


async def test_middleware_that_wraps_it_is_called_itself():
    seen = []

    @goes_on
    def middleware(req, res):
        seen.append("inner")

    @functools.wraps(middleware)
    async def wrapper(req, res, next):
        seen.append("wrapper")
        await middleware(req, res, next)

    app = express().use(wrapper, Slotted()).get("/", lambda req, res: res.json(1))
    assert (await call(app)).status == 200
    assert seen == ["wrapper", "inner"]


class Slotted:
    """Middleware that cannot be marked."""

    __slots__ = ()

    def __call__(self, req, res, next):
        return next()
