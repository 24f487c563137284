"""What hooks say about themselves."""

from __future__ import annotations

import gc
import weakref

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


def test_nothing_is_known_of_what_cannot_be_noted():
    class Slotted:
        __slots__ = ()

        def __call__(self, context):
            """Does nothing."""

    assert hook_metadata(Slotted()) == {}
    assert hook_metadata({}) == {}
    assert hook_metadata(len) == {}
