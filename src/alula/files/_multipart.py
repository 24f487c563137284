"""The multipart middleware.

It reads nothing: the form becomes the data of the service call, and the hooks of the service run
before its first byte is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Final

from alula.express import Request, Response
from alula.express._body_parsing import content_type_of
from alula.express._chain import Middleware, NextFunction, ignores_body
from alula.express._settings import Size, parse_size
from alula.files._content_types import check_types
from alula.files._form import MAX_PART_HEAD_BYTES, Form
from alula.files._upload import UploadLimits, is_taken, takes_uploads

__all__ = ["multipart"]

# What the framing of a part may take, where no limit of the whole request is given.
_FRAMING_BYTES: Final = MAX_PART_HEAD_BYTES + 1024


def multipart(
    *,
    max_files: int = 10,
    max_file_size: Size = "10mb",
    max_request_size: Size | None = None,
    max_fields: int = 20,
    max_field_size: Size = "64kb",
    types: Collection[str] | None = None,
) -> Middleware:
    """Return middleware that takes ``multipart/form-data``, as forms and ``curl -F`` send it.

    ``req.body`` becomes ``{"upload": upload}`` with an `Upload`, whose parts are read later, one
    after the other. Only services with the attribute ``takes_uploads``, such as `UploadService`,
    and routes get one; other services refuse such requests with a 415. Where several of this
    middleware run, the limits of the last one count, so a service can have its own.

    Examples:
        >>> from alula.express import express
        >>> async def measure(req, res):
        ...     sizes = {}
        ...     async for part in req.body["upload"]:
        ...         async for piece in part:
        ...             sizes[part.name] = sizes.get(part.name, 0) + len(piece)
        ...     res.json(sizes)
        >>> web = express().use(multipart(max_file_size="2gb", types=["video/*"]))
        >>> web = web.post("/measure", measure)

    Args:
        max_files: How many files one request may have; more is a 413.
        max_file_size: Size of each file in bytes, or such as ``"100mb"``; more is a 413.
        max_request_size: The same for the whole request. None takes the sum of all other limits.
        max_fields: How many fields that are not files it may have; more is a 413.
        max_field_size: The same as ``max_file_size``, for each of them.
        types: Content types that files may have: ``image/png``, or ``image/*`` for a family. Others
            are a 415. None allows all. In either case, a file whose first bytes show another type
            than it declares is a 415.

    Raises:
        ValueError: A limit is not a size or a count, or a type is not a content type.
        TypeError: ``types`` is one string instead of a list.
        PayloadTooLarge: By the middleware or while the parts are read: a limit is exceeded.
        UnsupportedMediaType: The same, for a content type or an encoding that is not allowed.
        BadRequest: The same, for a form that is not valid.
    """
    check_types(types)
    for name, count in (("max_files", max_files), ("max_fields", max_fields)):
        if type(count) is not int or count < 0:
            raise ValueError(f"{name} is {count!r}; give a whole number from 0")
    file_size, field_size = parse_size(max_file_size), parse_size(max_field_size)
    sum_of_limits = (
        max_files * (file_size + _FRAMING_BYTES)
        + max_fields * (field_size + _FRAMING_BYTES)
        + _FRAMING_BYTES
    )
    limits = UploadLimits(
        max_files,
        file_size,
        sum_of_limits if max_request_size is None else parse_size(max_request_size),
        max_fields,
        field_size,
        None if types is None else frozenset(types),
    )

    @ignores_body
    def middleware(req: Request, _: Response, next: NextFunction) -> Awaitable[None]:
        is_form = content_type_of(req).name == "multipart/form-data"
        if is_form and not is_taken(req, Form) and takes_uploads(req):
            req.body = {"upload": Form(req, limits)}
        return next()

    # Descriptions of the API say so.
    middleware.max_files = max_files  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]  # a mark, as `ignores_body` sets one
    return middleware
