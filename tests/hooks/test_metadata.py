"""What hooks say about themselves."""

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import dataclass

import pytest

from alula import App, Params
from alula._user_code import callback_frames, place_of
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden
from alula.hooks import annotate_hook, checks_only, hook_metadata, never_waits, plain_form_of


def test_notes_are_kept_with_the_hook():
    def hook(context):
        """Does nothing."""

    assert hook_metadata(hook) == {}
    assert annotate_hook(hook, query="schema", strategies=("jwt",)) is hook
    assert hook_metadata(hook) == {"query": "schema", "strategies": ("jwt",)}


def test_notes_keep_no_hook_alive():
    def hook(context):
        """Does nothing."""

    watched = weakref.ref(annotate_hook(hook, data=1))
    del hook
    gc.collect()
    assert watched() is None


def test_nothing_is_known_of_what_cannot_be_noted():
    class Slotted:
        __slots__ = ()

        def __call__(self, context):
            """Does nothing."""

    assert hook_metadata(Slotted()) == {}
    assert hook_metadata({}) == {}
    assert hook_metadata(len) == {}


async def test_the_innermost_run_directly_around_the_method():
    trace = []

    def named(name):
        async def around(context, next):
            trace.append(name)
            await next()

        return around

    def leave(name):
        return lambda context: trace.append(name)

    app = App().use("notes", MemoryService())
    only_there = annotate_hook(named("only there"), innermost=True)
    both = annotate_hook(leave("before"), innermost=named("its innermost"))
    app.hooks(around=[annotate_hook(named("of the app"), innermost=True)], before=[leave("app")])
    notes = app.service("notes").hooks(around=[only_there, named("around")], before=[both])
    notes.hooks(before=[leave("last")], after=[leave("after")])
    await notes.find()
    assert trace == [
        "app",
        "around",
        "before",
        "last",
        "of the app",
        "only there",
        "its innermost",
        "after",
    ]


async def test_an_innermost_hook_may_be_one_of_some_methods():
    trace = []

    async def note(context, next):
        trace.append(context.method)
        await next()

    app = App().use("notes", MemoryService([{"id": 1}]))
    hook = annotate_hook(lambda context: None, innermost={"remove": note})
    notes = app.service("notes").hooks(before=[hook])
    await notes.find()
    await notes.remove(1)
    assert trace == ["remove"]


async def test_an_innermost_hook_may_replace_the_method():
    async def replace(context, next):
        context.result = "replaced"

    app = App().use("notes", MemoryService())
    notes = app.service("notes").hooks(around=[annotate_hook(replace, innermost=True)])
    assert await notes.find() == "replaced"


async def test_a_hook_follows_changes_of_methods_that_it_is_not_registered_for():
    followed = []

    class Notes(MemoryService):
        async def archive(self, data, params):
            return data

    async def follow(context, next):
        await next()
        followed.append((context.method, context.service.path))

    async def replace(context, next):
        context.result = "replaced"

    @dataclass
    class Plain:  # without a hash
        name: str

        async def __call__(self, context, next):
            await next()

    app = App().use("notes", Notes([{"id": 1}]), methods=["find", "get", "patch", "archive"])
    app.use("others", MemoryService())
    annotate_hook(follow, follows_changes=True)
    notes = app.service("notes").hooks(around={"get": [follow], "archive": [Plain("a")]})
    app.hooks(around={"patch": [annotate_hook(replace, innermost=True)]})  # inside the hook
    await notes.find()
    await notes.get(1)
    assert followed == [("get", "notes")]
    assert await notes.patch(1, {"a": 1}) == "replaced"
    await notes.archive({})
    await app.service("others").create({})
    assert followed[1:] == [("patch", "notes"), ("archive", "notes")]
    notes.hooks(around={"update": [follow], "remove": [follow]})
    await notes.archive({})
    assert followed[3:] == [("archive", "notes")]


