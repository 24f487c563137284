"""The checks in JavaScript can fail, and then the test fails that asked for them."""

from __future__ import annotations

import pytest
from tests.interop.node_script import Outcome, assert_passed, run_checks


@pytest.fixture
def script(tmp_path):
    """Return what writes a script."""

    def write(text):
        path = tmp_path / "checks.mjs"
        path.write_text(text)
        return path

    return write


def test_each_line_is_an_outcome(script):
    text = """
        console.log(JSON.stringify({ name: 'one', error: null }))
        console.log(JSON.stringify({ name: 'two ü', error: process.argv[3] }))
        console.log(JSON.stringify({ name: 'three', error: null, skipped: true }))
    """
    assert run_checks(script(text), (), "broken") == {
        "one": Outcome(),
        "two ü": Outcome("broken"),
        "three": Outcome(skipped=True),
    }


def test_the_first_argument_is_the_folder_of_the_packages(script):
    text = "console.log(JSON.stringify({ name: process.argv[2], error: null }))"
    (folder,) = run_checks(script(text), ["qs"])
    assert folder.endswith("node_modules")


def test_a_script_that_ends_early_is_an_error(script):
    with pytest.raises(AssertionError, match=r"checks\.mjs ended with 1: .*gave up"):
        run_checks(script("console.error('gave up'); process.exit(1)"), ())


def test_other_output_is_an_error(script):
    with pytest.raises(AssertionError, match="no JSON: hello"):
        run_checks(script("console.log('hello')"), ())


def test_two_checks_of_a_name_are_an_error(script):
    line = "console.log(JSON.stringify({ name: 'one', error: null }));"
    with pytest.raises(AssertionError, match="two checks of the name 'one'"):
        run_checks(script(line * 2), ())


def test_a_check_that_passed_is_well():
    assert_passed({"one": Outcome()}, "one")


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ({"one": Outcome("went wrong")}, "went wrong"),
        ({"one": Outcome(skipped=True)}, "'one' was skipped"),
        ({"two": Outcome()}, r"'one' did not run; these did: \['two'\]"),
        ({}, "'one' did not run"),
    ],
)
def test_a_check_that_did_not_pass_fails_its_test(outcomes, message):
    with pytest.raises(AssertionError, match=message):
        assert_passed(outcomes, "one")
