"""Coercion, defaults, formats and failures beside those of Ajv, on schemas made up at random."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.requirements import require_node, require_node_modules
from tests.schema.pairs import pairs

from alula.errors import BadRequest
from alula.schema import Validator

pytestmark = pytest.mark.slow

COUNT = 40_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 3_000
SEED = 20_12
BRANCHES = {"anyOf", "oneOf", "not", "if"}
SHARE_OF_BRANCHES = 0.08


@pytest.fixture(scope="module")
def compared():
    """Each pair with what Ajv and what we make of it, once with coercion and once without."""
    modules = require_node_modules("ajv", "ajv-formats")
    given = [
        {"schema": schema, "value": value, "coerce": coerce}
        for coerce in (False, True)
        for schema, value in pairs(SEED, COUNT)
    ]
    ended = subprocess.run(
        [require_node(), str(Path(__file__).with_name("ajv.mjs")), str(modules)],
        input="\n".join(map(json.dumps, given)),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    answers = list(map(json.loads, ended.stdout.splitlines()))
    assert len(answers) == len(given)
    validators = {}
    found = []
    for pair, told in zip(given, answers, strict=True):
        key = id(pair["schema"]), pair["coerce"]
        if key not in validators:
            validators[key] = Validator(pair["schema"], coerce=pair["coerce"], strict=False)
        found.append((pair, theirs(told), ours(validators[key], pair["value"])))
    return found


def theirs(told):
    return ("fits", told["value"]) if told["valid"] else ("fails", listed(told["errors"]))


def ours(validator, value):
    before = json.dumps(value)
    try:
        found = "fits", validator.validate(value)
    except BadRequest as error:
        found = "fails", listed(error.data)
    assert json.dumps(value) == before
    return found


def listed(failures):
    """All failures but those of ``uniqueItems``, which Ajv looks for before it converts."""
    some = [each for each in failures if each["keyword"] != "uniqueItems"]
    return sorted(json.dumps(each, sort_keys=True) for each in some)


def keywords(schema):
    if isinstance(schema, dict):
        yield from schema
        for below in schema.values():
            yield from keywords(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from keywords(below)


def has_branches(pair):
    return not BRANCHES.isdisjoint(keywords(pair["schema"]))


@pytest.mark.hypothesis
def test_without_coercion_all_is_as_ajv_has_it(compared):
    cases = [case for case in compared if not case[0]["coerce"]]
    assert [case for case in cases if case[1] != case[2]] == []


@pytest.mark.hypothesis
def test_with_coercion_all_is_as_ajv_has_it_where_no_schema_branches(compared):
    cases = [case for case in compared if case[0]["coerce"] and not has_branches(case[0])]
    assert [case for case in cases if case[1] != case[2]] == []


@pytest.mark.hypothesis
def test_with_coercion_few_differ_that_branch(compared):
    """Ajv leaves a value converted by a branch that fails, and goes on with that."""
    cases = [case for case in compared if case[0]["coerce"] and has_branches(case[0])]
    different = [case for case in cases if case[1] != case[2]]
    assert len(different) < SHARE_OF_BRANCHES * len(cases), different[:3]


@pytest.mark.hypothesis
def test_the_pairs_are_of_every_sort(compared):
    outcomes = [theirs_[0] for _, theirs_, _ in compared]
    assert 0.15 < outcomes.count("fits") / len(outcomes) < 0.85
    met = {
        json.loads(failure)["keyword"]
        for _, (outcome, failures), _ in compared
        if outcome == "fails"
        for failure in failures
    }
    assert met >= {
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "false schema",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "items",
        "required",
        "additionalProperties",
        "dependentRequired",
        "propertyNames",
        "minProperties",
        "maxProperties",
    }
