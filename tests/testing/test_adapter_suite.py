"""The suite notices what it is there for: each of its tests fails for some broken adapter."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.testing.broken_adapters import BROKEN, DIRECTLY

import alula
from alula.adapters.base import AdapterService
from alula.adapters.memory import MemoryService
from alula.testing import AdapterSuite
from alula.testing._rules.subject import FEATURES

TESTS = {name.removeprefix("test_") for name in dir(AdapterSuite) if name.startswith("test_")}
SELF_CHECK = "declares_features_that_there_are"


def suite_for(adapter, **attributes):
    async def make_service(self, **options):
        return adapter(**options)

    return type("Suite", (AdapterSuite,), {"make_service": make_service, **attributes})()


def cases(test):
    """All arguments that the marks of a test give it."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    tables = []
    for mark in marks:
        names, values = mark.args
        several = not isinstance(names, str)
        tables.append(
            [
                dict(zip(names, value, strict=True)) if several else {names: value}
                for value in values
            ]
        )
    for parts in itertools.product(*tables):
        yield {name: value for part in parts for name, value in part.items()}


async def failures(suite, name, access="adapter"):
    """How many cases of a test fail, by pytest's own and all other exceptions."""
    test, failed = getattr(suite, f"test_{name}"), 0
    for arguments in cases(test):
        try:
            await test(make=partial(suite.subject, access), **arguments)
        except (Exception, pytest.fail.Exception):
            failed += 1
    return failed


@pytest.mark.parametrize("access", ["adapter", "app"])
@pytest.mark.parametrize("adapter", BROKEN, ids=lambda adapter: adapter.__name__)
async def test_a_broken_adapter_does_not_pass(adapter, access):
    noticed = access == "adapter" or adapter not in DIRECTLY
    for name in BROKEN[adapter]:
        assert bool(await failures(suite_for(adapter), name, access)) is noticed, name


def test_every_test_of_the_suite_can_fail():
    noticed = {name for names in BROKEN.values() for name in names}
    assert noticed - TESTS == set()
    assert TESTS - noticed == {SELF_CHECK}


async def test_the_counting_itself_is_right():
    suite = suite_for(MemoryService)
    for name in sorted(TESTS - {SELF_CHECK}):
        assert await failures(suite, name) == 0


async def test_new_records_without_dollar_keys_are_right_too():
    class Strict(MemoryService):
        dollar_keys = AdapterService.dollar_keys

    suite = suite_for(Strict)
    assert await failures(suite, "operators_in_new_records_mean_nothing") == 0
    assert await failures(suite, "operators_in_changes_are_refused") == 0


async def test_unknown_features_are_named():
    suite = suite_for(MemoryService, unsupported={"lists": "none", "transactions": "none"})
    with pytest.raises(AssertionError, match=r"\['transactions'\]"):
        await suite.test_declares_features_that_there_are()
    suite = suite_for(MemoryService, unsupported=dict.fromkeys(FEATURES, "none"))
    await suite.test_declares_features_that_there_are()


async def test_the_error_of_a_suite_without_a_service_has_advice():
    class Unfinished(AdapterSuite):
        pass

    with pytest.raises(NotImplementedError, match=r"Unfinished defines `async def make_service"):
        await Unfinished().subject("adapter")


FEATURE_TESTS = {
    "atomic create": "create_stores_all_or_none",
    "dotted names": "dotted_names_lead_into_objects",
    "free names": "names_from_javascript_are_names",
    "id property": "the_id_property_has_any_name",
    "lists": "lists_match_by_their_elements",
    "mixed types": "types_are_told_apart",
    "nothing is null": "a_missing_field_is_null",
    "own fields": "a_record_has_its_own_fields",
    "own ids": "create_keeps_an_id_that_is_brought",
    "parts": "select_keeps_parts_of_objects",
    "regular expressions": "regular_expressions_select",
}


@pytest.mark.parametrize("feature", FEATURES)
async def test_what_is_declared_is_expected_to_fail(feature):
    name = FEATURE_TESTS[feature]
    broken = next(adapter for adapter, tests in BROKEN.items() if name in tests)
    suite = suite_for(broken, unsupported={feature: "for a reason"})
    with pytest.raises(pytest.xfail.Exception, match=f"{feature}: for a reason"):
        await getattr(suite, f"test_{name}")(make=partial(suite.subject, "adapter"))


@pytest.mark.parametrize("feature", FEATURES)
async def test_a_declaration_that_is_not_true_fails(feature):
    suite = suite_for(MemoryService, unsupported={feature: "for a reason"})
    with pytest.raises(pytest.fail.Exception, match=f"declares {feature!r}.* take it out"):
        await getattr(suite, f"test_{FEATURE_TESTS[feature]}")(make=partial(suite.subject, "app"))


async def test_a_part_of_a_feature_may_be_there():
    suite = suite_for(MemoryService, unsupported={"dotted names": "for a reason"})
    assert await failures(suite, "patch_replaces_objects_inside") == 0
    broken = next(a for a, tests in BROKEN.items() if "patch_replaces_objects_inside" in tests)
    suite = suite_for(broken, unsupported={"dotted names": "for a reason"})
    with pytest.raises(pytest.xfail.Exception, match="dotted names: for a reason"):
        await suite.test_patch_replaces_objects_inside(make=partial(suite.subject, "adapter"))


@pytest.mark.parametrize(
    ("name", "unsupported"),
    [
        ("criteria_select", "mixed types"),
        ("a_missing_field_is_null", "mixed types"),
        ("a_query_can_not_turn_pages_off", "free names"),
        ("create_answers_the_new_record", "own fields"),
        ("names_from_javascript_are_names", "own fields"),
    ],
)
async def test_a_declaration_is_about_its_feature_only(name, unsupported):
    for broken in (adapter for adapter, tests in BROKEN.items() if name in tests):
        suite = suite_for(broken, unsupported={unsupported: "for a reason"})
        assert await failures(suite, name), broken


THEIR_TESTS = """
import pytest
from alula.adapters.base import AdapterService
from alula.adapters.memory import MemoryService
from alula.testing import AdapterSuite

class Forgetful(MemoryService):
    async def _remove(self, id, query, params, options):
        return [record.copy() for record in self._selected_records(id, query)]

class TestForgetful(AdapterSuite):
    pytestmark = pytest.mark.anyio
    unsupported = {"lists": "there are none", "own ids": "there are none"}

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    async def make_service(self, **options):
        if "id" in options:
            assert options == {"id": "number"}, "and this is shown"
            raise ValueError("no other name")
        return Forgetful(**options)
"""


def test_it_runs_in_a_project_of_its_own(tmp_path):
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    chosen = "remove_answers or lists_match or create_keeps or any_name or update_replaces"
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-k", chosen]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(alula.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    for outcome, name in (
        ("PASSED", "update_replaces_the_record[adapter]"),
        ("PASSED", "update_replaces_the_record[app]"),
        ("FAILED", "remove_answers_what_is_gone[app]"),
        ("FAILED", "the_id_property_has_any_name[adapter]"),
        ("FAILED", "lists_match_by_their_elements[adapter]"),
        ("FAILED", "create_keeps_an_id_that_is_brought[app]"),
    ):
        assert f"{outcome} test_theirs.py::TestForgetful::test_{name}" in done.stdout
    assert "`unsupported` declares 'lists', but the store has it: take it out" in done.stdout
    assert "8 failed, 2 passed" in done.stdout
    # The rules' own assertions are rewritten: a failure shows what was compared.
    assert "assert ['Ada', 'Bela', 'Cleo'] == ['Ada', 'Cleo']" in done.stdout
