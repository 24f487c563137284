"""An application whose front end is written in TypeScript; see ``typescript/front_end.ts``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate, password_hash
from alula.express import error_handler, express, json, not_found, rest
from alula.openapi import openapi
from alula.schema import resolve, validate_data, virtual, with_schema


class User(BaseModel):
    """Somebody who writes messages."""

    model_config = ConfigDict(extra="forbid")

    email: str
    password: SecretStr
    avatar: str | None = Field(None, description="The address of a picture */ of this user.")


class Place(BaseModel):
    city: str
    zip: str | None = None


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    kind: Literal["text", "image"] = "text"
    tags: list[str] = Field(default_factory=list)
    place: Place | None = None
    at: datetime
    user_id: int = Field(alias="userId")


NOTE = {
    "title": "Note",
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "position": {
            "type": "array",
            "prefixItems": [{"type": "number"}, {"type": "number"}],
            "minItems": 2,
            "maxItems": 2,
        },
        "extra": {"type": "object", "additionalProperties": {"type": "number"}},
        "content-type": {"type": "string", "default": "text/plain"},
    },
    "required": ["text"],
}
ARCHIVING = {
    "type": "object",
    "properties": {"reason": {"enum": ["old", "spam"]}},
    "required": ["reason"],
}


class Messages(MemoryService):
    async def archive(self, data: Any, params: Any) -> Any:
        """Archive all messages; `data.reason` says why."""
        return {"archived": data["reason"]}


class Stats:
    async def find(self, params: Any) -> Any:
        return {"messages": 1}

    async def reset(self, data: Any, params: Any) -> Any:
        return None


async def author(_: Any, context: Any) -> User:
    return context.params.user


def make_app() -> Any:
    """Return the application."""
    app = express(App(debug=True))
    app.use(json())
    app.configure(rest())
    app.configure(openapi(title="Typed chat"))
    pages = {"default": 10, "max": 50}
    app.use("authentication", AuthenticationService(app, secret="s" * 32))
    users = MemoryService(start_id=1, paginate=pages, unique=["email"])
    create = resolve({"password": password_hash("local")})
    app.use("users", with_schema(users, User, data={"create": create}))
    messages = Messages(start_id=1, paginate=pages)
    own = resolve(
        {
            "userId": virtual(lambda _, context: context.params.user["id"]),
            "at": virtual(lambda: datetime.now(UTC)),
        }
    )
    with_author = resolve({"user": virtual(author)})
    app.use(
        "messages",
        with_schema(messages, Message, data={"create": own}, result=with_author),
        methods=["find", "get", "create", "patch", "remove", "archive"],
        events=["archived"],
    )
    app.service("messages").hooks(
        around=[authenticate("jwt")], before={"archive": [validate_data(ARCHIVING)]}
    )
    app.service("messages").publish(lambda data, context: None)
    app.use("notes", with_schema(MemoryService(start_id=1, multi=True), NOTE))
    app.use("orgs/:org/notes", with_schema(MemoryService(start_id=1), NOTE))
    app.use("plain", MemoryService(start_id=1))
    app.use("stats", Stats(), methods=["find", "reset"])
    app.use(not_found(), error_handler(logger=False))
    return app
