"""The onion: order, what is awaited, and layers that treat ``next`` badly."""

import asyncio
import gc

import pytest

from alula.hooks import Next, compose
from alula.hooks._composition import enter


async def core(trace):
    trace.append("core")


def layer(name):
    async def run(trace, next):
        trace.append(f"{name} in")
        await next()
        trace.append(f"{name} out")

    return run


async def run(layers, trace):
    await compose(layers, core)(trace)
    return trace


class TestOrder:
    async def test_the_first_layer_is_the_outermost(self):
        assert await run([layer("a"), layer("b")], []) == ["a in", "b in", "core", "b out", "a out"]

    async def test_without_layers_the_core_is_the_whole(self):
        assert compose([], core) is core

    async def test_a_layer_that_does_not_go_on_keeps_the_rest_from_running(self):
        async def stop(trace, next):
            trace.append("stop")

        assert await run([layer("a"), stop, layer("b")], []) == ["a in", "stop", "a out"]

    async def test_composed_once_it_runs_many_times_and_at_the_same_time(self):
        async def slow(trace, next):
            trace.append("slow in")
            await asyncio.sleep(0)
            await next()

        composed = compose([slow, layer("a")], core)
        traces = [[] for _ in range(3)]
        await asyncio.gather(*(composed(trace) for trace in traces))
        assert traces == [["slow in", "a in", "core", "a out"]] * 3

    async def test_layers_added_to_the_list_later_do_not_change_it(self):
        layers = [layer("a")]
        composed = compose(layers, core)
        layers.append(layer("b"))
        trace = []
        await composed(trace)
        assert trace == ["a in", "core", "a out"]


class TestWhatIsAwaited:
    async def test_a_plain_function_that_returns_next(self):
        def plain(trace, next):
            return next()

        assert await run([plain, layer("a")], []) == ["a in", "core", "a out"]

    async def test_a_plain_function_that_returns_a_coroutine(self):
        async def work(trace, next):
            trace.append("work")
            await next()

        def forgetful(trace, next):
            return work(trace, next)

        assert await run([forgetful], []) == ["work", "core"]

    async def test_a_coroutine_that_returns_another(self):
        async def work(trace):
            trace.append("work")

        async def forgetful(trace, next):
            await next()
            return work(trace)

        assert await run([forgetful], []) == ["core", "work"]

    async def test_a_future_that_a_layer_returns(self):
        def scheduled(trace, next):
            return asyncio.ensure_future(next())

        assert await run([scheduled], []) == ["core"]

    async def test_other_values_are_let_go(self):
        def plain(trace, next):
            return "done"

        async def coroutine(trace, next):
            await next()
            return trace

        assert await run([coroutine, plain], []) == []

    async def test_next_within_gather_and_wait_for(self):
        async def together(trace, next):
            await asyncio.gather(next(), asyncio.sleep(0))

        async def in_time(trace, next):
            await asyncio.wait_for(next(), 30)

        assert await run([together, in_time], []) == ["core"]

    async def test_next_twice_runs_the_rest_twice(self):
        async def again(trace, next):
            await next()
            await next()

        assert await run([again, layer("a")], []) == ["a in", "core", "a out"] * 2


class TestErrors:
    async def test_an_error_of_the_core_passes_through_every_layer(self):
        async def fail(_):
            raise LookupError("core")

        seen = []

        async def watch(_, next):
            try:
                await next()
            except LookupError as error:
                seen.append(str(error))
                raise

        with pytest.raises(LookupError):
            await compose([watch, watch], fail)(None)
        assert seen == ["core", "core"]

    async def test_a_layer_can_take_an_error_and_try_again(self):
        attempts = []

        async def fail_once(_):
            attempts.append(1)
            if len(attempts) == 1:
                raise ConnectionError

        async def retry(_, next):
            try:
                await next()
            except ConnectionError:
                await next()

        await compose([retry], fail_once)(None)
        assert len(attempts) == 2


class TestNextThatIsNotAwaited:
    async def test_is_an_error_that_names_the_layer_and_what_to_write(self):
        async def forgetful(trace, next):
            next()

        with pytest.raises(RuntimeError) as caught:
            await run([forgetful], [])
        assert "test_compose" in str(caught.value)
        assert "forgetful called next() without waiting for it" in str(caught.value)
        assert "write `await next()`" in str(caught.value)

    async def test_runs_nothing_of_the_rest_and_leaves_no_warning(self, recwarn):
        trace = []

        def forgetful(trace, next):
            next()

        with pytest.raises(RuntimeError):
            await run([forgetful, layer("a")], trace)
        gc.collect()
        assert trace == []
        assert not recwarn.list

    async def test_a_task_that_outlives_the_layer_is_an_error_and_ends_by_itself(self):
        """Closing what a task is running would break the task from below."""
        go_on = asyncio.Event()
        trace, tasks = [], []

        async def wait(trace):
            await go_on.wait()
            trace.append("core")

        async def scheduler(trace, next):
            tasks.append(asyncio.ensure_future(next()))
            await asyncio.sleep(0)

        with pytest.raises(RuntimeError, match="without waiting"):
            await compose([scheduler], wait)(trace)
        go_on.set()
        await tasks[0]
        assert trace == ["core"]

    async def test_the_layers_own_error_comes_first(self):
        async def failing(trace, next):
            next().close()
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await run([failing], [])


class TestNext:
    async def test_knows_what_it_began(self):
        following = Next(core, [])
        assert following.pending is None
        coroutine = following()
        assert following.pending is coroutine
        await coroutine

    async def test_a_subclass_hears_of_layers_that_did_not_use_it(self):
        unused = []

        class Watching(Next):
            def unused(self, layer):
                unused.append(layer)

        async def stop(trace, next):
            pass

        goes_on = layer("a")
        await compose([goes_on, stop], core, Watching)([])
        assert unused == [stop]

    async def test_enter_runs_one_layer(self):
        trace = []
        await enter(layer("a"), trace, Next(core, trace))
        assert trace == ["a in", "core", "a out"]
