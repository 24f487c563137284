"""Every required case of draft 2020-12 in the official JSON Schema test suite.

Groups whose schema has a keyword that is not supported are refused, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.schema.official_suite import remotes, require_suite, required

from alula.schema import SchemaError, Validator

pytestmark = pytest.mark.slow

AT_LEAST = 1_000
REFUSED = {
    "dynamicRef.json",
    "unevaluatedItems.json",
    "unevaluatedProperties.json",
    "vocabulary.json",
    "not.json",
    "ref.json",  # one group each
}


@pytest.fixture(scope="module")
def suite():
    return require_suite()


@pytest.fixture(scope="module")
def groups(suite) -> list[tuple[str, dict[str, Any], Validator | None]]:
    """Each file and group with its validator, None where the schema is refused."""
    return list(compiled(suite))


def compiled(suite) -> Iterator[tuple[str, dict[str, Any], Validator | None]]:
    others = remotes(suite)
    for file, group in required(suite):
        try:
            validator = Validator(
                group["schema"], formats=False, strict=False, defaults=False, schemas=others
            )
        except SchemaError as error:
            if "is not supported" not in str(error):
                raise
            yield file, group, None
        else:
            yield file, group, validator


def test_validation_passes_every_required_case(groups):
    wrong, count = [], 0
    for file, group, validator in groups:
        for case in group["tests"] if validator else ():
            count += 1
            if validator.is_valid(case["data"]) is not case["valid"]:
                wrong.append(f"{file}: {group['description']}: {case['description']}")
    assert wrong == []
    assert count > AT_LEAST


def test_only_schemas_with_unsupported_keywords_are_refused(groups):
    assert {file for file, _, validator in groups if validator is None} == REFUSED
    assert any(validator for file, _, validator in groups if file == "ref.json")


def test_what_fits_is_returned_as_it_is(groups):
    for _, group, validator in groups:
        for case in group["tests"] if validator else ():
            if case["valid"]:
                assert validator.validate(case["data"]) == case["data"]
