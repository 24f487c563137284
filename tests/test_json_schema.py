"""References and alternatives of JSON Schemas."""

from __future__ import annotations

import pytest

from alula._json_schema import choices_of, definition_of, resolved

WHOLE = {
    "$defs": {
        "A": {"anyOf": [{"type": "integer"}, {"$ref": "#/definitions/B"}]},
        "a/b~": {"type": "null"},
        "loop": {"$ref": "#/$defs/loop"},
        "text": "no schema",
    },
    "definitions": {"B": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/a~1b~0"}]}},
}


@pytest.mark.parametrize("reference", ["#/$defs/no", "#/no/no", "#/$defs/text/no", "https://x/y"])
def test_a_reference_that_leads_nowhere(reference):
    assert definition_of(reference, WHOLE) is None
    assert resolved({"$ref": reference}, WHOLE) == {}


def test_references():
    assert definition_of("#", WHOLE) is WHOLE
    assert resolved({"$ref": "#/$defs/a~1b~0"}, WHOLE) == {"type": "null"}
    assert resolved({"$ref": "#/$defs/loop"}, WHOLE) == {}
    assert resolved({"$ref": "#/$defs/text"}, WHOLE) == resolved(True, WHOLE) == {}


def test_alternatives_within_alternatives():
    choices = [{"type": "integer"}, {"type": "string"}, {"type": "null"}]
    assert [*choices_of({"$ref": "#/$defs/A"}, WHOLE)] == choices
    assert [*choices_of({"anyOf": True}, WHOLE)] == [{"anyOf": True}]
