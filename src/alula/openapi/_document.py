"""The whole description of an application, made anew whenever somebody asks."""

from __future__ import annotations

from typing import Any, Final

from alula.openapi._components import Components
from alula.openapi._facts import facts_of
from alula.openapi._operations import ServiceOperations

__all__ = ["describe"]

_ERROR_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "message": {"type": "string"},
        "code": {"type": "integer"},
        "className": {"type": "string"},
        "data": {},
        "errors": {},
    },
    "required": ["name", "message", "code", "className"],
}


def describe(
    app: Any, *, title: str = "API", version: str = "1.0.0", description: str | None = None
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of all services of an application.

    Args:
        app: The application, an `App` or what ``express`` returns.
        title: What the API is called.
        version: The version of the API.
        description: What it is about, in Markdown.
    """
    components = Components()
    components.schemas["Error"] = _ERROR_SCHEMA
    paths: dict[str, Any] = {}
    tags = []
    secured = False
    for handle in app.services.values():
        if not handle.methods:
            continue
        facts = facts_of(handle)
        secured = secured or facts.signs_in or bool(facts.secured)
        paths |= ServiceOperations(facts, components).paths()
        tags.append({"name": facts.tag})
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    parts: dict[str, Any] = {
        "schemas": components.schemas,
        "responses": {"Error": {"description": "What went wrong", "content": error}},
    }
    if secured:
        bearer = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
        parts["securitySchemes"] = {"bearer": bearer}
    info = {"title": title, "version": version}
    return {
        "openapi": "3.1.0",
        "info": info if description is None else {**info, "description": description},
        "tags": tags,
        "paths": paths,
        "components": parts,
    }
