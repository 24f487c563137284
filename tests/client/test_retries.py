"""Which calls are tried again, and after how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.client.faking import faked

from alula import errors
from alula.client._codec import Response
from alula.client._retries import NO_RETRIES, Retries, read_retries

THREE = Retries(3)
LOST = (errors.Unavailable("down"), None)


def answered(status=503, **headers):
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return errors.FrameworkError("down"), Response(status, told, b"")


class TestWhichCalls:
    @pytest.mark.parametrize(
        ("method", "times"),
        [("find", 2), ("get", 2), ("update", 2), ("remove", 2), ("create", 1), ("patch", 1)],
    )
    async def test_those_that_may_be_repeated(self, method, times):
        client, fetch = faked((503, None, {"retry-after": "0"}), retries=1)
        with pytest.raises(errors.Unavailable):
            await client.service("s").call(method, 1, {})
        assert len(fetch.calls) == times

    @pytest.mark.parametrize("kind", [errors.Timeout, errors.GeneralError, errors.BadGateway])
    def test_not_where_something_else_failed_on_this_side(self, kind):
        assert THREE.delay(kind("no"), None, 0, 0) is None

    @pytest.mark.parametrize("status", [200, 301, 404, 408, 500, 501, 504])
    def test_not_after_other_answers(self, status):
        assert THREE.delay(*answered(status), 0, 0) is None

    @pytest.mark.parametrize("status", [429, 502, 503])
    def test_after_answers_that_pass(self, status):
        assert THREE.delay(*answered(status), 2, 0) is not None

    def test_not_more_often_than_retries(self):
        assert THREE.delay(*LOST, 3, 0) is None
        assert NO_RETRIES.delay(*LOST, 0, 0) is None


class TestHowLong:
    def test_the_pauses_grow_up_to_a_limit(self):
        many = Retries(50)
        for attempt, longest in ((0, 0.1), (1, 0.2), (2, 0.4), (10, 5.0), (49, 5.0)):
            assert longest / 2 <= many.delay(*LOST, attempt, 0) <= longest

    def test_the_server_may_say(self):
        assert THREE.delay(*answered(retry_after=" 7 "), 0, 0) == 7.0
        assert THREE.delay(*answered(retry_after="0"), 0, 0) == 0.0

    def test_it_may_name_a_moment(self):
        later = datetime.now(UTC) + timedelta(seconds=20)
        wait = THREE.delay(*answered(retry_after=format_datetime(later, usegmt=True)), 0, 0)
        assert 5 < wait <= 20
        past = "Wed, 21 Oct 2015 07:28:00 GMT"
        assert THREE.delay(*answered(retry_after=past), 0, 0) == 0.0
        assert THREE.delay(*answered(retry_after=past.replace("GMT", "-0000")), 0, 0) == 0.0

    def test_what_is_neither_counts_for_nothing(self):
        assert THREE.delay(*answered(retry_after="soon"), 0, 0) <= 0.1

    def test_nothing_goes_past_the_deadline(self):
        hasty = Retries(3, deadline=10)
        assert hasty.delay(*answered(retry_after="5"), 0, 5.0) == 5.0
        assert hasty.delay(*answered(retry_after="5"), 0, 5.1) is None


class TestTheOption:
    def test_its_forms(self):
        assert read_retries(None) is NO_RETRIES
        assert read_retries(0) == NO_RETRIES
        assert read_retries(3) == Retries(3, 30.0)
        assert read_retries({"attempts": 2, "deadline": 5}) == Retries(2, 5)
        assert read_retries({"attempts": 2}) == Retries(2, 30.0)

    @pytest.mark.parametrize(
        "value",
        [
            -1,
            1.5,
            True,
            "3",
            [3],
            {"times": 3},
            {"attempts": None},
            {"attempts": 1, "deadline": 0},
            {"attempts": 1, "deadline": "5"},
        ],
    )
    def test_what_it_cannot_be(self, value):
        with pytest.raises(ValueError, match=r"`retries` is .*how often"):
            read_retries(value)
