"""What is said about versions, extras and releases agrees with what is there."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from tests.packaging.built import ROOT

import alula

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

HEADING = re.compile(
    r"Unreleased \((?P<next>\d+\.\d+\.\d+)\)|(?P<version>\d+\.\d+\.\d+) - (?P<date>\d{4}-\d\d-\d\d)"
)
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def headings_of(changelog: str) -> list[re.Match[str]]:
    """Return the versions of a changelog, in its order.

    Raises:
        AssertionError: A heading has another form.
    """
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    found = [HEADING.fullmatch(heading) for heading in headings]
    assert None not in found, f"a heading is no version: {headings}"
    return [each for each in found if each]


def number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_the_version_is_the_newest_of_the_changelog():
    newest = headings_of(CHANGELOG)[0]
    assert alula.__version__ == (newest["next"] or newest["version"])


def test_versions_and_dates_go_backwards():
    headings = headings_of(CHANGELOG)
    assert all(each["version"] for each in headings[1:])
    versions = [number(each["next"] or each["version"]) for each in headings]
    assert versions == sorted(set(versions), reverse=True)
    dates = [datetime.date.fromisoformat(each["date"]) for each in headings if each["date"]]
    assert dates == sorted(dates, reverse=True)


def test_changes_stand_in_sections_that_are_known():
    assert set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE)) <= SECTIONS


@pytest.mark.parametrize("heading", ["Unreleased", "0.1.0", "v0.1.0 - 2026-01-01", "0.1 - soon"])
def test_another_form_is_noticed(heading):
    with pytest.raises(AssertionError, match="a heading is no version"):
        headings_of(f"# Changelog\n\n## {heading}\n")


def test_both_forms_are_taken():
    first, second = headings_of("## Unreleased (0.2.0)\n\n## 0.1.0 - 2026-01-31\n")
    assert (first["next"], second["version"], second["date"]) == ("0.2.0", "0.1.0", "2026-01-31")


def test_the_pythons_that_are_named_are_those_that_are_taken():
    known = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert all(SpecifierSet(PROJECT["requires-python"]).contains(each) for each in known)
    least = PROJECT["requires-python"].removeprefix(">=")
    assert least in known
    assert f"Python {least} or later" in CONTRIBUTING


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_extra_that_a_page_names_is_there(page):
    named = re.findall(r"alula\[([\w,-]+)\]", page.read_text())
    extras = {extra for each in named for extra in each.split(",")}
    assert extras <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_command_that_a_page_names_is_there(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    named = set(re.findall(r"`make ([a-z-]+)[^`]*`|^make ([a-z-]+)", text, re.MULTILINE))
    assert {first or second for first, second in named} <= targets


def test_the_steps_of_a_release_name_what_is_there():
    steps = CONTRIBUTING.partition("## Release")[2]
    assert steps.count("\n1. ") == 1
    named = [each for each in re.findall(r"`([\w./-]+/[\w./-]+)`", steps) if "*" not in each]
    assert {"src/alula/__init__.py", ".ci/run", "tests/packaging"} <= set(named)
    assert [each for each in named if not Path(ROOT / each).exists()] == []
