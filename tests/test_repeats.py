"""Lines that repeat are written once in some seconds."""

from __future__ import annotations

import pytest

from alula._repeats import RepeatLimit


@pytest.fixture
def clock(monkeypatch):
    seconds = [50.0]
    monkeypatch.setattr("alula._repeats.monotonic", lambda: seconds[0])
    return seconds


def test_repetitions_are_left_out_and_counted(clock):
    limit = RepeatLimit(10)
    assert [limit.suffix("a") for _ in range(4)] == ["", None, None, None]
    assert limit.suffix("b") == ""
    clock[0] += 9.9
    assert limit.suffix("a") is None
    clock[0] += 0.1
    assert limit.suffix("a") == " (4 more of these since the last line)"
    assert limit.suffix("a") is None
    clock[0] += 10
    assert limit.suffix("b") == ""


def test_it_does_not_grow(clock):
    limit = RepeatLimit(10)
    for number in range(1_000):
        assert limit.suffix(f"line {number}") == ""
    assert len(limit._lines) == 100
    assert limit.suffix("line 999") is None
    assert limit.suffix("line 0") == ""
