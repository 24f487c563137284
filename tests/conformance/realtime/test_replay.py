"""The player of real-time cases notices what differs."""

from __future__ import annotations

import pytest
from tests.conformance.realtime.official_clients import ClientFailed
from tests.conformance.realtime.replay import (
    compare,
    expanded,
    framed,
    in_one_order,
    outcome_of,
    play,
    shortened,
)
from tests.conformance.replay import Case
from tests.conformance.wire import Reply

CONNECT = {"connect": "a", "expect": {"connected": True, "transport": "websocket"}}


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        ("2probe", "2probe"),
        ('42["created",{}]', ["42", ["created", {}]]),
        ('0{"sid":"x"}', ["0", {"sid": "x"}]),
        ("42[", "42["),
    ],
)
def test_a_packet_is_its_head_and_its_json(packet, expected):
    assert framed(packet) == expected


def test_texts_can_be_written_short():
    assert expanded({"$concat": ["42", {"$repeat": ["ab", 2]}]}) == "42abab"
    assert shortened("x" * 1000) == "x" * 1000
    assert shortened("x" * 50_000) == {"$long": 50_000, "sha1": "2a08c1774bdb"}


def test_events_without_an_order_are_sorted():
    assert in_one_order([["b", 1], ["a", 2], ["a", 1]]) == [["a", 1], ["a", 2], ["b", 1]]


def test_only_expected_headers_and_parts_of_an_answer_count():
    reply = Reply(200, {"content-type": "text/plain", "x-other": "1"}, "6\x1e40")
    outcome = outcome_of(reply, in_packets=True)
    assert compare({"status": 200, "packets": ["6", "40"]}, outcome) == []
    assert compare({"status": 200, "headers": {"content-type": "text/plain"}}, outcome) == []
    assert compare({"status": 200, "headers": {"content-type": "text/html"}}, outcome)
    assert compare({"status": 200, "packets": ["6"]}, outcome)
    assert compare({"status": 400}, outcome)
    assert compare({"status": 200}, {})


@pytest.mark.parametrize(
    ("steps", "difference"),
    [
        ([{**CONNECT, "expect": {"connected": True, "transport": "polling"}}], "transport"),
        (
            [CONNECT, {"call": "a", "args": ["get", "echo", 1], "expect": {"noAck": True}}],
            "got.noAck",
        ),
        (
            [
                CONNECT,
                {"events": {"a": []}, "within": 50, "expect": {"a": [["feed created", {}]]}},
            ],
            "got.a",
        ),
        (
            [CONNECT, {"call": "a", "args": ["create", "feed", {"text": "new"}]}],
            "a got what was not expected: [['feed created', {'text': 'new', 'id': 4}]]",
        ),
        ([{"call": "nobody", "args": ["find", "feed"]}], "there is no client nobody"),
        (
            [{"ws": "r", "path": "/nowhere", "expect": {"open": True}}],
            "got.open: expected true, got nothing",
        ),
    ],
)
def test_what_differs_is_told(reference, official_clients, steps, difference):
    found = play(Case("area", "name", steps), reference, official_clients)
    assert any(difference in line for line in found), found


def test_a_client_that_is_gone_cannot_do_anything(official_clients):
    with pytest.raises(ClientFailed, match="there is no client a"):
        official_clients.do("disconnect", client="a")
