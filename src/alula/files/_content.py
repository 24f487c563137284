"""The bytes of an upload over HTTP: ``GET /uploads/ID/content``, whole or in part.

A file comes from a stranger, and the browser shows it in the name of this site. So its type is the
one that was checked, browsers must not guess another, and only types that cannot run scripts are
shown in place. All others are downloads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final
from urllib.parse import quote

from alula._context import HookContext, Params
from alula._routes import Match
from alula._service import ServiceHandle
from alula.errors import Forbidden, FrameworkError, NotFound
from alula.express import ExpressApplication, Request, Response
from alula.express._chain import NextFunction, run_steps
from alula.express._rest import call_service
from alula.files._signed_urls import UrlSigner
from alula.files._upload_service import UploadService
from alula.types import Record

__all__ = ["INLINE_TYPES", "byte_range", "content_disposition", "file_content"]

INLINE_TYPES: Final = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "video/mp4",
        "video/webm",
        "video/ogg",
        "audio/mpeg",
        "audio/mp4",
        "audio/ogg",
        "audio/wav",
        "audio/webm",
        "audio/flac",
        "text/plain",
    }
)
"""Content types that browsers show in place; they cannot run scripts."""

_RANGE: Final = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.ASCII | re.IGNORECASE)
_NOT_IN_FALLBACK: Final = re.compile(r"[^ !#$&+\-.^_`|~0-9A-Za-z(),;=@\[\]{}]")
# RFC 8187, 3.2.1: what needs no percent-encoding.
_EXTENDED_SAFE: Final = "!#$&+-.^_`|~"


def file_content(
    path: str, *, signer: UrlSigner | None = None, inline: Collection[str] = INLINE_TYPES
) -> Callable[[ExpressApplication], None]:
    """Return the plugin that sends the bytes of uploads: GET and HEAD of ``<path>/ID/content``.

    A client may read the bytes if it may ``get`` the record: the same hooks run, and the middleware
    in front of the service. With a signer, a URL that it signed needs no credentials: ``get`` then
    runs as a call of the server, without that middleware.

    Requests may ask for one range of bytes (``Range``, ``If-Range``), and whether what they have
    is current (``If-None-Match``).

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import express, rest
        >>> from alula.files import LocalFileStore, multipart
        >>> web = express(App())
        >>> web = web.use(multipart()).configure(rest())
        >>> web = web.use("uploads", UploadService(LocalFileStore("files"), MemoryService()))
        >>> web = web.configure(file_content("uploads"))

    Args:
        path: The path of the service.
        signer: Checks signed URLs; None for none.
        inline: Content types that browsers may show in place; all others are downloads. Types that
            run scripts, such as ``text/html`` and ``image/svg+xml``, run them in the name of your
            site where you add them.

    Raises:
        RuntimeError: By the plugin: `rest` is not configured yet.
        LookupError: By the plugin: there is no service at the path.
        TypeError: By the plugin: it is not an `UploadService`, or the application is not made by
            ``express(App())``.
        NotFound: By a request, for a service that was taken away, a record or bytes.
        Forbidden: By a request, for a signature that is not valid.
    """
    inline = frozenset(inline)

    def configure(app: ExpressApplication) -> None:
        if not isinstance(app, ExpressApplication):
            raise TypeError(f"file_content() configures what express(App()) returns, not {app!r}")
        if "rest" not in app.transports:
            raise RuntimeError(
                "configure rest() before file_content(), since it reads the credentials of requests"
            )
        _service_of(app.service(path))

        async def respond(req: Request, res: Response, next: NextFunction) -> None:
            match = app.lookup(req.path.rstrip("/").rpartition("/")[0])
            if match is None or match.id is None:  # the service was taken away
                raise NotFound("Page not found")
            service, is_signed = _service_of(match.value), "signature" in req.query

            async def serve(error: Exception | None = None) -> None:
                try:
                    if error is not None:
                        raise error
                    context = await (get_signed if is_signed else get)(match, req, res)
                    # The result may lack properties that clients must not see.
                    params = context.params.copy(query={}, provider=None)
                    record = await service.get(context.id, params)
                    await _send(service, record, inline, req, res)
                except Exception as raised:  # noqa: BLE001  # next() of a middleware never raises
                    await next(raised)

            # Middleware in front of the service may be what protects it.
            around = app.service_middleware.get(match.value)
            req.match = match
            await run_steps(around.before if around and not is_signed else (), req, res, serve)

        app.file_routes[path.strip("/")] = signer is not None
        app.get(f"/{path.strip('/')}/:upload/content", respond)

    async def get(match: Match[ServiceHandle], req: Request, res: Response) -> HookContext:
        req.query = {}  # it would be that of `get`
        await call_service(match, req, res)
        assert res.hook is not None  # noqa: S101  # for type checkers; call_service sets it
        return res.hook

    async def get_signed(match: Match[ServiceHandle], req: Request, _: Response) -> HookContext:
        if signer is None:
            raise Forbidden("There are no signed URLs here")
        signer.check(req.method, req.path, req.query)
        params = Params(route=match.route)
        context = HookContext(match.value.app, match.value, "get", params, match.id)
        await match.value.run(context)
        return context

    return configure


def _service_of(handle: ServiceHandle) -> UploadService:
    service = handle.service
    while isinstance(service, ServiceHandle):
        service = service.service
    if not isinstance(service, UploadService):
        raise TypeError(f"the service at {handle.path!r} is not an UploadService, but {service!r}")
    return service


async def _send(
    service: UploadService, record: Record, inline: Collection[str], req: Request, res: Response
) -> None:
    """Respond with the bytes of a record, a part of them, or a 304."""
    sha256, content_type = record["sha256"], record["type"]
    key = service.store_key(record)
    size = await service.store.size(key)
    etag = f'"{sha256}"'
    # RFC 9110, 13.1.2: this comes before ranges, and weak tags count.
    tags = [tag.strip().removeprefix("W/") for tag in (req.get("if-none-match") or "").split(",")]
    is_current = etag in tags or tags == ["*"]
    part = None if is_current else byte_range(req, etag, size)
    start, stop = part or (0, size)
    disposition = "inline" if content_type in inline else "attachment"
    res.set("etag", etag).set("accept-ranges", "bytes").set("content-type", content_type)
    res.set("content-disposition", content_disposition(disposition, record["name"]))
    res.set("x-content-type-options", "nosniff")
    # Should a browser show it after all, it runs no script and loads nothing.
    res.set("content-security-policy", "default-src 'none'; sandbox")
    # Compression would change the bytes that ranges count.
    res.set("cache-control", "private, no-cache, no-transform")
    if is_current:
        res.status(304).end()
        return
    res.status(200)
    if part is not None:  # also for the whole, by which players see that they can seek
        res.status(206).set("content-range", f"bytes {start}-{stop - 1}/{size}")
    res.set("content-length", stop - start)
    if req.method == "HEAD":
        res.end()
    else:
        res.send(service.store.read(key, start, stop))


def byte_range(req: Request, etag: str, size: int) -> tuple[int, int] | None:
    """Return the first byte to send, and the one behind the last (RFC 9110, 14); None for all.

    Args:
        req: Its headers ``Range`` and ``If-Range`` count.
        etag: The ETag of the file.
        size: Its size in bytes.

    Raises:
        FrameworkError: 416, the range is behind the end.
    """
    match = _RANGE.fullmatch(req.get("range") or "")
    # Several ranges may be ignored, those that are not valid have to be.
    if not match or match[1] == match[2] == "" or req.get("if-range") not in {None, etag}:
        return None
    if not match[1]:
        start, stop = max(0, size - int(match[2])), size
    else:
        start, stop = int(match[1]), min(size, int(match[2] or size) + 1)
        if match[2] and int(match[2]) < start:
            return None
    if start < size:
        return start, stop
    error = FrameworkError(
        "The header Range names no part of the file",
        name="RangeNotSatisfiable",
        code=416,
        class_name="range-not-satisfiable",
    )
    error.headers = {"Content-Range": f"bytes */{size}"}
    raise error


def content_disposition(disposition: str, name: str) -> str:
    """Return the header ``Content-Disposition`` for a name in any script (RFC 6266, RFC 8187).

    Args:
        disposition: ``inline`` or ``attachment``.
        name: The name of the file.
    """
    fallback = _NOT_IN_FALLBACK.sub("_", name)
    header = f'{disposition}; filename="{fallback}"'
    if fallback == name:
        return header
    return f"{header}; filename*=UTF-8''{quote(name, safe=_EXTENDED_SAFE, errors='replace')}"
