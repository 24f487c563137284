"""Stores of both kinds."""

from __future__ import annotations

import secrets
from http.client import HTTPConnection

import pytest
from tests.files.s3_server import s3_store, serve_s3, serve_s3rver

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
async def s3rver(tmp_path):
    """A store on a server that is not made for tests."""
    with serve_s3rver(tmp_path / "s3rver") as port:
        key = "S3RVER"
        store = s3_store("photos", port, access_key_id=key, secret_access_key=key)
        yield store
        await store.close()


@pytest.fixture
def local(tmp_path):
    return LocalFileStore(tmp_path / "files")
