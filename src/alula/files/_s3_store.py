"""Files in a bucket of S3, or of a server that speaks its protocol.

Each key is the key of an object, behind the prefix of the store. An object appears at once and
whole. No name that a client sends becomes part of a key.
"""

from __future__ import annotations

import asyncio
import re
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
from io import SEEK_END, BytesIO
from typing import Any, Final

from alula.errors import NotFound, NotImplementedMethod, PayloadTooLarge, Unavailable
from alula.files._store import FileStore

__all__ = ["S3FileStore"]

# A part is in memory until it is sent. S3 takes no smaller ones than 5 MiB, and some servers want
# all but the last to be equal.
_PART_BYTES: Final = 8 * 1024 * 1024
_MAX_BYTES: Final = 10_000 * _PART_BYTES  # as many parts as S3 takes
_READ_BYTES: Final = 256 * 1024

_CONNECT_SECONDS: Final = 10
_ATTEMPTS: Final = 3

_KEY: Final = re.compile("[a-z]+/[0-9a-f]{32}")
_ABSENT: Final = frozenset({"404", "NoSuchKey"})
_OUT_OF_RANGE: Final = 416
_FAILED: Final = frozenset({429, *range(500, 600)})

_AddPart = Callable[[BytesIO], Awaitable[None]]


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

    async def write(
        self,
        key: str,
        pieces: AsyncIterable[bytes],
        *,
        flush: bool = True,  # noqa: ARG002  # a server flushes all that it acknowledges
    ) -> None:
        """Send an object, in parts if it is large (see `FileStore.write`).

        Raises:
            PayloadTooLarge: The file has more than 78 GiB.
            Unavailable: The server cannot be reached, or has no space.
        """
        name, size = self._name(key), 0
        async with AsyncExitStack() as stack:
            add_part: _AddPart | None = None
            async for block in await stack.enter_async_context(aclosing(_blocks(pieces))):
                block_bytes = block.seek(0, SEEK_END)
                block.seek(0)
                size += block_bytes
                if size > _MAX_BYTES:
                    raise PayloadTooLarge(f"A file has {_MAX_BYTES} bytes at most")
                if add_part is None and block_bytes < _PART_BYTES:  # it is the only one
                    await self._call("put_object", Key=name, Body=block)
                elif block_bytes:
                    if add_part is None:
                        add_part = await stack.enter_async_context(self._multipart(name))
                    await add_part(block)

    async def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Read an object in pieces of at most 256 kB (see `FileStore.read`)."""
        name = self._name(key)
        if stop is not None and stop <= start:
            return
        last = "" if stop is None else stop - 1
        part = {} if (start, stop) == (0, None) else {"Range": f"bytes={start}-{last}"}
        try:
            response = await self._call("get_object", Key=name, **part)
        except EOFError:
            return
        with closing(response["Body"]) as body:
            while True:
                async with self._reached():
                    piece = await body.read(_READ_BYTES)
                if not piece:
                    return
                yield piece

    async def size(self, key: str) -> int:
        """Return the size of an object (see `FileStore.size`)."""
        head = await self._call("head_object", Key=self._name(key))
        return int(head["ContentLength"])

    async def delete(self, key: str) -> None:
        """Delete an object, and abort unfinished uploads of it (see `FileStore.delete`)."""
        name = self._name(key)
        with suppress(NotFound):  # S3 itself says nothing then
            await self._call("delete_object", Key=name)
        # Not every server lists them; a rule of the bucket ends them, too.
        with suppress(NotImplementedMethod):
            async for upload in self._listed("list_multipart_uploads", name):
                if upload["Key"] == name:  # the server lists all keys that begin with it
                    with suppress(Unavailable):  # another process has just done it
                        target = {"Key": name, "UploadId": upload["UploadId"]}
                        await self._call("abort_multipart_upload", **target)

    async def keys(self, word: str, min_age: float) -> Iterable[str]:
        """Return keys by the times of their objects (see `FileStore.keys`).

        Raises:
            RuntimeError: The bucket does not exist, or the server refuses the credentials.
        """
        latest = datetime.now(UTC) - timedelta(seconds=min_age)
        found: list[str] = []
        async for item in self._listed("list_objects_v2", f"{self._prefix}{word}/"):
            key = item["Key"].removeprefix(self._prefix)
            if _KEY.fullmatch(key) and item["LastModified"] <= latest:
                found.append(key)
        return found

    def _name(self, key: str) -> str:
        # Records may come from elsewhere; what is not a key must never name an object.
        if not _KEY.fullmatch(key):
            raise _missing()
        return f"{self._prefix}{key}"

    @asynccontextmanager
    async def _multipart(self, key: str) -> AsyncGenerator[_AddPart]:
        """Make an object of the parts that are added in the block; of none of them if it fails."""
        upload = await self._call("create_multipart_upload", Key=key)
        target = {"Key": key, "UploadId": upload["UploadId"]}
        parts: list[dict[str, object]] = []

        async def add_part(block: BytesIO) -> None:
            number = len(parts) + 1
            response = await self._call("upload_part", **target, PartNumber=number, Body=block)
            parts.append({"ETag": response["ETag"], "PartNumber": number})

        try:
            yield add_part
            await self._call(
                "complete_multipart_upload", **target, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            with suppress(Exception):  # the first error says more, and `delete` finds the rest
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
                meaning = Unavailable("The upload took too long; send it again")
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


async def _blocks(pieces: AsyncIterable[bytes]) -> AsyncGenerator[BytesIO, None]:
    """Yield the same buffer, full each time but the last; this one may be empty."""
    block = BytesIO()
    async for piece in pieces:
        rest = memoryview(piece)
        while rest:
            taken = block.write(rest[: _PART_BYTES - block.tell()])
            rest = rest[taken:]
            if block.tell() == _PART_BYTES:
                yield block
                block.seek(0)
                block.truncate()
    yield block


def _missing() -> NotFound:
    return NotFound("The content of this file is missing")
