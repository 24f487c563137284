"""Forms as clients send them, and applications that take them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.express.asgi_client import Answer, call

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import NotImplementedMethod
from alula.express import error_handler, express, json, rest
from alula.files import (
    FileStore,
    LocalFileStore,
    S3FileStore,
    UploadService,
    file_content,
    multipart,
)

BOUNDARY = "----alula"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 100


def part(content: bytes, *lines: str) -> bytes:
    """Return a part with these header lines."""
    head = "".join(f"{line}\r\n" for line in lines).encode()
    return b"--" + BOUNDARY.encode() + b"\r\n" + head + b"\r\n" + content + b"\r\n"


def file_part(
    content: bytes, file_name: str = "a.txt", content_type: str | None = None, name: str = "file"
) -> bytes:
    lines = [f'Content-Disposition: form-data; name="{name}"; filename="{file_name}"']
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    return part(content, *lines)


def field_part(name: str, text: str | bytes) -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return part(content, f'Content-Disposition: form-data; name="{name}"')


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY.encode() + b"--\r\n"


async def post_form(app: Any, *parts: bytes, url: str = "/uploads", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await call(app, "POST", url, form(*parts), {**FORM, **named})


async def pieces_of(*pieces: bytes) -> Any:
    for piece in pieces:
        yield piece


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def names_in(store: FileStore) -> list[str]:
    """Return the names of all that is in a store, and of what is unfinished."""
    if isinstance(store, LocalFileStore):
        return files_below(store._folder)
    assert isinstance(store, S3FileStore)
    objects = [item async for item in store._listed("list_objects_v2", "")]
    uploads = []
    with suppress(NotImplementedMethod):  # s3rver lists none
        uploads = [item async for item in store._listed("list_multipart_uploads", "")]
    return sorted(item["Key"].removeprefix(store._prefix) for item in objects + uploads)


def application(folder: Path, *, signer: Any = None, service: Any = None, **limits: Any) -> Any:
    """Return an application with uploads in a folder."""
    app = express(App())
    app.use(json(), multipart(**limits))
    app.configure(rest())
    app.use("uploads", service or UploadService(LocalFileStore(folder), MemoryService()))
    app.use("notes", MemoryService())
    app.configure(file_content("uploads", signer=signer))
    app.use(error_handler(logger=False))
    return app
