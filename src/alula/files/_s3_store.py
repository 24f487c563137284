"""Files in a bucket of S3, or of a server that speaks its protocol.

The SHA-256 of an upload is known at its end, and S3 cannot rename. So there are three kinds of
objects:

- ``staged/upload.TOKEN`` has the bytes of a staged file;
- ``staged/SHA256.TOKEN`` is empty, and says what these bytes are;
- ``content/SHA256`` is a copy of them, which the server makes itself.

Every object appears at once and whole. No name that a client sends becomes part of a key.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
)
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256 as new_sha256
from io import SEEK_END, BytesIO
from typing import Any, Final

from alula.errors import NotFound, NotImplementedMethod, PayloadTooLarge, Unavailable
from alula.files._store import FileStore, StagedFile

__all__ = ["S3FileStore"]

# A part is in memory until it is sent. S3 takes no smaller ones than 5 MiB, and some servers want
# all but the last to be equal.
_PART_BYTES: Final = 8 * 1024 * 1024
_MAX_BYTES: Final = 10_000 * _PART_BYTES  # as many parts as S3 takes
# What a server copies in some seconds; S3 itself takes up to 5 GiB at a time.
_COPY_BYTES: Final = 256 * 1024 * 1024
_READ_BYTES: Final = 256 * 1024

_CONNECT_SECONDS: Final = 10
_ATTEMPTS: Final = 3

_SHA256: Final = re.compile("[0-9a-f]{64}")
_STAGED: Final = re.compile(r"staged/([0-9a-f]{64}|upload)\.([0-9a-f]{32})")
_MULTIPART: Final = re.compile(r"staged/upload\.[0-9a-f]{32}|content/[0-9a-f]{64}")
_ABSENT: Final = frozenset({"404", "NoSuchKey"})
_OUT_OF_RANGE: Final = 416
_FAILED: Final = frozenset({429, *range(500, 600)})

_AddPart = Callable[..., Awaitable[None]]


class S3FileStore(FileStore):
    """A `FileStore` in a bucket of S3 or a server that speaks its protocol. Needs the extra ``s3``.

    An upload takes a part of 8 MiB of memory, whatever its size; a file has 78 GiB at most.
    Without an access key, credentials come from where the tools of AWS find them: variables such as
    ``AWS_ACCESS_KEY_ID``, ``~/.aws``, or the role of the machine.

    Examples:
        >>> S3FileStore("photos", prefix="uploads/", endpoint_url="https://s3.example")
        S3FileStore('photos', prefix='uploads/')

    Args:
        bucket: The name of the bucket. It exists, and is not public.
        prefix: What the keys of all objects begin with, such as ``"uploads/"``.
        endpoint_url: Where the server is; None for AWS.
        region: The region; None for the one of the environment.
        access_key_id: The name of an access key.
        secret_access_key: The secret of this key.
        session_token: The token that belongs to a temporary key.
        timeout: Seconds that each request to the server may take, with its repetitions.
        max_connections: How many requests run at once; a download is one until its end. Further
            ones wait.

    Raises:
        ImportError: The extra ``s3`` is not installed.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        timeout: float = 30.0,
        max_connections: int = 100,
    ) -> None:
        try:
            # An extra, which takes long to import.
            from aiobotocore import config, session  # type: ignore[import-untyped]  # noqa: PLC0415  # as said
        except ImportError as error:
            raise ImportError(
                f"S3FileStore needs {error.name}, which is not installed;"
                " install it with: pip install 'alula[server,files,s3]'"
            ) from error
        self._bucket = bucket
        self._prefix = prefix
        self._timeout = timeout
        options = config.AioConfig(
            connect_timeout=min(_CONNECT_SECONDS, timeout),
            read_timeout=timeout,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=max_connections,
            # Many servers of this protocol do not know the newer check sums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self._new_client: Callable[[], Any] = lambda: session.get_session().create_client(  # pyright: ignore[reportUnknownMemberType]  # half of it has no types
            "s3",
            config=options,
            endpoint_url=endpoint_url,
            region_name=region,
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            aws_session_token=session_token,
        )
        self._client: Any = None
        self._opened = AsyncExitStack()
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"S3FileStore({self._bucket!r}, prefix={self._prefix!r})"

    async def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        async with self._lock:
            opened, self._opened, self._client = self._opened, AsyncExitStack(), None
            await opened.aclose()

    async def stage(self, pieces: AsyncIterable[bytes]) -> StagedFile:
        """Send a new object, in parts if it is large (see `FileStore.stage`).

        Raises:
            PayloadTooLarge: The file has more than 78 GiB.
            Unavailable: The server cannot be reached, or has no space.
        """
        token = secrets.token_hex(16)
        key = self._staged_key("upload", token)
        digest, size = new_sha256(), 0

        async def blocks() -> AsyncGenerator[BytesIO, None]:
            """Yield the same buffer, full each time but the last; this one may be empty."""
            block = BytesIO()
            async for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    taken = block.write(rest[: _PART_BYTES - block.tell()])
                    digest.update(rest[:taken])
                    rest = rest[taken:]
                    if block.tell() == _PART_BYTES:
                        yield block
                        block.seek(0)
                        block.truncate()
            yield block

        try:
            async with AsyncExitStack() as stack:
                add_part: _AddPart | None = None
                async for block in await stack.enter_async_context(aclosing(blocks())):
                    block_bytes = block.seek(0, SEEK_END)
                    block.seek(0)
                    size += block_bytes
                    if size > _MAX_BYTES:
                        raise PayloadTooLarge(f"A file has {_MAX_BYTES} bytes at most")
                    if add_part is None and block_bytes < _PART_BYTES:  # it is the only one
                        await self._call("put_object", Key=key, Body=block)
                    elif block_bytes:
                        if add_part is None:
                            add_part = await stack.enter_async_context(self._multipart(key))
                        await add_part("upload_part", Body=block)
            sha256 = digest.hexdigest()
            await self._call("put_object", Key=self._staged_key(sha256, token), Body=b"")
        except BaseException:
            with suppress(Exception):  # the first error says more, and `leftovers` finds the rest
                await self.discard(StagedFile(f"{digest.hexdigest()}.{token}", None, 0))
            raise
        return StagedFile(f"{sha256}.{token}", sha256, size)

    async def commit(self, file: StagedFile) -> None:
        """Have the server copy a staged object to its SHA-256 (see `FileStore.commit`).

        Raises:
            Unavailable: The staged file is gone, and there is no other one of its content.
        """
        key = self._content_key(file.sha256 or "")
        with suppress(NotFound):
            await self._call("head_object", Key=key)
            return
        try:
            await self._copy(self._staged_key("upload", _token_of(file)), key, file.size)
        except NotFound:
            raise _too_late() from None

    async def withdraw(self, sha256: str) -> StagedFile | None:
        """Copy an object back to the staged ones, and delete it (see `FileStore.withdraw`)."""
        key, token = self._content_key(sha256), secrets.token_hex(16)
        try:
            size = await self.size(sha256)
            await self._copy(key, self._staged_key("upload", token), size)
        except NotFound:
            return None
        await self._call("put_object", Key=self._staged_key(sha256, token), Body=b"")
        await self._call("delete_object", Key=key)
        return StagedFile(f"{sha256}.{token}", sha256, size)

    async def discard(self, file: StagedFile) -> None:
        """Delete a staged object, and what says its content (see `FileStore.discard`)."""
        token = _token_of(file)
        # Bytes that nothing describes are removed by the next sweep.
        for key in (f"{self._prefix}staged/{file.key}", self._staged_key("upload", token)):
            with suppress(NotFound):  # S3 itself says nothing then
                await self._call("delete_object", Key=key)

    async def leftovers(self, min_age: float) -> Iterable[StagedFile]:
        """Return old staged objects; abort old multipart uploads (see `FileStore.leftovers`).

        Raises:
            RuntimeError: The bucket does not exist, or the server refuses the credentials.
        """
        latest = datetime.now(UTC) - timedelta(seconds=min_age)
        # Not every server lists them; a rule of the bucket ends them, too.
        with suppress(NotImplementedMethod):
            async for upload in self._listed("list_multipart_uploads", self._prefix):
                target = {name: upload[name] for name in ("Key", "UploadId")}
                is_ours = _MULTIPART.fullmatch(target["Key"].removeprefix(self._prefix)) is not None
                if is_ours and upload["Initiated"] <= latest:
                    with suppress(Unavailable):  # another process has done it, or the next does
                        await self._call("abort_multipart_upload", **target)
        objects: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        async for item in self._listed("list_objects_v2", f"{self._prefix}staged/"):
            if match := _STAGED.fullmatch(item["Key"].removeprefix(self._prefix)):
                objects[match[2]][match[1]] = item
        files: list[StagedFile] = []
        for token, named in objects.items():
            # S3 dates what came in parts back to the begin of its upload.
            if max(item["LastModified"] for item in named.values()) <= latest:
                content = named.pop("upload", None)
                name = next(iter(named), "upload")
                sha256 = name if content and name != "upload" else None
                files.append(
                    StagedFile(f"{name}.{token}", sha256, content["Size"] if content else 0)
                )
        return files

    async def size(self, sha256: str) -> int:
        """Return the size of an object (see `FileStore.size`)."""
        head = await self._call("head_object", Key=self._content_key(sha256))
        return int(head["ContentLength"])

    async def read(
        self, sha256: str, start: int = 0, stop: int | None = None
    ) -> AsyncIterator[bytes]:
        """Read an object in pieces of at most 256 kB (see `FileStore.read`)."""
        key = self._content_key(sha256)
        if stop is not None and stop <= start:
            return
        last = "" if stop is None else stop - 1
        part = {} if (start, stop) == (0, None) else {"Range": f"bytes={start}-{last}"}
        try:
            response = await self._call("get_object", Key=key, **part)
        except EOFError:
            return
        with closing(response["Body"]) as body:
            while True:
                async with self._reached():
                    piece = await body.read(_READ_BYTES)
                if not piece:
                    return
                yield piece

    def _staged_key(self, name: str, token: str) -> str:
        return f"{self._prefix}staged/{name}.{token}"

    def _content_key(self, sha256: str) -> str:
        # Records may come from elsewhere; what is not a hash must never become a key.
        if not _SHA256.fullmatch(sha256):
            raise _missing()
        return f"{self._prefix}content/{sha256}"

    async def _copy(self, source: str, key: str, size: int) -> None:
        origin = {"Bucket": self._bucket, "Key": source}
        if size <= _COPY_BYTES:
            await self._call("copy_object", Key=key, CopySource=origin)
            return
        async with self._multipart(key) as add_part:
            for start in range(0, size, _COPY_BYTES):
                part = f"bytes={start}-{min(start + _COPY_BYTES, size) - 1}"
                await add_part("upload_part_copy", CopySource=origin, CopySourceRange=part)

    @asynccontextmanager
    async def _multipart(self, key: str) -> AsyncGenerator[_AddPart]:
        """Make an object of the parts that are added in the block; of none of them if it fails."""
        upload = await self._call("create_multipart_upload", Key=key)
        target = {"Key": key, "UploadId": upload["UploadId"]}
        parts: list[dict[str, object]] = []

        async def add_part(operation: str, **source: object) -> None:
            number = len(parts) + 1
            response = await self._call(operation, **target, PartNumber=number, **source)
            etag = response.get("CopyPartResult", response)["ETag"]
            parts.append({"ETag": etag, "PartNumber": number})

        try:
            yield add_part
            await self._call(
                "complete_multipart_upload", **target, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            with suppress(Exception):  # the first error says more, and `leftovers` finds the rest
                await self._call("abort_multipart_upload", **target)
            raise

    async def _listed(self, operation: str, prefix: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects or multipart uploads whose keys begin with a prefix."""
        async with self._reached() as client:
            paginator = client.get_paginator(operation)
        pages = aiter(paginator.paginate(Bucket=self._bucket, Prefix=prefix))
        while True:
            async with self._reached():
                page = await anext(pages, None)
            if page is None:
                return
            for item in (*page.get("Contents", ()), *page.get("Uploads", ())):
                yield item

    async def _call(self, operation: str, **arguments: object) -> dict[str, Any]:
        async with self._reached() as client:
            response: dict[str, Any] = await getattr(client, operation)(
                Bucket=self._bucket, **arguments
            )
        return response

    @asynccontextmanager
    async def _reached(self) -> AsyncGenerator[Any]:
        """Give a client for one request in the block, with a limit of its time.

        Raises:
            NotFound: There is no such object.
            EOFError: The object has no such bytes.
            NotImplementedMethod: The server does not know the operation.
            Unavailable: The server cannot be reached, takes too long, or fails; or the multipart
                upload was aborted.
            RuntimeError: The server refuses the request, or something is wrong with the options.
        """
        from aiohttp import ClientError as BrokenOff  # noqa: PLC0415  # an extra
        from botocore import exceptions  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra

        try:
            async with asyncio.timeout(self._timeout):
                async with self._lock:
                    self._client = self._client or await self._opened.enter_async_context(
                        self._new_client()
                    )
                yield self._client
        except exceptions.ClientError as error:
            response: dict[str, Any] = error.response
            code, status = response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]
            meaning: Exception
            if code in _ABSENT:
                meaning = _missing()
            elif code == "NoSuchUpload":
                meaning = _too_late()
            elif status == _OUT_OF_RANGE:
                meaning = EOFError("The file has no such bytes")
            elif code == "NotImplemented":
                meaning = NotImplementedMethod(f"The store of files has no {error.operation_name}")
            elif status in _FAILED or code == "RequestTimeout":
                meaning = Unavailable("The store of files cannot take the request now")
            elif code == "NoSuchBucket":
                meaning = RuntimeError(
                    f"the bucket {self._bucket!r} does not exist; create it, or correct the bucket,"
                    " region or endpoint_url of the S3FileStore"
                )
            else:
                meaning = RuntimeError(
                    f"the server refuses {error.operation_name} in the bucket {self._bucket!r}"
                    f" ({code}); check the credentials and their permissions"
                )
            # Without the error, which has parts of the credentials that the server repeats.
            raise meaning from None
        except (
            TimeoutError,
            BrokenOff,
            exceptions.ConnectionError,
            exceptions.HTTPClientError,
            exceptions.IncompleteReadError,
        ) as error:
            raise Unavailable("The store of files cannot be reached") from error
        except exceptions.BotoCoreError as error:  # such as credentials that are not there
            raise RuntimeError(f"the bucket {self._bucket!r} cannot be used: {error}") from error


def _token_of(file: StagedFile) -> str:
    return file.key.rpartition(".")[2]


def _missing() -> NotFound:
    return NotFound("The content of this file is missing")


def _too_late() -> Unavailable:
    return Unavailable("The upload took too long; send it again")
