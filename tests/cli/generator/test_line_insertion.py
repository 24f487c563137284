"""Insertion into text files that are not Python."""

from __future__ import annotations

import re

import pytest

from alula._cli.generator.insertion import (
    NoPlaceError,
    add_extra,
    add_line,
    append_lines,
    replace_line,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "# key\nKEY=\n"),
        ("A=1\n", "A=1\n\n# key\nKEY=\n"),
        ("A=1", "A=1\n\n# key\nKEY=\n"),
        ("KEY=\nA=1\n", "KEY=\nA=1\n"),
    ],
)
def test_lines_at_the_end(text, expected):
    assert append_lines(text, lines=["# key", "KEY="]) == expected


def test_lines_at_the_end_unless_there_are_others_like_them():
    assert append_lines("KEY=old\n", lines=["KEY=new"], unless="KEY=") == "KEY=old\n"
    assert append_lines("OTHER=x\n", lines=["KEY=new"], unless="KEY=") == "OTHER=x\n\nKEY=new\n"


def test_a_line_behind_another():
    text = "a:\n    b: 1  \n    c: 2\n"
    added = add_line(text, behind=re.compile(r"b: \d"), new="x: 3")
    assert added == "a:\n    b: 1  \n    x: 3\n    c: 2\n"
    assert add_line(added, behind=re.compile(r"b: \d"), new="x: 3") == added
    with pytest.raises(NoPlaceError, match="no line is 'd:'"):
        add_line(text, behind=re.compile("d:"), new="x: 3")


def test_a_line_in_the_place_of_another():
    assert replace_line("a\nb = 1\nc\n", line=re.compile("b = .*"), new="b = 2") == "a\nb = 2\nc\n"
    with pytest.raises(NoPlaceError, match="no line is"):
        replace_line("a\n", line=re.compile("b"), new="c")


def test_lines_in_place_of_one():
    old, new = "a\r\n  b\r\nc", "a\r\n  d\r\n  e\r\nc"
    assert replace_line(old, line=re.compile("b"), new="d\ne") == new
    assert replace_line(new, line=re.compile("b"), new="d\ne") == new  # it is there already


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["alula[server]>=0.1"]', '["alula[server,auth]>=0.1"]'),
        ("['alula[ server , cli ]']", "['alula[server,cli,auth]']"),
        ('["alula>=0.1"]', '["alula[auth]>=0.1"]'),
        ('["alula"]', '["alula[auth]"]'),
        ('["alula[all]"]', '["alula[all]"]'),
        ('["alula[auth,cli]"]', '["alula[auth,cli]"]'),
        ('["alula-more", "alula[cli]"]', '["alula-more", "alula[cli,auth]"]'),
    ],
)
def test_an_extra(text, expected):
    assert add_extra(text, extra="auth") == expected


@pytest.mark.parametrize("text", ["", '["other"]', '["alula-more"]', "[tool.alula]"])
def test_an_extra_of_nothing(text):
    with pytest.raises(NoPlaceError, match="it does not require alula"):
        add_extra(text, extra="auth")
