"""Patterns mean in Python what they mean in JavaScript."""

from __future__ import annotations

import re

import pytest

from alula.schema import SchemaError, Validator
from alula.schema._json_schema.formats import python_pattern

MATCHES = [
    (r"^\d+$", "12", True),
    (r"^\d+$", "12\n", False),
    (r"^\d+$", "١٢", False),
    (r"^\D$", "\u0661", True),
    (r"^\w+$", "ü", False),
    (r"^[\w-]+$", "a-b_1", True),
    (r"^[\d\D]$", "x", True),
    (r"^[\W]$", "-", True),
    (r"^\W$", "a", False),
    (r"^[^]$", "\n", True),
    (r"a[]", "a", False),
    (r"^[$]$", "$", True),
    (r"^\$$", "$", True),
    (r"^[[a]$", "[", True),
    (r"^\u{1F600}$", "😀", True),
    (r"^\cA$", "\x01", True),
    (r"^(?<year>\d{4})-\k<year>$", "2024-2024", True),
    (r"^(?<year>\d{4})-\k<year>$", "2024-2025", False),
    (r"(?<=a)b", "ab", True),
    (r"(?<!a)b", "ab", False),
    (r"^\Z$", "Z", True),
    (r"^a\/b$", "a/b", True),
    (r"^\p{Lu}\p{Lowercase_Letter}+$", "Äpfel", True),
    (r"^\p{Letter}+$", "a1", False),
    (r"^\P{L}$", "1", True),
    (r"^[\p{Nd}.]+$", "1.٣", True),
]


@pytest.mark.parametrize(("pattern", "text", "wanted"), MATCHES)
def test_matches(pattern, text, wanted):
    assert bool(re.search(python_pattern(pattern), text)) is wanted


@pytest.mark.parametrize("pattern", ["(", "[a", r"\p{Greek}", r"\u{110000}", "a{2,1}", r"\p{Lx}"])
def test_the_error_of_an_invalid_pattern_has_its_location(pattern):
    with pytest.raises(SchemaError, match=r"at #/properties/a/pattern: .* not a regular"):
        Validator({"properties": {"a": {"pattern": pattern}}})
    with pytest.raises(SchemaError, match=r"at #/patternProperties/.* not a regular"):
        Validator({"patternProperties": {pattern: True}})
