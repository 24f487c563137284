"""What a stack tells: whose frames they are, and what runs in them."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from functools import partial
from pathlib import Path

import pytest

import alula._user_code as user_code_module
import alula.hooks
from alula._user_code import (
    callback_frames,
    describe_frames,
    is_user_code,
    keep_user_frames,
    name_of,
    place_of,
    unfit_signature,
)


def frames_here():
    return callback_frames(sys._getframe(1))


class TestWhoseCode:
    @pytest.mark.parametrize(
        "filename", [__file__, "/srv/shop/app.py", "relative.py", "/srv/alula/_app.py"]
    )
    def test_of_the_user(self, filename):
        assert is_user_code(filename)

    @pytest.mark.parametrize(
        "filename",
        [
            asyncio.__file__,
            json.__file__,
            pytest.__file__,
            alula.hooks.__file__,
            "<frozen importlib._bootstrap>",
            "<string>",
            "/srv/shop/.venv/lib/python3.13/site-packages/shop/app.py",
            "/usr/lib/python3/dist-packages/shop.py",
        ],
    )
    def test_of_others(self, filename):
        assert not is_user_code(filename)


def run_it(function, label):
    return function()


describe_frames(run_it, lambda names: f"hook {names['label']}")


class TestPlace:
    def test_what_was_described_and_the_innermost_frame_of_the_user(self):
        place = run_it(lambda: place_of(frames_here()), "outer")
        assert place.what == "hook outer"
        line = sys._getframe().f_lineno - 2
        assert place.where == f"{__file__}, line {line}, in <lambda>"

    def test_the_innermost_description_counts(self):
        assert run_it(lambda: run_it(lambda: place_of(frames_here()), "inner"), "outer").what == (
            "hook inner"
        )

    def test_frames_of_the_user_around_it_are_not_where_it_is(self):
        class Encoder(json.JSONEncoder):
            def default(self, o):
                frames = callback_frames(sys._getframe(1))
                places.append(place_of(frames))

        places = []
        described = json.JSONEncoder.encode
        describe_frames(described, lambda names: "encoder")
        try:
            json.dumps({"a": object()}, cls=Encoder)
        finally:
            del user_code_module._DESCRIPTIONS[described.__code__]
        assert places[0].what == "encoder"
        assert places[0].where.startswith(json.encoder.__file__)

    def test_frames_of_others_within_are_passed_over(self):
        class Encoder(json.JSONEncoder):
            def default(self, o):
                places.append(place_of(callback_frames(sys._getframe(1))))  # that of json

        places = []
        json.dumps({"a": object()}, cls=Encoder)
        assert places[0].where.startswith(f"{__file__}, line ")
        name = "TestPlace.test_frames_of_others_within_are_passed_over"
        assert places[0].what == f"{__name__}.{name}"

    def test_a_name_that_is_not_there_yet(self):
        def early():
            place = place_of(frames_here())
            late = 1
            return place, late

        describe_frames(early, lambda names: names["late"])
        place, _ = early()
        assert place.what.endswith("test_a_name_that_is_not_there_yet.<locals>.early")

    def test_without_frames_of_the_user_the_innermost_is_named(self):
        frames = [frame for frame in frames_here() if not is_user_code(frame.f_code.co_filename)]
        assert place_of(frames).where.startswith(frames[0].f_code.co_filename)

    def test_without_frames(self):
        assert callback_frames(None) == []
        assert place_of([]) == ("a callback of the event loop", "an unknown place")


class TestCallback:
    def test_frames_below_the_loop_are_not_part_of_it(self):
        async def inner():
            return frames_here()

        async def outer():
            return await inner()

        frames = asyncio.run(outer())
        assert [frame.f_code.co_name for frame in frames] == ["inner", "outer"]

    def test_nor_are_those_below_a_callback(self):
        async def run():
            done = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(lambda: done.set_result(frames_here()))
            return await done

        assert [frame.f_code.co_name for frame in asyncio.run(run())] == ["<lambda>"]


def module(folder, name, code, **names):
    """Run code as that of a file."""
    path = Path(folder) / name
    exec(compile(code, str(path), "exec"), names)
    return names


def failed(folder, *, inner, by=ValueError):
    """Return what is left of the stack of user code which calls a package, called by another."""
    package = f"{folder}/site-packages"
    deep = module(package, "deep.py", "def fail():\n    raise by('no')\n", by=by)
    own = module(folder, "app.py", "def handle():\n    fail()\n", fail=deep["fail"])
    between = module(package, "frame.py", "def go():\n    handle()\n", handle=own["handle"])
    start = module(folder, "main.py", "def start():\n    go()\n", go=between["go"])
    try:
        start["start"]()
    except by as error:
        shown = traceback.TracebackException.from_exception(
            error.with_traceback(error.__traceback__.tb_next)
        )
    removed = keep_user_frames(shown, inner=inner)
    return [Path(frame.filename).name for frame in shown.stack], removed


class TestFramesOfTheUser:
    def test_frames_of_others_are_left_out(self, tmp_path):
        assert failed(tmp_path, inner=False) == (["main.py", "app.py"], 2)

    def test_except_what_the_user_has_called_where_that_is_wanted(self, tmp_path):
        assert failed(tmp_path, inner=True) == (["main.py", "app.py", "deep.py"], 1)

    def test_of_what_led_to_an_error_too(self, tmp_path):
        deep = module(f"{tmp_path}/site-packages", "deep.py", "def fail():\n    1 / 0\n")
        try:
            try:
                deep["fail"]()
            except ZeroDivisionError as error:
                raise LookupError("no") from error
        except LookupError as error:
            shown = traceback.TracebackException.from_exception(error)
        assert keep_user_frames(shown) == 1
        assert "deep.py" not in "".join(shown.format())

    def test_of_those_in_a_group_too(self, tmp_path):
        deep = module(f"{tmp_path}/site-packages", "deep.py", "def fail():\n    1 / 0\n")
        try:
            try:
                deep["fail"]()
            except ZeroDivisionError as error:
                inside = error
            raise ExceptionGroup("several", [inside])
        except ExceptionGroup as error:
            shown = traceback.TracebackException.from_exception(error)
        assert keep_user_frames(shown) >= 1
        assert "deep.py" not in "".join(shown.format())

    def test_a_stack_without_any_stays_whole(self, tmp_path):
        deep = module(f"{tmp_path}/site-packages", "deep.py", "def fail():\n    1 / 0\n")
        try:
            deep["fail"]()
        except ZeroDivisionError as error:
            shown = traceback.TracebackException.from_exception(
                error.with_traceback(error.__traceback__.tb_next)
            )
        assert keep_user_frames(shown) == 0
        assert len(shown.stack) == 1


class Callable:
    def __call__(self):
        """Do nothing."""

    def method(self):
        """Do nothing."""


class TestNameOf:
    def test_functions_and_methods(self):
        assert name_of(frames_here).endswith("test_user_code.frames_here")
        assert name_of(Callable().method).endswith("test_user_code.Callable.method")

        def inner():
            """Do nothing."""

        assert name_of(inner).endswith("test_functions_and_methods.<locals>.inner")

    def test_an_object_that_can_be_called_is_named_by_its_class(self):
        assert name_of(Callable()).endswith("test_user_code.Callable")

    def test_a_partial_is_named_by_what_it_calls(self):
        assert name_of(partial(partial(frames_here), [])) == name_of(frames_here)

    def test_what_has_no_module(self):
        method = str.upper
        assert getattr(method, "__module__", None) is None
        assert name_of(method) == "str.upper"


class TestUnfitSignature:
    def test_is_the_signature_of_what_takes_other_arguments(self):
        assert str(unfit_signature(lambda context: None, "context", "next")) == "(context)"

    def test_is_none_of_what_takes_them(self):
        assert unfit_signature(lambda context, level=None, **more: None, "context") is None

    def test_is_none_where_there_is_no_signature(self):
        class Compiled:
            __signature__ = 5  # makes `inspect` give up, as it does for some built-in functions

            def __call__(self):
                """Do nothing."""

        assert unfit_signature(Compiled(), "context") is None
