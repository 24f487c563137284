"""Files in a bucket: parts, servers that fail, and credentials that nobody sees."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import traceback
from contextlib import asynccontextmanager, closing, suppress
from hashlib import sha256
from pathlib import Path

import pytest
from tests.conformance.serving import free_ports
from tests.express.asgi_client import call
from tests.files.forms import PNG, application, file_part, names_in, pieces_of, post_form
from tests.files.s3_server import KEY_ID, SECRET, s3_store

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import NotFound, NotImplementedMethod, PayloadTooLarge, Unavailable
from alula.files import S3FileStore, UploadService

pytestmark = pytest.mark.slow

MEGABYTE = 1024 * 1024
KEY = "content/" + "a" * 32
OTHER = "content/" + "b" * 32
HALF = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\nhello"


def error_of_s3(status: int, code: str, more: str = "") -> bytes:
    body = f"<Error><Code>{code}</Code><Message>{code}.</Message>{more}</Error>"
    return (
        f"HTTP/1.1 {status} Error\r\ncontent-type: application/xml\r\n"
        f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    ).encode()


@asynccontextmanager
async def answering(*answers: bytes | None, **options):
    """Give a store whose server has these answers, the last one for good; None is none at all."""
    requests = []

    async def respond(reader, writer):
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            answer = answers[min(len(requests), len(answers)) - 1]
            if answer is None:
                await reader.read()
            else:
                head, end, body = answer.partition(b"\r\n\r\n")
                writer.write(head + end + (b"" if requests[-1].startswith("HEAD") else body))
                await writer.drain()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    store = s3_store("photos", server.sockets[0].getsockname()[1], **options)
    try:
        yield store, requests
    finally:
        await store.close()
        server.close()
        await server.wait_closed()


async def read(store, *args):
    return b"".join([piece async for piece in store.read(*args)])


@pytest.mark.parametrize("size", [8 * MEGABYTE - 1, 8 * MEGABYTE, 16 * MEGABYTE, 17 * MEGABYTE])
async def test_large_files_are_sent_in_parts(s3, size):
    content = os.urandom(MEGABYTE) * 17
    content = content[:size]
    await s3.write(KEY, pieces_of(content[:5], content[5:]))  # one piece longer than a part
    head = await s3._call("head_object", Key=f"uploads/{KEY}")
    parts = -(-size // (8 * MEGABYTE))
    is_small = size < 8 * MEGABYTE
    assert head["ETag"].strip('"').partition("-")[2] == ("" if is_small else str(parts))
    assert await read(s3, KEY) == content
    assert await read(s3, KEY, size - 3) == content[-3:]
    assert await names_in(s3) == [KEY]


async def test_a_large_upload_that_fails_leaves_nothing(s3):
    async def breaks_off():
        yield bytes(9 * MEGABYTE)
        assert len(await names_in(s3)) == 1  # the unfinished one
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        await s3.write(KEY, breaks_off())
    assert await names_in(s3) == []


async def test_an_upload_that_a_sweep_has_aborted():
    body = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
    started = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
    answers = started.encode(), error_of_s3(404, "NoSuchUpload")
    async with answering(*answers) as (store, requests):
        with pytest.raises(Unavailable, match="took too long; send it again"):
            await store.write(KEY, pieces_of(bytes(9 * MEGABYTE)))
    methods = [request.partition(" ")[0] for request in requests]
    assert methods == ["POST", "PUT", "DELETE"]


async def test_a_server_that_lists_no_uploads():
    unknown = error_of_s3(501, "NotImplemented")
    deleted = b"HTTP/1.1 204 OK\r\nconnection: close\r\n\r\n"
    async with answering(deleted, unknown) as (store, requests):
        await store.delete(KEY)
        assert [request.split()[0] for request in requests] == ["DELETE", "GET"]
    async with answering(unknown) as (store, _):
        with pytest.raises(NotImplementedMethod, match="The store of files has no PutObject"):
            await store.write(KEY, pieces_of(b"hello"))


async def test_a_file_that_is_too_large(s3, monkeypatch):
    monkeypatch.setattr("alula.files._s3_store._MAX_BYTES", 10 * MEGABYTE)
    with pytest.raises(PayloadTooLarge, match="10485760 bytes"):
        await s3.write(KEY, pieces_of(bytes(11 * MEGABYTE)))
    assert await names_in(s3) == []


async def test_a_deletion_ends_unfinished_uploads_of_its_key(s3):
    others = [OTHER, f"{KEY}.png"]
    for key in (KEY, KEY, *others):
        await s3._call("create_multipart_upload", Key=f"uploads/{key}")
    await s3._call("create_multipart_upload", Key=KEY)  # outside of the prefix
    await s3.delete(KEY)
    assert await names_in(s3) == sorted([*others, KEY])


async def test_an_unfinished_upload_may_end_meanwhile(s3, monkeypatch):
    started = await s3._call("create_multipart_upload", Key=f"uploads/{KEY}")
    real = s3._listed

    async def listed(operation, prefix):
        async for item in real(operation, prefix):
            await s3._call("abort_multipart_upload", Key=item["Key"], UploadId=started["UploadId"])
            yield item

    monkeypatch.setattr(s3, "_listed", listed)
    await s3.delete(KEY)


async def test_keys_of_other_objects(s3):
    for name in (KEY, "content/notes.txt", f"{KEY}.png", f"mark/{'1' * 32}"):
        await s3._call("put_object", Key=f"uploads/{name}", Body=b"he")
    assert list(await s3.keys("content", -60)) == [KEY]


@pytest.mark.slow
@pytest.mark.untraced  # signing a thousand requests covers nothing new
async def test_more_keys_than_the_server_lists_at_once(s3):
    limit = asyncio.Semaphore(20)

    async def put(number):
        async with limit:
            await s3._call("put_object", Key=f"uploads/mark/{number:032x}", Body=b"")

    await asyncio.gather(*(put(number) for number in range(1001)))
    assert len(list(await s3.keys("mark", -60))) == 1001


async def test_the_lifecycle_rule_of_the_page(s3):
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    (rules,) = re.findall(r'^```json\n(\{\n  "Rules".*?)^```', page, re.MULTILINE | re.DOTALL)
    given = json.loads(rules)
    operation = "put_bucket_lifecycle_configuration"
    await s3._call(operation, LifecycleConfiguration=given)
    kept = await s3._call("get_bucket_lifecycle_configuration")
    assert kept["Rules"] == given["Rules"]


async def test_a_service_of_uploads(s3, tmp_path):
    app = application(tmp_path, service=UploadService(s3, MemoryService(start_id=1)))
    await app.setup()
    for _ in range(2):
        answer = await post_form(app, file_part(PNG, "a.png", "image/png"))
        assert (answer.status, answer.json["sha256"]) == (201, sha256(PNG).hexdigest())
    records = await app.service("uploads").find()
    names = sorted(f"content/{record['contentKey']}" for record in records)
    assert await names_in(s3) == names
    answer = await call(app, "GET", "/uploads/1/content", headers={"range": "bytes=1-3"})
    assert (answer.status, answer.body) == (206, b"PNG")
    await app.service("uploads").remove(1)
    assert await names_in(s3) == [f"content/{records[1]['contentKey']}"]
    await app.service("uploads").remove(2)
    assert await names_in(s3) == []
    await app.teardown()
    assert s3._client is None


async def test_a_bucket_that_is_missing_is_an_error_at_the_start(s3_port):
    app, store = App(), s3_store("no-such-bucket", s3_port)
    app.use("uploads", UploadService(store, MemoryService()))
    with pytest.raises(RuntimeError, match="the bucket 'no-such-bucket' does not exist; create it"):
        await app.setup()
    await store.close()


SECRETS = f"<AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign>"


async def test_what_the_server_refuses_is_an_error_without_credentials():
    async with answering(error_of_s3(403, "SignatureDoesNotMatch", SECRETS)) as (store, _):
        with pytest.raises(RuntimeError, match=r"refuses HeadObject in the bucket 'photos' \(403"):
            await store.size(KEY)
        with pytest.raises(RuntimeError, match=r"PutObject.*\(SignatureDoesNotMatch\)") as caught:
            await store.write(KEY, pieces_of(b"hello"))
    text = "".join(traceback.format_exception(caught.value))
    assert KEY_ID not in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "InternalError"), (503, "SlowDown"), (429, "TooManyRequests"), (400, "RequestTimeout")],
)
async def test_a_server_that_fails(status, code, monkeypatch):
    monkeypatch.setattr("alula.files._s3_store._ATTEMPTS", 1)  # without pauses between them
    async with answering(error_of_s3(status, code)) as (store, requests):
        with pytest.raises(Unavailable, match="cannot take the request now"):
            await read(store, KEY)
        assert len(requests) == 1


async def test_a_server_that_fails_once():
    whole = HALF.replace(b"10", b"5")
    async with answering(error_of_s3(503, "SlowDown"), whole) as (store, requests):
        assert await read(store, KEY) == b"hello"
        assert len(requests) == 2


@pytest.mark.parametrize("method", ["size", "delete", "keys"])
async def test_a_server_that_does_not_respond(method):
    async with answering(None, timeout=0.2) as (store, _):
        with pytest.raises(Unavailable, match="cannot be reached") as caught:
            await getattr(store, method)(*(["mark", 60] if method == "keys" else [KEY]))
    assert caught.value.code == 503


async def test_an_upload_to_a_server_that_does_not_respond():
    async with answering(None, timeout=0.2) as (store, _):
        with pytest.raises(Unavailable, match="cannot be reached"):
            await store.write(KEY, pieces_of(bytes(9 * MEGABYTE)))


async def test_a_server_that_is_not_there(monkeypatch):
    monkeypatch.setattr("alula.files._s3_store._ATTEMPTS", 1)
    store = s3_store("photos", free_ports())
    with pytest.raises(Unavailable, match="cannot be reached"):
        await store.size(KEY)
    await store.close()


async def test_a_server_that_goes_away_in_mid_download():
    async with answering(HALF) as (store, _):
        pieces = store.read(KEY)
        assert await anext(pieces) == b"hello"
        with pytest.raises(Unavailable, match="cannot be reached"):
            await anext(pieces)


async def test_a_server_that_says_what_was_deleted_before():
    unknown = error_of_s3(501, "NotImplemented")
    async with answering(error_of_s3(404, "NoSuchKey"), unknown) as (store, requests):
        await store.delete(KEY)
        assert len(requests) == 2


async def test_downloads_take_connections_until_their_end(s3, s3_port, bucket):
    await s3.write(KEY, pieces_of(bytes(7 * MEGABYTE)))
    # Seconds in which a busy machine may stand still, and the last request has to be responded to.
    store = s3_store(bucket, s3_port, max_connections=1, timeout=4)
    pieces = store.read(KEY)
    await anext(pieces)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await store.size(KEY)
    await pieces.aclose()
    assert await store.size(KEY) == 7 * MEGABYTE
    await store.close()


async def test_the_store_is_closed_though_the_records_fail(s3, tmp_path):
    class Records(MemoryService):
        async def teardown(self, app, path):
            raise RuntimeError("broken")

    service = UploadService(s3, Records())
    await service.setup(App(), "uploads")
    assert s3._client is not None
    with pytest.raises(RuntimeError, match="broken"):
        await service.teardown(App(), "uploads")
    assert s3._client is None


async def test_credentials_of_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    none = {"access_key_id": None, "secret_access_key": None}
    async with answering(error_of_s3(404, "NoSuchKey"), **none) as (store, requests):
        with pytest.raises(NotFound):
            await store.size(KEY)
    assert f"HEAD /photos/uploads/{KEY}" in requests[0]
    assert "Credential=OTHER/" in requests[0]


async def test_without_credentials_the_application_does_not_start(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = s3_store("photos", 1, access_key_id=None, secret_access_key=None)
    app = App()
    app.use("uploads", UploadService(store, MemoryService()))
    with pytest.raises(RuntimeError, match=r"the bucket 'photos' cannot be used: .*credentials"):
        await app.setup()
    await store.close()


async def test_a_temporary_key():
    options = {"session_token": "temporary"}
    async with answering(error_of_s3(404, "NoSuchKey"), **options) as (store, requests):
        with pytest.raises(NotFound):
            await store.size(KEY)
    assert "x-amz-security-token: temporary" in requests[0].lower()


def test_its_repr_has_no_credentials():
    store = s3_store("photos", 1)
    assert repr(store) == "S3FileStore('photos', prefix='uploads/')"


def test_without_the_extra_it_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    with pytest.raises(ImportError, match=r"needs aiobotocore.*'alula\[server,files,s3\]'"):
        S3FileStore("photos")
