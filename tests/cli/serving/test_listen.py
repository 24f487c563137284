"""Certificates and servers of `alula serve`."""

from __future__ import annotations

import asyncio
import http.client
import signal
import ssl
from contextlib import closing

import pytest
import trustme
from tests.cli.serving.commands import SOURCE, running

from alula._cli.serving.listen import check_certificate
from alula._cli.serving.supervisor import serve_with_workers
from alula._cli.serving.worker_process import WorkerProcess, WorkerSettings
from alula._cli.terminal import UsageError
from alula._sockets import listen_on_port

SECONDS = 60
CODE = """
from alula import App
from alula.express import express, rest
app = express(App())
app.configure(rest())
app.get("/", lambda req, res: res.json(req.protocol))
"""


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def files(authority, tmp_path):
    """A certificate for this machine and its key, in two files."""
    return write(authority, tmp_path)


def write(authority, folder):
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return str(certificate), str(key)


@pytest.mark.slow
def test_it_serves_https(authority, files, tmp_path):
    (tmp_path / "app.py").write_text(CODE)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    options = ("--port", "0", "--ssl-certfile", "cert.pem", "--ssl-keyfile", "key.pem")
    with running(tmp_path, "serve", *options) as command:
        port = command.port()
        command.wait_for(f"listening on https://127.0.0.1:{port}")
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=trust)
        with closing(connection):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b'"https"'
        assert command.end(signal.SIGTERM) == 0


def test_valid_certificates(files, tmp_path):
    certificate, key = files
    check_certificate(None, None)
    check_certificate(certificate, key)
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join((tmp_path / name).read_bytes() for name in ("key.pem", "cert.pem")))
    check_certificate(str(both), None)


def test_a_certificate_without_a_key(files):
    with pytest.raises(UsageError, match=r"cannot use .*cert\.pem and the private key"):
        check_certificate(files[0], None)


def test_a_key_of_another_certificate(authority, files, tmp_path):
    (tmp_path / "other").mkdir()
    _, key = write(authority, tmp_path / "other")
    with pytest.raises(UsageError, match=r"cannot use .*: .*mismatch"):
        check_certificate(files[0], key)


def test_a_key_with_a_password_is_refused(files, tmp_path):
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(UsageError, match="no password"):
        check_certificate(*files)


def test_a_key_alone(files):
    with pytest.raises(UsageError, match="--ssl-keyfile needs --ssl-certfile"):
        check_certificate(None, files[1])


async def test_a_worker_reports_a_bad_new_certificate_in_one_line(
    files, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    (tmp_path / "app.py").write_text(CODE)
    (tmp_path / "cert.pem").write_text("no certificate")
    settings = WorkerSettings("app:app", ssl_certfile=files[0], ssl_keyfile=files[1])
    with listen_on_port("127.0.0.1", 0) as sock:
        worker = await WorkerProcess.start(settings, sock)
        async with asyncio.timeout(SECONDS):
            assert await worker.ended == 1
    said = capfd.readouterr().err
    assert said.startswith(f"alula: cannot use {files[0]} and {files[1]}: ")
    assert len(said.splitlines()) == 1


def test_a_bad_certificate_is_not_served(files):
    settings = WorkerSettings("app:app", ssl_keyfile=files[1])
    with pytest.raises(UsageError):
        serve_with_workers(settings, host="127.0.0.1", port=0, path=None)
