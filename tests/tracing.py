"""Hooks of pytest that limit coverage to what counts: the code of tests and fixtures of a package.

The tracer of coverage doubles the time of all code that runs meanwhile, also of pytest itself.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import alula

TESTS = Path(__file__).parent

# Tests of whole applications do not count: a line is covered by the tests of its package.
# What a process does only once, such as a function with `@cache`, needs a test that does it anew,
# since one of these tests may have been the first.
OF_WHOLE_APPLICATIONS = {
    "conformance",
    "docs",
    "examples",
    "faults",
    "generator",
    "interop",
    "outside",
    "packaging",
    "robustness",
    "test_floors.py",
    "test_measures.py",
}


class _State:
    """The tracer of this process, if coverage is measured, and what of the running test counts."""

    tracer: Any = None
    fixtures_count = False
    test_counts = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without coverage and without the garbage collector, in a third of the time."""
    _State.tracer = sys.gettrace()
    if _State.tracer is not None:
        _import_all_of_alula()  # lines that run on import count
        sys.settrace(None)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # tests that collect garbage need not look at all tests
        gc.enable()


def _import_all_of_alula() -> None:
    for module in pkgutil.walk_packages(alula.__path__, "alula."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Leave the tracer to coverage, which stops it."""
    sys.settrace(_State.tracer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Decide what counts of a test.

    Of property tests, only the fixtures do: what Hypothesis happens to generate proves no branch.
    `no_cover` of pytest-cov does not work here: a process of xdist has two collectors, and stopping
    one of them resumes the other.
    """
    room = item.path.relative_to(TESTS).parts[0]
    _State.fixtures_count = _State.tracer is not None and room not in OF_WHOLE_APPLICATIONS
    marked = item.get_closest_marker("untraced") is not None
    _State.test_counts = (
        _State.fixtures_count and not marked and item.get_closest_marker("hypothesis") is None
    )
    tracer_of_threads = threading.gettrace()
    if marked:
        threading.settrace(None)
    try:
        return (yield)
    finally:
        threading.settrace(tracer_of_threads)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call() -> Iterator[object]:
    with _traced(_State.test_counts):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup() -> Iterator[object]:
    with _traced(_State.fixtures_count):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[object]:
    with _traced(_State.fixtures_count):
        return (yield)


@contextmanager
def _traced(counts: bool) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(_State.tracer if counts else None)
    try:
        yield
    finally:
        sys.settrace(before)
