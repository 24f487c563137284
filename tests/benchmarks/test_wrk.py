"""What wrk is asked for, and which responses end a run."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from benchmarks.contenders import Row
from benchmarks.wrk import check_status, idle_connections, measure
from tests.requirements import require_wrk

HEAD = re.compile(rb"(\w+) (\S+) HTTP/1.1\r\n((?:[^\r]+\r\n)*)\r\n")


class Load(asyncio.Protocol):
    """A server that notes what arrives together, and responds with the statuses in turn."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.closes_after: float | None = None
        self.requests = 0
        self.at_once: Counter[int] = Counter()
        self.seen: list[bytes] = []
        self.open: set[asyncio.BaseTransport] = set()

    def protocol(self) -> asyncio.Protocol:
        load = self

        class Connection(asyncio.Protocol):
            def connection_made(self, transport):
                self.transport = transport
                load.open.add(transport)

            def connection_lost(self, _):
                load.open.discard(self.transport)

            def data_received(self, data):
                found = HEAD.findall(data)
                load.at_once[len(found)] += 1
                load.seen.append(data)
                for _ in found:
                    status = load.statuses[load.requests % len(load.statuses)]
                    load.requests += 1
                    line = b"HTTP/1.1 %d Any\r\nContent-Length: 2\r\n\r\n{}" % status
                    self.transport.write(line)
                if load.closes_after is not None:
                    asyncio.get_running_loop().call_later(load.closes_after, self.transport.close)

        return Connection()


@pytest.fixture
def load() -> Load:
    return Load()


@pytest.fixture
def base(load) -> Iterator[str]:
    """Run the server in a thread, and return its base URL."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(load.protocol, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    for transport in list(load.open):
        transport.close()
    server.close()
    loop.run_until_complete(server.wait_closed())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.mark.parametrize("status", [200, 404])
def test_a_first_request_has_the_status_of_the_row(base, load, status):
    load.statuses = [status]
    check_status(base, Row("get", "/memory/5?x=1", status=status), ("X-One: 1: 2",))
    (request,) = load.seen
    assert request.startswith(b"GET /memory/5?x=1 HTTP/1.1\r\n")
    assert b"X-One: 1: 2\r\n" in request


@pytest.mark.parametrize("status", [302, 400, 404])
def test_another_status_ends_the_run(base, load, status):
    """Of these wrk tells only that some are 400 or more, and of a redirect nothing."""
    load.statuses = [status]
    expected = 403 if status >= 400 else 200
    with pytest.raises(
        SystemExit, match=rf"get at {base} gave {status}, not {expected}: b'\{{\}}'"
    ):
        check_status(base, Row("get", "/", status=expected), ())


def test_a_row_with_a_script_has_no_path_to_ask_for(base, load):
    check_status(base, Row("get", "/", "get.lua"), ())
    assert load.seen == []


@pytest.mark.slow
@pytest.mark.untraced
class TestWithWrk:
    @pytest.fixture(autouse=True)
    def wrk(self):
        require_wrk()

    @pytest.mark.parametrize("status", [200, 404])
    def test_counts_the_requests(self, base, load, status):
        load.statuses = [status]
        figure = measure(base, Row("get", "/", status=status, headers=("X-One: 1",)), 1)
        # Those that had no response at the end are not counted.
        assert 0 < figure.requests <= load.requests
        assert b"X-One: 1\r\n" in load.seen[-1]

    @pytest.mark.parametrize("status", [200, 404])
    def test_some_other_statuses_end_the_run(self, base, load, status):
        load.statuses = [status, 200, 404]
        with pytest.raises(SystemExit, match=r"get at .* gave \d+ errors, not \d+"):
            measure(base, Row("get", "/", status=status), 1)

    def test_a_pipeline_sends_16_at_once(self, base, load):
        figure = measure(base, Row("get", "/memory/5", "pipeline.lua", connections=4), 1)
        assert set(load.at_once) == {16}
        assert figure.requests > 16
        assert load.seen[0].startswith(b"GET /memory/5 HTTP/1.1\r\n")

    def test_a_message_has_1_000_bytes(self, base, load):
        measure(base, Row("create", "/messages", "create_1kb.lua", 4, status=201), 1)
        heads, bodies = zip(*(request.split(b"\r\n\r\n") for request in load.seen), strict=True)
        assert all(head.startswith(b"POST /messages ") for head in heads)
        assert all(b"Content-Type: application/json" in head for head in heads)
        assert {len(body) for body in bodies} == {1_000}


@pytest.mark.slow
@pytest.mark.untraced
class TestIdleConnections:
    def test_are_open_meanwhile(self, base, load):
        with idle_connections(base, Row("get", "/memory/5", idle=150)):
            assert len(load.open) == load.requests == 150

    def test_that_the_server_closes_end_the_run(self, base, load):
        load.closes_after = 0.0
        with (
            pytest.raises(SystemExit, match="has closed 3 idle connections"),
            idle_connections(base, Row("get", "/memory/5", idle=3)),
        ):
            pass

    def test_no_row_without_them_opens_any(self, base, load):
        with idle_connections(base, Row("get", "/memory/5")):
            assert load.open == set()
