"""Hooks under conditions."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from tests.common_hooks.conftest import ADA, app_of

from alula import App, disallow
from alula._service_facts import facts_of
from alula.authentication import authenticate, hide_taken, protect
from alula.common_hooks import cache, every, iff, is_external, only_own, some, unless
from alula.errors import BadRequest, Forbidden, MethodNotAllowed, NotFound
from alula.hooks import annotate_hook, hook_metadata
from alula.outgoing import public_part


def yes(context):
    return True


def no(context):
    return False


async def later_yes(context):
    await asyncio.sleep(0)
    return True


async def later_no(context):
    return False


def refuse(context):
    raise Forbidden("no")


@pytest.fixture
def trace():
    return []


@pytest.fixture
def named(trace):
    """Makes plain hooks that leave their name."""

    def make(name):
        def hook(context):
            trace.append((name, context.type))

        return hook

    return make


@pytest.mark.parametrize("condition", [yes, no, later_yes, later_no])
@pytest.mark.parametrize("make", [iff, unless])
async def test_one_branch_runs(condition, make, memory, trace, named):
    hook = make(condition, named("a"), named("b")).otherwise(named("c")).otherwise(named("d"))
    notes = app_of(memory, before=[hook, named("e")])
    await notes.find()
    holds = condition in (yes, later_yes)
    names = ["a", "b"] if holds is (make is iff) else ["c", "d"]
    assert trace == [(name, "before") for name in (*names, "e")]


async def test_without_otherwise_nothing_runs(memory, trace, named):
    notes = app_of(
        memory,
        before=[iff(no, named("a")), iff(later_no, named("a"))],
        after=[unless(yes, named("a"))],
        around=[iff(no, around("a", trace))],
        error=[iff(no, named("a"))],
    )
    assert len(await notes.find()) == 3
    assert trace == []


def around(name, trace):
    async def hook(context, next):
        trace.append(f"{name} in")
        await next()
        trace.append(f"{name} out")

    return hook


@pytest.mark.parametrize("condition", [yes, later_yes])
async def test_around_hooks_run_around_the_rest(condition, memory, trace):
    hooks = [around(name, trace) for name in "abc"]
    notes = app_of(memory, around=[iff(condition, *hooks[:2]), hooks[2]])
    await notes.find()
    assert trace == ["a in", "b in", "c in", "c out", "b out", "a out"]


async def test_after_and_error_hooks(memory, trace, named):
    def recover(context):
        context.result = "recovered"

    notes = app_of(
        memory,
        after={"find": [iff(yes, named("a")), named("b")]},
        error=[iff(lambda context: isinstance(context.error, NotFound), recover)],
    )
    await notes.find()
    assert trace == [("a", "after"), ("b", "after")]
    assert await notes.get(99) == "recovered"
    with pytest.raises(BadRequest):
        await notes.find(query={"$odd": 1})


async def test_an_around_hook_may_set_the_result(memory):
    async def replace(context, next):
        context.result = "replaced"

    assert await app_of(memory, around=[iff(yes, replace)]).find() == "replaced"


async def test_an_around_hook_that_forgets_next_is_named(memory):
    async def forgets(context, next):
        """Does nothing."""

    with pytest.raises(RuntimeError, match=r"forgets neither awaited next\(\)"):
        await app_of(memory, around=[iff(yes, forgets)]).find()


async def test_a_retry_runs_the_rest_again(memory, trace):
    async def twice(context, next):
        await next()
        await next()

    notes = app_of(memory, around=[iff(yes, twice), around("a", trace)])
    assert len(await notes.find()) == 3
    assert trace == ["a in", "a out"] * 2


async def test_a_hook_that_returns_data_is_named(memory):
    def returns(context):
        return {"text": "x"}

    with pytest.raises(TypeError, match="returned a dict, which is not used"):
        await app_of(memory, before=[iff(yes, returns)]).find()


async def test_an_error_leaves_the_type_of_outer_hooks(memory):
    types = []

    async def outer(context, next):
        try:
            await next()
        finally:
            types.append(context.type)

    notes = app_of(memory, around=[outer], before=[iff(yes, refuse)])
    with pytest.raises(Forbidden):
        await notes.find()
    assert types == ["around"]


async def test_conditions_nest(memory):
    hook = iff(yes, unless(no, iff(later_yes, refuse)))
    with pytest.raises(Forbidden):
        await app_of(memory, before=[hook]).find()


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (lambda: every(yes, later_yes), True),
        (lambda: every(yes, later_no, refuse), False),
        (lambda: every(no, refuse), False),
        (lambda: some(no, later_no), False),
        (lambda: some(no, later_yes, refuse), True),
        (lambda: some(yes, refuse), True),
        (lambda: every(some(no, yes), later_yes), True),
    ],
)
async def test_every_and_some(condition, holds):
    assert await condition()(None) is holds


@pytest.mark.parametrize("provider", ["rest", "socketio", "sse", "mqtt"])
async def test_each_transport_is_external(memory, provider):
    notes = app_of(memory, before=[iff(is_external(), only_own())])
    assert len(await notes.find()) == 3
    assert len(await notes.find({**ADA, "provider": provider})) == 1
    notes = app_of(memory, before=[unless(is_external(), refuse)])
    assert len(await notes.find({**ADA, "provider": provider})) == 3
    with pytest.raises(Forbidden):
        await notes.find()


class TestRegistration:
    """What is checked, as if the hooks were registered themselves."""

    @pytest.mark.parametrize(
        ("kind", "hook", "message"),
        [
            ("before", lambda: around("a", []), r"takes \(context, next\); expected"),
            ("around", lambda: refuse, r"takes \(context\); expected"),
            ("after", only_own, "register it as before or around hook"),
            ("after", lambda: authenticate("jwt"), "register it as before or around hook"),
            ("before", lambda: authenticate, "makes a hook and is not one itself"),
            ("before", lambda: disallow, "makes a hook and is not one itself"),
            ("before", lambda: 5, "5 is not a function"),
            ("around", lambda: hide_taken("text"), "runs at a place of its own"),
            ("around", lambda: cache(5, by=None), "runs at a place of its own"),
        ],
    )
    def test_each_hook_is_checked(self, memory, kind, hook, message):
        def fits(context, next=None):
            """Is a hook of every type."""

        for made in (iff(yes, hook()), unless(yes, fits).otherwise(hook())):
            with pytest.raises(TypeError, match=message):
                app_of(memory, **{kind: [iff(yes, made)]})

    def test_what_a_guard_says_of_itself_does_not_count(self, memory):
        def check(context):
            """Checks nothing."""

        annotate_hook(check, strategies=("jwt",), query={}, data=lambda method: {})
        hook = iff(yes, check, authenticate("jwt"))
        assert hook_metadata(hook).keys() == {"hooks"}
        notes = app_of(memory, before=[hook], around=[iff(yes, authenticate("jwt"))])
        facts = facts_of(notes)
        assert (facts.secured, facts.query, facts.data) == (frozenset(), {}, {})
        notes.hooks(before=[authenticate("jwt")])
        assert "find" in facts_of(notes).secured

    async def test_protect_checks_queries_in_it_too(self, memory):
        notes = app_of(memory, after=[iff(is_external(), protect("text"))])
        with pytest.raises(BadRequest, match="text is hidden"):
            await notes.find(query={"text": "Hello"}, **ADA)
        assert "text" not in public_part(await notes.get(1, ADA))
        assert "text" in public_part(await notes.get(1))

    async def test_it_works_for_the_application(self, memory):
        app = App().use("notes", memory).hooks(before=[iff(is_external(), disallow())])
        with pytest.raises(MethodNotAllowed):
            await app.service("notes").find(ADA)

    def test_nothing_keeps_it_alive(self):
        watched = weakref.ref(iff(yes, refuse))
        gc.collect()
        assert watched() is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iff(yes), "iff needs hooks"),
        (lambda: unless(yes), "unless needs hooks"),
        (lambda: iff(True, refuse), "iff: True is not a function"),
        (lambda: unless(around("a", []), refuse), "unless: .* is not a function of"),
        (lambda: iff(is_external, refuse), r"write is_external\(\)"),
        (every, "every needs conditions"),
        (some, "some needs conditions"),
        (lambda: every(yes, 5), "every: 5 is not a function"),
        (lambda: some(some), "some: .* makes a condition"),
    ],
)
def test_what_is_not_a_condition_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()
