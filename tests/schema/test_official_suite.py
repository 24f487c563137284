"""Every required case of draft 2020-12 in the official JSON Schema test suite."""

from __future__ import annotations

import pytest
from tests.schema.official_suite import remotes, require_suite, required

from alula.schema import Validator

AT_LEAST = 1_200


@pytest.fixture(scope="module")
def suite():
    return require_suite()


def test_plain_validation_passes_every_required_case(suite):
    others, wrong, count = remotes(suite), [], 0
    for file, group in required(suite):
        validator = Validator(
            group["schema"], formats=False, strict=False, defaults=False, schemas=others
        )
        for case in group["tests"]:
            count += 1
            if validator.is_valid(case["data"]) is not case["valid"]:
                wrong.append(f"{file}: {group['description']}: {case['description']}")
    assert wrong == []
    assert count > AT_LEAST


def test_what_fits_is_returned_as_it_is(suite):
    others = remotes(suite)
    for _, group in required(suite):
        validator = Validator(
            group["schema"], formats=False, strict=False, defaults=False, schemas=others
        )
        for case in group["tests"]:
            if case["valid"]:
                assert validator.validate(case["data"]) == case["data"]
