"""What type checkers see of files; they read this file, nothing runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, assert_type

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.express import ExpressApplication, Request, Response, express, rest
from alula.files import (
    INLINE_TYPES,
    FileStore,
    LocalFileStore,
    Part,
    Upload,
    UploadService,
    UrlSigner,
    file_content,
    multipart,
)

web = express(App())
web.use(multipart(max_file_size="2gb", max_files=3, types=["image/png", "video/*"]))
web.configure(rest())
store = LocalFileStore(Path("files"))
service = UploadService(store, MemoryService(), fields=["title"], leftover_age=7200)
assert_type(service.store, FileStore)
assert_type(service.id, str)
assert_type(service.record_schema, dict[str, Any])
web.use("uploads", multipart(max_file_size=1_000), service)
signer = UrlSigner("use secrets.token_urlsafe(32) instead", expires_in=600)
assert_type(signer.sign("/uploads/1/content"), str)
assert_type(
    web.configure(file_content("uploads", signer=signer, inline=INLINE_TYPES)), ExpressApplication
)


async def count(req: Request, res: Response) -> None:
    upload: Upload = req.body["upload"]
    async for part in upload:
        assert_type(part, Part)
        assert_type(part.name, str)
        assert_type(part.file_name, str | None)
        assert_type(part.is_file, bool)
        if part.is_file:
            async for piece in part:
                assert_type(piece, bytes)
        else:
            assert_type(await part.text(), str)
    res.json({})


async def pieces() -> AsyncIterator[bytes]:
    yield b"Hello"


async def use_store() -> None:
    await store.write("key", pieces(), flush=False)
    assert_type(await store.size("key"), int)
    assert_type(await store.keys("content", 60), Iterable[str])
    await store.delete("key")
    async for piece in store.read("key", 0, 5):
        assert_type(piece, bytes)
    record = await service.get(1, Params())
    assert_type(record["name"], Any)
    await store.write("key", b"Hello")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await store.write("key", pieces(), 5)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue]
    await service.get(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


UploadService("files", MemoryService())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
UploadService(store)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
UploadService(store, MemoryService(), ["title"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
UploadService(store, MemoryService(), field=["title"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
multipart("2gb")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
multipart(max_size="2gb")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
multipart(max_files="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
multipart(types=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
file_content(service)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
file_content("uploads", signer="secret")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
UrlSigner()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
UrlSigner("s", expires_in="10m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