def test_hooks_in_another_are_checked_like_it():
    class Holder:
        def __call__(self, context, next=None):
            """Runs none."""

    app = App().use("notes", MemoryService())
    fits = annotate_hook(Holder(), hooks=[lambda context: None])
    app.service("notes").hooks(before=[fits], after=[fits], error=[fits])
    with pytest.raises(TypeError, match=r"takes \(context\); expected"):
        app.service("notes").hooks(around=[fits])
    for place in ("innermost", "outermost"):
        inner = annotate_hook(Holder(), **{place: True})
        with pytest.raises(TypeError, match="at a place of its own"):
            app.service("notes").hooks(around=[annotate_hook(Holder(), hooks=[inner])])


class TestMethodsThatAHookIgnores:
    @pytest.fixture
    def notes(self):
        return App().use("notes", MemoryService()).service("notes")

    @pytest.fixture
    def check_text(self):
        return annotate_hook(lambda context: None, ignores=("find", "remove"))

    def test_to_name_one_is_an_error(self, notes, check_text):
        message = r"before hook .* of service 'notes' would have no effect for `remove`"
        with pytest.raises(TypeError, match=message):
            notes.hooks(before={"create": [check_text], "remove": [check_text]})
        assert notes.hook_table.of("before", "create") == []

    def test_others_and_all_may_have_it(self, notes, check_text):
        notes.hooks(before={"create": [check_text], "all": [check_text]})
        assert notes.hook_table.of("before", "find") == [check_text]


class TestHooksThatNeedTheUser:
    @pytest.fixture
    def notes(self):
        return App().use("notes", MemoryService()).service("notes")

    @pytest.fixture
    def needing(self):
        return annotate_hook(lambda *_: None, needs_user="owned")

    @pytest.fixture
    def signing_in(self):
        return annotate_hook(lambda *_: None, strategies=("jwt",))

    def test_they_run_behind_what_sets_it(self, notes, needing, signing_in):
        notes.hooks(around=[signing_in, needing, signing_in], before=[needing, signing_in])

    def test_one_that_runs_before_it_is_an_error(self, notes, needing, signing_in):
        message = "owned of service 'notes' would run before `authenticate` for `find`"
        with pytest.raises(TypeError, match=message):
            notes.hooks(around=[needing, needing, signing_in])
        assert notes.hook_table.of("around", "find") == []
        assert notes.hook_table.changes == 1  # those of its registration

    def test_so_it_is_over_several_calls_and_types(self, notes, needing, signing_in):
        notes.hooks(around={"patch": [needing]})
        with pytest.raises(TypeError, match="for `patch`"):
            notes.hooks(before=[signing_in])
        assert notes.hook_table.of("before", "patch") == []
        with pytest.raises(TypeError, match="for `get`"):
            notes.hooks(before={"all": [needing], "get": [signing_in]})

    def test_the_application_may_set_it(self, notes, needing, signing_in):
        notes.app.hooks(before=[signing_in])
        notes.hooks(around=[needing])


# -- hooks that only check ------------------------------------------------------------------------


def checking(trace, name="check"):
    async def check(app, params):
        trace.append(name)

    async def hook(context, next):
        trace.append(f"{name} as a hook")
        await next()

    return checks_only(hook, check)


def go_on(context, next):
    return next()


async def before_hook(context):
    raise AssertionError("its plain form runs in its place")


@pytest.fixture
def trace():
    return []


@pytest.fixture
def notes():
    return App().use("notes", MemoryService([{"id": 1}])).service("notes")


async def test_a_check_runs_in_the_place_of_its_hook(notes, trace):
    async def around(context, next):
        trace.append("in")
        await next()
        trace.append("out")

    first, second = checking(trace, "first"), checking(trace, "second")
    notes.hooks(around=[first, around, second], before=[lambda context: trace.append("before")])
    assert await notes.get(1) == {"id": 1}
    assert trace == ["first", "in", "second", "before", "out"]


