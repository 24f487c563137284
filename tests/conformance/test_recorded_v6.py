"""Every exchange recorded from FeathersJS 6, and what its client reads of a stream."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest
from tests.conformance.comparison import compare, differences
from tests.conformance.replay import HERE, load, send
from tests.conformance.serving import served
from tests.conformance.wire import Reply, body_of

CASES = [*load([HERE / "vectors-v6"])]
SECONDS_TO_READ = 20
"""What is recorded came within two seconds; a machine with other tests needs more."""


def name(case):
    return f"{case.area}/{case.name}"


@pytest.fixture(scope="module")
def base():
    with served("reference_v6") as bases:
        yield bases.main


class Stream:
    """A stream as the client of FeathersJS 6 reads it."""

    def __init__(self, base, request):
        parts = urlsplit(base)
        self.connection = http.client.HTTPConnection(
            parts.hostname, parts.port, timeout=SECONDS_TO_READ
        )
        headers = request.get("headers", {})
        self.connection.request(request["method"], request["path"], body_of(request), headers)
        self.answer = self.connection.getresponse()
        self.text = ""

    @property
    def reply(self):
        headers = {name.lower(): value for name, value in self.answer.headers.items()}
        return Reply(self.answer.status, headers, "")

    def read(self, count):
        """Return the next items."""
        while len(found := items_of(self.text)) < count:
            got = self.answer.read1()
            assert got, f"the stream has ended with {found}"
            self.text += got.decode()
        self.text = self.text.rpartition("\n\n")[2]
        return found

    def assert_quiet(self, seconds):
        self.connection.sock.settimeout(seconds)
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.text += self.answer.read1().decode()
        except TimeoutError:
            pass
        self.connection.sock.settimeout(SECONDS_TO_READ)
        assert items_of(self.text) == []

    def close(self):
        self.answer.close()
        self.connection.close()


def items_of(text):
    """Return the items of a stream: the first line of data of each block that has an end."""
    lines = (block.split("\n") for block in text.split("\n\n")[:-1])
    data = (next((line for line in block if line.startswith("data: ")), None) for block in lines)
    return [json.loads(line[6:]) for line in data if line is not None]


def differences_of(step, reply):
    """Return how an answer differs; it may say more about caches, and streams have no charset."""
    expected = {**step["response"], "headers": {**step["response"].get("headers", {})}}
    cache = expected["headers"].pop("cache-control", "")
    found = compare(expected, reply)
    if not set(cache.split(", ")) <= {"", *reply.headers.get("cache-control", "").split(", ")}:
        found.append(f"cache-control: {reply.headers.get('cache-control')}")
    content_type = expected.get("contentType")
    if content_type is not None and reply.headers["content-type"] != content_type:
        found.append(f"content-type: {reply.headers['content-type']}")
    return found


def assert_probe(base, expected):
    """Wait until the streams are as expected: a client that leaves is noticed a moment later."""
    end = time.monotonic() + SECONDS_TO_READ
    while differences({"$has": expected}, send(base, "GET", "/__probe").json(), "probe"):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("case", [case for case in CASES if case.quirk is None], ids=name)
def test_answers_as_recorded(case, base):
    assert send(base, "POST", "/__reset").status == 204
    with ExitStack() as stack:
        streams = {}
        for step in case.steps:
            if "open" in step:
                stream = stack.enter_context(closing(Stream(base, step["request"])))
                streams[step["open"]] = stream
                assert differences_of(step, stream.reply) == []
            elif "read" in step:
                items = streams[step["read"]].read(len(step["events"]))
                assert differences(step["events"], items, "items") == []
            elif "quiet" in step:
                streams[step["quiet"]].assert_quiet(step["ms"] / 1000)
            elif "leave" in step:
                streams[step["leave"]].close()
            elif "probe" in step:
                assert_probe(base, step.get("better", step["probe"]))
            else:
                request = step["request"]
                given = request.get("headers", {})
                reply = send(base, request["method"], request["path"], given, body_of(request))
                assert differences_of(step, reply) == []


@pytest.mark.parametrize("case", [case for case in CASES if case.quirk], ids=name)
def test_never_answers_a_quirk_by_a_failure(case, base):
    for step in case.steps:
        request = step["request"]
        given = request.get("headers", {})
        reply = send(base, request["method"], request["path"], given, body_of(request))
        assert reply.status < 500 or request["path"].startswith("/failing/")
        assert "Traceback" not in reply.text
