"""What hooks say about themselves."""

from __future__ import annotations

import functools
import gc
import weakref
from dataclasses import dataclass

import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.hooks import annotate_hook, hook_metadata


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


def test_notes_that_know_the_hook_do_not_keep_it():
    def annotated():
        def hook(context):
            """Does nothing."""

        return annotate_hook(hook, is_idle=lambda context: context is hook)

    watched = weakref.ref(annotated())
    gc.collect()
    assert watched() is None


def test_a_hook_that_wraps_another_has_no_notes_of_it():
    def hook(context):
        """Does nothing."""

    @functools.wraps(annotate_hook(hook, query="schema"))
    def wrapping(context):
        """Does nothing."""

    assert hook_metadata(wrapping) == {}


def test_a_frozen_dataclass_takes_notes():
    @dataclass(frozen=True)
    class Check:
        field: str

        def __call__(self, context):
            """Does nothing."""

    hook = annotate_hook(Check("name"), query="schema")
    assert hook_metadata(hook) == {"query": "schema"}
    assert hook_metadata(Check("name")) == {}


def test_what_takes_no_notes_is_refused():
    class Checks:
        def check(self, context):
            """Does nothing."""

    with pytest.raises(
        TypeError, match=r"Checks\.check takes no attributes; put it into a function"
    ):
        annotate_hook(Checks().check, query="schema")


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

    def test_registered_for_all_methods_it_is_left_out_of_these(self, notes, check_text):
        notes.hooks(before={"create": [check_text], "all": [check_text]})
        assert notes.hook_table.of("before", "create") == [check_text, check_text]
        assert notes.hook_table.of("before", "find") == []


class TestIdleHooks:
    @pytest.mark.parametrize("is_idle", [False, True])
    async def test_one_is_left_out_of_the_calls_in_which_it_is_idle(self, is_idle):
        ran = []

        async def note(context, next):
            ran.append(context.path)
            await next()

        app = App().use("notes", MemoryService(start_id=1))
        hook = annotate_hook(note, is_idle=lambda context: context.data["isIdle"])
        app.hooks(around=[hook, hook])
        made = await app.service("notes").create({"isIdle": is_idle})
        assert made == {"isIdle": is_idle, "id": 1}
        assert ran == ([] if is_idle else ["notes", "notes"])


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
