"""Errors as the interface has them: ``{"errors": {NAME: [TEXT, ...]}}``."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from alula.errors import BadRequest, FrameworkError, NotAuthenticated, NotFound
from alula.express import NextFunction, Request, Response

TEXTS = {"is taken": "has already been taken"}
BLANK = "can't be blank"


class Errors(BaseModel):
    """What clients get for an error."""

    errors: dict[str, list[str]]


def not_found(name: str) -> NotFound:
    """Return the error for a thing that does not exist: ``article``, ``comment``, ``profile``."""
    return NotFound(f"There is no such {name}", errors={name: "not found"})


async def send_error(error: Exception, req: Request, res: Response, next: NextFunction) -> None:
    """Respond to an error; the error handler behind it logs the failures of the server."""
    if not isinstance(error, FrameworkError) or error.code >= 500:
        await next(error)
        return
    status = 422 if isinstance(error, BadRequest) else error.code
    res.status(status).json({"errors": errors_of(error, req)})


def errors_of(error: FrameworkError, req: Request) -> dict[str, list[str]]:
    """Return what is wrong with each field, or with the request as a whole."""
    if isinstance(error.errors, Mapping):
        return {name: [TEXTS.get(text, text)] for name, text in error.errors.items()}
    if isinstance(error, NotAuthenticated):
        return {"token": ["is missing" if req.authentication is None else "is invalid"]}
    errors: dict[str, list[str]] = {}
    for failure in error.data if isinstance(error.data, list) else ():
        errors.setdefault(*_field_and_text(failure))
    return errors or {"request": [error.message]}


def _field_and_text(failure: Mapping[str, Any]) -> tuple[str, list[str]]:
    field = failure["params"].get("missingProperty") or failure["instancePath"].split("/")[-1]
    # All minima of texts are one character.
    is_blank = failure["keyword"] in {"required", "minLength"}
    return field, [BLANK if is_blank else failure["message"]]
