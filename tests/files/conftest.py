"""Stores of both kinds."""

from __future__ import annotations

import secrets
from http.client import HTTPConnection

import pytest
from tests.files.s3_server import s3_store, serve_s3

from alula.files import LocalFileStore


@pytest.fixture(scope="session")
def s3_port():
    with serve_s3() as port:
        yield port


@pytest.fixture
def bucket(s3_port):
    """The name of a new bucket."""
    name = f"bucket-{secrets.token_hex(8)}"
    connection = HTTPConnection("127.0.0.1", s3_port, timeout=30)
    connection.request("PUT", f"/{name}")
    assert connection.getresponse().status == 200
    connection.close()
    return name


@pytest.fixture
async def s3(s3_port, bucket):
    store = s3_store(bucket, s3_port)
    yield store
    await store.close()


@pytest.fixture
def local(tmp_path):
    return LocalFileStore(tmp_path / "files")
