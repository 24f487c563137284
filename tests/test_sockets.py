"""Sockets to listen on, at ports and at paths."""

from __future__ import annotations

import errno
import socket
import stat
import sys
from pathlib import Path

import pytest

from alula._sockets import (
    listen_on_path,
    listen_on_port,
    refuse_connections,
    socket_from_descriptor,
    url_of,
)

SECONDS = 60


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "alula.sock")


def test_a_port_that_is_free():
    with listen_on_port("127.0.0.1", 0) as sock:
        assert sock.getsockname()[1] > 0
        assert not sock.getblocking()
        socket.create_connection(sock.getsockname(), 10).close()


def test_a_port_in_use_is_an_error():
    with listen_on_port("127.0.0.1", 0) as taken:
        host, port = taken.getsockname()
        said = f"cannot listen on {host}:{port}: .*; choose another port"
        with pytest.raises(OSError, match=said) as raised:
            listen_on_port(host, port)
    assert raised.value.errno == errno.EADDRINUSE


def test_a_path(path):
    with listen_on_path(path) as sock, socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        assert url_of("http", sock.getsockname()) == f"unix:{path}"
        mode = stat.S_IMODE(Path(path).stat().st_mode)
        assert mode == 0o666  # the proxy in front runs as somebody else


def test_a_path_in_use_is_an_error(path):
    said = f"cannot listen on {path}: Address already in use; choose another path"
    with listen_on_path(path), pytest.raises(OSError, match=said):
        listen_on_path(path)


def test_a_path_that_a_dead_server_has_left_is_taken_over(path):
    listen_on_path(path).close()
    with listen_on_path(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_a_socket_of_another_kind_that_is_in_use_stays(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(OSError, match="already in use; choose another path"):
            listen_on_path(path)
    assert Path(path).exists()


def test_a_file_that_is_no_socket_stays(path, tmp_path):
    (tmp_path / "alula.sock").write_text("mine")
    with pytest.raises(OSError, match="not a socket"):
        listen_on_path(path)
    assert (tmp_path / "alula.sock").read_text() == "mine"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(OSError, match=r"No such file.*choose another path"):
        listen_on_path(str(tmp_path / "none" / "alula.sock"))


def test_the_path_goes_with_its_server(path, tmp_path):
    with listen_on_path(path) as sock:
        refuse_connections(sock)
        refuse_connections(sock)  # it is gone
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such filters")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_who_has_connected_is_served_and_nobody_else_connects(host):
    with listen_on_port(host, 0) as sock:
        address = sock.getsockname()[:2]
        with socket.create_connection(address, SECONDS) as first:
            refuse_connections(sock)
            with pytest.raises(TimeoutError):
                socket.create_connection(address, 0.2)
            accepted = sock.accept()[0]
            with accepted:
                accepted.settimeout(SECONDS)
                first.sendall(b"ping")
                assert accepted.recv(4) == b"ping"
                accepted.sendall(b"pong")
                assert first.recv(4) == b"pong"
            with pytest.raises(BlockingIOError):
                sock.accept()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, SECONDS)


def test_without_such_filters_a_socket_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with listen_on_port("127.0.0.1", 0) as sock:
        refuse_connections(sock)
        socket.create_connection(sock.getsockname(), SECONDS).close()


def test_a_socket_of_another_process(path):
    for sock in (listen_on_port("127.0.0.1", 0), listen_on_path(path)):
        name, family, protocol = sock.getsockname(), sock.family, sock.proto
        with socket_from_descriptor(sock.detach()) as adopted:
            assert adopted.getsockname() == name
            assert (adopted.family, adopted.proto) == (family, protocol)
            assert not adopted.getblocking()
