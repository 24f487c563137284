"""The first steps of a new user work for every pair of answers."""

from __future__ import annotations

import itertools
import shutil

import pytest
from tests.generator.journey import (
    DATABASES,
    EVERYTHING,
    PAIRWISE,
    STARTS,
    Answers,
    JourneyError,
    try_all,
)
from tests.requirements import absent, require_mongod

NO_CURL = "no curl on the PATH: the first steps of a new user are left out"


@pytest.mark.slow
@pytest.mark.release
def test_every_pair_of_answers_leads_to_an_application(tmp_path, capsys):
    require_mongod()
    if shutil.which("curl") is None:
        absent(NO_CURL)
    try:
        clocks = try_all(tmp_path, PAIRWISE)
    except JourneyError as error:
        if "No matching distribution" in str(error) or "Failed to establish" in str(error):
            absent(f"no package index, so the first steps of a new user are left out: {error}")
        raise
    with capsys.disabled():
        for row, clock in clocks.items():
            print(f"\njourney: {row.name}: {clock}", end="")


def test_the_rows_hold_every_pair_of_answers():
    for one, other in itertools.combinations(Answers._fields[:3], 2):
        wanted = {(getattr(row, one), getattr(row, other)) for row in EVERYTHING}
        assert {(getattr(row, one), getattr(row, other)) for row in PAIRWISE} == wanted
    assert {row.start for row in PAIRWISE} == set(STARTS)
    assert set(PAIRWISE) <= set(EVERYTHING)


def test_every_combination_has_a_folder_of_its_own():
    names = {row.name for row in EVERYTHING}
    assert len(names) == len(EVERYTHING) == len(DATABASES) * 2 * 2 * len(STARTS)
    assert all(len(name) <= 24 for name in names)
