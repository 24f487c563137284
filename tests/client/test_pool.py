"""Connections of the standard library: used again, given up, in time, and over TLS."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme
from tests.client.raw_server import CLOSE, RESET, STALL, answer, raw_server

from alula import errors
from alula.client import Aborted
from alula.client._codec import Request
from alula.client._pool import ConnectionPool, Exchange
from alula.client._send_options import SendOptions

LIMIT = 10_000


@pytest.fixture
def pool():
    pool = ConnectionPool()
    yield pool
    pool.close()


def run(pool, url, timeout=30.0, path="/items"):
    return Exchange(pool, Request("GET", f"{url}{path}", {}), SendOptions(timeout, LIMIT)).run()


class TestOneExchange:
    def test_what_comes_back(self, pool):
        with raw_server(answer([1], 201, x_more="yes")) as server:
            response = run(pool, server.url, path="/items?a=1")
            pool.close()
        assert (response.status, response.body) == (201, b"[1]")
        assert response.headers["x-more"] == "yes"
        assert server.requests[0].startswith(b"GET /items?a=1 HTTP/1.1\r\n")

    @pytest.mark.parametrize(("path", "line"), [("", b"GET / "), ("?a=1", b"GET /?a=1 ")])
    def test_a_base_without_a_path(self, pool, path, line):
        with raw_server((answer([]), CLOSE)) as server:
            run(pool, server.url, path=path)
        assert server.requests[0].startswith(line)

    def test_a_body_that_ends_with_its_connection(self, pool):
        with raw_server((b"HTTP/1.0 200 OK\r\n\r\n", b"[1,", b"2]", CLOSE)) as server:
            assert run(pool, server.url).body == b"[1,2]"

    def test_without_a_limit_of_time(self, pool):
        with raw_server((answer([]), CLOSE)) as server:
            assert run(pool, server.url, None).body == b"[]"

    def test_a_time_that_is_over_at_once(self, pool):
        with raw_server() as server:
            with pytest.raises(errors.Timeout):
                run(pool, server.url, 1e-9)
            assert server.requests == []

    @pytest.mark.parametrize("head", [b"content-length: 1000\r\n", b""], ids=["length", "close"])
    def test_the_limit_of_time_is_for_the_whole_answer(self, pool, head):
        def drip(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
            while True:  # until the other side has had enough
                connection.sendall(b"x")
                time.sleep(0.02)

        with raw_server(drip) as server:
            began = time.monotonic()
            with pytest.raises(errors.Timeout):
                run(pool, server.url, 0.2)
            assert time.monotonic() - began < 20

    def test_given_up_before_it_began(self, pool):
        with raw_server() as server:
            exchange = Exchange(pool, Request("GET", server.url, {}), SendOptions(30.0, LIMIT))
            exchange.abort()
            with pytest.raises(Aborted):
                exchange.run()
            assert server.requests == []

    @pytest.mark.parametrize("first", [b"", b"HTTP/1.0 200 OK\r\n\r\n[1"])
    def test_given_up_twice(self, pool, first):
        with raw_server((first, STALL)) as server:
            exchange = Exchange(pool, Request("GET", server.url, {}), SendOptions(30.0, LIMIT))

            def abort():
                server.stalled.wait(30)
                exchange.abort()
                exchange.abort()

            thread = threading.Thread(target=abort)
            thread.start()
            with pytest.raises(Aborted):
                exchange.run()
            thread.join()
            exchange.abort()


class TestIdleConnections:
    @pytest.mark.parametrize("end", [CLOSE, RESET])
    def test_those_that_the_server_ended_are_not_used(self, pool, end):
        with raw_server((answer([1]), end), (answer([2]), CLOSE)) as server:
            assert run(pool, server.url).body == b"[1]"
            time.sleep(0.05)
            assert run(pool, server.url).body == b"[2]"
            assert server.connections == 2

    def test_those_that_say_something_unasked_are_not_used(self, pool):
        has_answer, has_said = threading.Event(), threading.Event()

        def say(connection):
            has_answer.wait(30)
            connection.sendall(b"HTTP/1.1 408 Too slow\r\n\r\n")
            has_said.set()

        with raw_server((answer([1]), say), answer([2])) as server:
            assert run(pool, server.url).body == b"[1]"
            has_answer.set()
            assert has_said.wait(30)
            assert run(pool, server.url).body == b"[2]"
            assert server.connections == 2
            pool.close()

    def test_those_that_the_server_will_end_are_not_kept(self, pool):
        first = answer([1], connection="close")
        with raw_server((first, CLOSE), (answer([2]), CLOSE)) as server:
            assert run(pool, server.url).body == b"[1]"
            assert run(pool, server.url).body == b"[2]"

    def test_there_is_an_end_to_their_number(self, pool):
        closed = []

        class Counted(http.client.HTTPConnection):
            def close(self):
                closed.append(self)

        every = [Counted("here") for _ in range(20)]
        for each in every:
            pool.give_back(("http", "here"), each)
        assert closed == every[16:]
        pool.close()
        assert closed == every[16:] + every[:16]
        pool.give_back(("http", "here"), Counted("here"))
        assert len(closed) == 21

    def test_servers_have_their_own(self, pool):
        with raw_server(answer([1])) as one, raw_server(answer([2])) as other:
            assert run(pool, one.url).body == b"[1]"
            assert run(pool, other.url).body == b"[2]"
            pool.close()


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_):
        """Stay silent."""


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


class TestTLS:
    @pytest.fixture
    def url(self, authority):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"https://127.0.0.1:{server.server_address[1]}"
            server.shutdown()
            thread.join()

    def test_connections_are_used_again(self, pool, url, authority, monkeypatch, tmp_path):
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert run(pool, url).body == b"[]"
        (kept,) = pool._idle["https", url.removeprefix("https://")]
        origin = ("https", url.removeprefix("https://"))
        assert pool.take(origin) is kept
        pool.give_back(origin, kept)
        assert run(pool, url).body == b"[]"
        pool.close()
        assert run(pool, url).body == b"[]"
        pool.close()

    def test_a_certificate_of_a_stranger_is_refused(self, pool, url):
        with pytest.raises(errors.Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            run(pool, url)