async def test_checks_alone(notes, trace):
    notes.hooks(around=[checking(trace, "first"), checking(trace, "second")])
    assert await notes.find() == [{"id": 1}]
    created = []
    notes.on("created", lambda record, context: created.append(record))
    await notes.create({"id": 2})
    assert created == [{"id": 2}]
    assert trace == ["first", "second"] * 2


async def test_a_check_that_fails_ends_the_call(notes, trace):
    async def refuse(app, params):
        raise Forbidden("No")

    seen = []
    notes.hooks(
        around=[checks_only(go_on, refuse), checking(trace)],
        error=[lambda context: seen.append(context.error)],
    )
    with pytest.raises(Forbidden, match="No"):
        await notes.get(1)
    assert (trace, seen) == ([], [])  # error hooks of the service are inside its around hooks


async def test_a_retry_checks_again(notes, trace):
    async def twice(context, next):
        await next()
        await next()

    notes.hooks(around=[twice, checking(trace)])
    assert await notes.get(1) == {"id": 1}
    assert trace == ["check", "check"]


async def test_a_hook_that_takes_over_metadata_runs_itself(notes, trace):
    inner = annotate_hook(checking(trace), strategies=("jwt",))

    async def wrapper(context, next):
        trace.append("wrapper")
        await inner(context, next)

    notes.hooks(around=[annotate_hook(wrapper, **hook_metadata(inner))])
    assert await notes.get(1) == {"id": 1}
    assert trace == ["wrapper", "check as a hook"]


def test_a_check_keeps_no_hook_alive():
    def hook(context, next):
        """Does nothing."""

    watched = weakref.ref(checks_only(hook, lambda app, params: None))
    del hook
    gc.collect()
    assert watched() is None


async def test_hooks_without_weak_references(notes, trace):
    class Slotted:
        __slots__ = ()

        async def __call__(self, context, next):
            trace.append("slotted")
            await next()

    notes.hooks(around=[Slotted()])
    assert await notes.get(1) == {"id": 1}
    assert trace == ["slotted"]


async def test_a_method_behind_a_check_alone_needs_no_context(notes, trace):
    async def check(app, params):
        trace.append((app, params))

    notes.hooks(around=[checks_only(go_on, check)])
    params = Params()
    assert await notes.plain_methods["get"]("1", params) == {"id": 1}
    assert await notes.plain_methods["create"]({"id": 2}, params) == {"id": 2}
    assert await notes.plain_methods["find"](params) == [{"id": 1}, {"id": 2}]
    assert [app for app, _ in trace] == [notes.app] * 3
    assert all(given is params for _, given in trace)


async def test_a_check_that_fails_keeps_a_method_without_a_context_from_running(notes):
    async def refuse(app, params):
        raise Forbidden("No")

    notes.hooks(around={"create": [checks_only(go_on, refuse)]})
    with pytest.raises(Forbidden, match="No"):
        await notes.plain_methods["create"]({"id": 2}, Params())
    assert await notes.plain_methods["find"](Params()) == [{"id": 1}]


@pytest.mark.parametrize(
    "more",
    [
        {"before": [before_hook]},
        {"after": [before_hook]},
        {"error": [before_hook]},
        {"around": [go_on]},
        {"around": [checking([], "second")]},
        {"before": [never_waits(before_hook, before_hook)]},
    ],
    ids=["before", "after", "error", "around", "check", "plain form"],
)
@pytest.mark.parametrize("of_app", [False, True])
def test_with_another_hook_it_needs_one(notes, trace, more, of_app):
    notes.hooks(around=[checking(trace)])
    (notes.app if of_app else notes).hooks(**more)
    assert notes.plain_methods == {}


async def test_a_check_that_blocks_the_loop_is_named(notes):
    async def look(app, params):
        frames.append(place_of(callback_frames(sys._getframe())).what)

    frames = []
    notes.hooks(around=[checks_only(go_on, look)])
    await notes.get(1)
    assert frames[0].startswith("around hook ")
    assert frames[0].endswith("look of service 'notes'")


