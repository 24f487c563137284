"""The middleware for a body that is the file itself.

It reads nothing: hooks run before the first byte is asked for, as with `multipart`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection

from alula.express import Request, Response
from alula.express._body_parsing import content_type_of
from alula.express._chain import Middleware, NextFunction, ignores_body
from alula.express._settings import Size, parse_size
from alula.files._content_types import check_types
from alula.files._upload import (
    Part,
    Upload,
    UploadLimits,
    is_taken,
    read_options,
    sent_file_name,
    takes_uploads,
)

__all__ = ["FileBody", "file_body"]


class FileBody(Upload):
    """A body that is a file, and has not been read.

    Args:
        req: The request.
        limits: How much it may hold.

    Raises:
        BadRequest: The type or the name of the file is not valid.
        UnsupportedMediaType: Its type is not allowed, or the request is compressed.
    """

    kind = "body"

    def __init__(self, req: Request, limits: UploadLimits) -> None:
        super().__init__(req, limits)
        disposition = req.get("content-disposition") or ""
        _, options = read_options("Content-Disposition", disposition)
        file_name = sent_file_name(disposition, options) or ""
        self._part = Part(self, "", file_name, req.get("content-type") or "", is_file=True)
        self._is_passed = False
        self._more = True

    async def __anext__(self) -> Part:
        if not self._is_passed:
            self._is_passed = True
            return self._part
        async for _ in self._part:
            pass
        raise StopAsyncIteration

    async def next_event(self) -> tuple[str, bytes]:
        if not self._more:
            return "end", b""
        body, self._more = await self.receive()
        return "data", body


def file_body(*, max_size: Size = "10mb", types: Collection[str] | None = None) -> Middleware:
    """Return middleware that takes a body that is the file itself.

    ``curl --data-binary @photo.png`` sends one, and so does ``fetch`` if its body is a file or a
    stream. ``req.body`` becomes ``{"upload": upload}``, as with `multipart`: an `Upload` with one
    part, for services with the attribute ``takes_uploads`` and for routes. Its type is that of the
    request. Its name is that of a header ``Content-Disposition: attachment; filename="photo.png"``,
    ``""`` without one. Forms are left to `multipart`, and JSON to the parsers in front.

    Examples:
        >>> from alula.express import express, json
        >>> web = express().use(json()).use(file_body(max_size="50mb", types=["image/*"]))

    Args:
        max_size: The largest size in bytes, or such as ``"100mb"``; more is a 413.
        types: Content types that it may have: ``image/png``, or ``image/*`` for a family. Others
            are a 415. None allows all. In either case, a file whose first bytes show another type
            than it declares is a 415.

    Raises:
        ValueError: The limit is not a size, or a type is not a content type.
        TypeError: ``types`` is one string instead of a list.
        PayloadTooLarge: By the middleware or while the file is read: it is too large.
        UnsupportedMediaType: The same, for a type or an encoding that is not allowed.
        BadRequest: The same, for a name or a type that is not valid.
    """
    check_types(types)
    size = parse_size(max_size)
    limits = UploadLimits(1, size, size, 0, 0, None if types is None else frozenset(types))

    @ignores_body
    def middleware(req: Request, _: Response, next: NextFunction) -> Awaitable[None]:
        is_form = content_type_of(req).name == "multipart/form-data"
        if req.has_body and not is_form and not is_taken(req, FileBody) and takes_uploads(req):
            req.body = {"upload": FileBody(req, limits)}
        return next()

    # Descriptions of the API say so.
    middleware.file_types = sorted(types or ["*/*"])  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]  # a mark, as `ignores_body` sets one
    return middleware
