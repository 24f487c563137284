"""The work that queries of streams may take, and the lines of clients in the log."""

import pytest

from alula.errors import TooManyRequests
from alula.realtime._limits import (
    LOG_LINES,
    LOG_LINES_OF_ALL,
    MAX_STEPS,
    STEPS_A_SECOND,
    LogLimit,
    MatchLimit,
    MatchLimits,
)


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
    monkeypatch.setattr("alula.realtime._limits.MAX_CLIENTS", 2)
    limits = MatchLimits()
    first = limits.of_client("a")
    assert limits.of_client("a") is first
    assert limits.of_client("b") is not first
    assert limits.of_client(None) is not limits.of_client(None)
    limits.of_client("a")
    limits.of_client("c")  # the one that came last longest ago is forgotten
    assert limits.of_client("a") is first
    assert len(limits._limits) == 2


class TestLinesInTheLog:
    @pytest.fixture
    def limit(self):
        self.now = 0.0
        return LogLimit(lambda: self.now)

    def test_a_client_has_some_at_once_and_one_a_second(self, limit):
        taken = [limit.take("10.0.0.1") for _ in range(LOG_LINES + 5)]
        assert taken == [0] * LOG_LINES + [None] * 5
        self.now = 2.0
        assert [limit.take("10.0.0.1") for _ in range(3)] == [5, 0, None]

    def test_another_client_has_its_own(self, limit):
        for _ in range(LOG_LINES + 1):
            limit.take("2001:db8::1")
        assert limit.take("2001:db8::2") is None  # of the same network
        assert limit.take("2001:db8:1::1") == 0

    def test_all_together_have_a_limit(self, limit):
        taken = [limit.take(f"10.0.{number // 250}.{number % 250}") for number in range(1_010)]
        assert taken.count(0) == LOG_LINES_OF_ALL
        assert taken.count(None) == 10

    def test_those_that_are_not_known_share_that_one(self, limit):
        taken = [limit.take(None) for _ in range(LOG_LINES_OF_ALL + 3)]
        assert taken.count(None) == 3
        self.now = 1.0
        assert limit.take(None) == 3

    def test_the_clients_that_are_remembered_are_limited(self, limit, monkeypatch):
        monkeypatch.setattr("alula.realtime._limits.MAX_CLIENTS", 2)
        for _ in range(LOG_LINES + 1):
            limit.take("10.0.0.1")
        limit.take("10.0.0.2")
        limit.take("10.0.0.3")
        assert limit.take("10.0.0.1") == 0