# -- hooks that never wait -------------------------------------------------------------------------


def telling(trace, name):
    async def hook(context, next=None):
        trace.append(f"{name} as a hook")
        if next is not None:
            await next()

    return never_waits(hook, lambda context: trace.append(name))


async def test_a_plain_form_runs_in_the_place_of_a_before_hook(notes, trace):
    async def before(context):
        trace.append("between")

    notes.hooks(before=[telling(trace, "first"), before, telling(trace, "last")])
    await notes.get(1)
    assert trace == ["first", "between", "last"]


async def test_an_around_hook_runs_itself_although_it_never_waits(notes, trace):
    notes.hooks(around=[telling(trace, "check")])
    await notes.get(1)
    assert trace == ["check as a hook"]


async def test_a_plain_form_may_refuse_the_call(notes):
    def refuse(context):
        raise Forbidden("not you")

    async def hook(context):
        raise AssertionError

    notes.hooks(before=[never_waits(hook, refuse)])
    with pytest.raises(Forbidden, match="not you"):
        await notes.get(1)


async def test_a_before_hook_that_takes_over_metadata_runs_itself(notes, trace):
    inner = annotate_hook(telling(trace, "inner"), kinds=("before",))

    async def outer(context):
        trace.append("outer")
        await inner(context)

    notes.hooks(before=[annotate_hook(outer, **hook_metadata(inner))])
    await notes.get(1)
    assert trace == ["outer", "inner as a hook"]


async def test_a_plain_form_that_blocks_the_loop_is_named(notes):
    def look(context):
        frames.append(place_of(callback_frames(sys._getframe())).what)
        types.append(context.type)

    frames, types = [], []
    notes.hooks(before=[never_waits(before_hook, look)])
    await notes.get(1)
    assert frames[0].startswith("before hook ")
    assert frames[0].endswith("look of service 'notes'")
    assert types == ["before"]


@pytest.mark.parametrize("has_listener", [False, True])
async def test_checks_and_plain_forms_run_in_their_order_before_method_and_event(
    notes, trace, has_listener
):
    def check(name):
        async def checks(app, params):
            trace.append(name)

        return checks_only(lambda context, go_on: go_on(), checks)

    notes.app.hooks(around=[check("app")], before=[telling(trace, "of the app")])
    notes.hooks(around=[check("outer"), check("inner")], before=[telling(trace, "own")])
    if has_listener:
        notes.on("created", lambda record, context: trace.append("event"))
    assert await notes.create({"text": "a"}) == {"id": 0, "text": "a"}
    expected = ["app", "of the app", "outer", "inner", "own"]
    assert trace == expected + ["event"] * has_listener


@pytest.mark.parametrize("kind", ["check", "plain form"])
async def test_what_refuses_a_call_before_the_method_leaves_no_event(notes, trace, kind):
    def refuse(context):
        raise Forbidden("not you")

    async def check(app, params):
        refuse(None)

    notes.on("created", lambda record, context: trace.append("event"))
    if kind == "check":
        notes.hooks(around=[checks_only(go_on, check)])
    else:
        notes.hooks(before=[never_waits(before_hook, refuse)])
    with pytest.raises(Forbidden, match="not you"):
        await notes.create({"text": "a"})
    assert trace == []


async def test_a_plain_form_that_sets_the_result_takes_the_place_of_the_method(notes, trace):
    def answer(context):
        context.result = {"id": 9}

    notes.on("created", lambda record, context: trace.append(record))
    notes.hooks(before=[never_waits(before_hook, answer)])
    assert await notes.create({"text": "a"}) == {"id": 9}
    assert trace == [{"id": 9}]


def test_a_hook_is_its_own_plain_form_unless_it_says_so():
    def hook(context):
        """Does nothing."""

    assert plain_form_of(hook) is hook
    assert plain_form_of(print) is print
    assert plain_form_of([]) == []
