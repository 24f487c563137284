"""The work that queries of streams may take."""

import pytest

from alula.errors import TooManyRequests
from alula.realtime._match_limit import MAX_STEPS, STEPS_A_SECOND, MatchLimit, MatchLimits


def test_is_spent_and_comes_back_over_time():
    now = 0.0
    limit = MatchLimit(lambda: now)
    limit.spend(MAX_STEPS - 1)
    limit.spend(10_000)
    with pytest.raises(TooManyRequests, match="send fewer conditions"):
        limit.spend(1)
    now = 1.0
    limit.spend(STEPS_A_SECOND)
    with pytest.raises(TooManyRequests):
        limit.spend(1)
    now = 1_000.0  # not more than at first
    limit.spend(MAX_STEPS)
    with pytest.raises(TooManyRequests):
        limit.spend(1)


def test_is_one_for_all_streams_of_a_client(monkeypatch):
    monkeypatch.setattr("alula.realtime._match_limit.MAX_CLIENTS", 2)
    limits = MatchLimits()
    first = limits.of_client("a")
    assert limits.of_client("a") is first
    assert limits.of_client("b") is not first
    assert limits.of_client(None) is not limits.of_client(None)
    limits.of_client("a")
    limits.of_client("c")  # the one that came last longest ago is forgotten
    assert limits.of_client("a") is first
    assert len(limits._limits) == 2
