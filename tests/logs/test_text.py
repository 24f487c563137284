"""One line stays one line."""

from __future__ import annotations

import pytest

from alula.logs._text import one_line, short_line


@pytest.mark.parametrize("char", ["\n", "\r", "\x1b", "\x00", "\x7f", "\x85", "\u2028", "\u2029"])
def test_what_could_begin_a_line_or_steer_a_terminal_is_written_out(char):
    assert one_line(f"a{char}b") == f"a\\x{ord(char):02x}b"


@pytest.mark.parametrize("char", ["\u202a", "\u202e", "\u2066", "\u2069"])
def test_what_turns_the_direction_of_writing_is_written_out(char):
    assert one_line(f"a{char}b") == f"a\\x{ord(char):x}b"


def test_half_of_a_surrogate_pair_is_written_out():
    one_line("a\ud800b").encode()
    assert one_line("a\ud800b \U0001f600") == "a\\ud800b \U0001f600"


def test_all_else_stays():
    assert one_line("Grüße, 世界 \\ 'x'") == "Grüße, 世界 \\ 'x'"


def test_nothing_that_is_to_be_written_out_counts_as_printable():
    codes = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000)]
    codes += [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    assert all(one_line(chr(code)) == f"\\x{code:02x}" for code in codes if code < 0xD800)
    assert all(one_line(chr(code)) == f"\\u{code:x}" for code in codes if code >= 0xD800)


@pytest.mark.parametrize(("sent", "kept"), [(2000, "a" * 2000), (2001, "a" * 2000 + "...")])
def test_what_is_long_is_cut_and_shows_it(sent, kept):
    assert short_line("a" * sent) == kept


def test_a_short_line_is_one_line():
    assert short_line("a\nb") == "a\\x0ab"
