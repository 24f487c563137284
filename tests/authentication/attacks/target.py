"""An application as somebody builds it who has read the docs, for others to attack."""

from __future__ import annotations

import json
import logging
from typing import Any

import bcrypt
from tests.authentication.building import SECRET, add_authentication, login, quick_passwords
from tests.express.asgi_client import Answer, call

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate, hash_password, protect
from alula.express import (
    error_handler,
    express,
    not_found,
    rest,
    urlencoded,
)
from alula.express import (
    json as json_body,
)
from alula.schema import query_syntax, validate_query

__all__ = ["SECRET", "Target", "login"]

BCRYPT_OF_RIGHT = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()


class Target:
    """The application, and all that it has said.

    Users 1 (Argon2) and 2 (bcrypt) have the password "right"; the service ``secrets`` is open to
    those who are signed in, and tells them who they are.

    Attributes:
        said: Every answer as text, and every event.
    """

    def __init__(self, users: Any = None, **options: Any) -> None:
        self.said: list[str] = []
        app = self.app = express(App(debug=True))  # with as much told as ever
        app.use(json_body(), urlencoded())
        app.configure(rest())
        if users is None:
            users = MemoryService(start_id=1, paginate={"default": 10, "max": 50})
        app.use("users", users)
        app.use("secrets", Secrets())
        add_authentication(app, **options)
        reading = [authenticate("jwt")]
        app.service("users").hooks(
            around={
                "all": [protect("password")],
                **dict.fromkeys(("find", "get", "update", "patch", "remove"), reading),
            },
            before={name: [hash_password("password")] for name in ("create", "update", "patch")},
        )
        app.service("secrets").hooks(around=reading)
        app.use(not_found(verbose=True), error_handler(logger=logging.getLogger("target")))
        for service in app.services.values():
            for event in ("created", "updated", "patched", "removed"):
                service.on(event, lambda result, _: self.said.append(repr(result)))
        for event in ("login", "logout"):
            app.on(event, lambda result, *_: self.said.append(repr(result)))

    async def start(self) -> Target:
        """Set up, and store the users."""
        await self.app.setup()
        users = self.app.service("users").service
        hashed = str(await quick_passwords().hash("right"))
        users.reset(
            [
                {"id": 1, "email": "ada@example.com", "password": hashed, "role": "admin"},
                {"id": 2, "email": "bob@example.com", "password": BCRYPT_OF_RIGHT},
            ]
        )
        return self

    def add_schema(self) -> None:
        """Check the queries of users by a schema, which knows what an address looks like."""
        email = {"type": "string", "pattern": "^.+@.+$"}
        schema = query_syntax({"email": email, "password": {"type": "string"}})
        self.app.service("users").hooks(before={"find": [validate_query(schema)]})

    async def ask(
        self, method: str, url: str, value: Any = None, headers: Any = (), **scope: Any
    ) -> Answer:
        """Send a request, whose body is JSON or bytes, and note the answer."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        body = None
        if value is not None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            if not any(name.lower() == "content-type" for name, _ in pairs):
                pairs.append(("content-type", "application/json"))
        answer = await call(self.app, method, url, body, pairs, **scope)
        self.said.append(f"{answer.headers} {answer.text}")
        return answer

    async def sign_in(self, email: Any = "ada@example.com", password: Any = "right") -> Answer:
        """Try to sign in."""
        return await self.ask("POST", "/authentication", login(email, password))

    async def token(self, email: str = "ada@example.com") -> str:
        """Sign in, and return the access token."""
        answer = await self.sign_in(email)
        assert answer.status == 201, answer.text
        return answer.json["accessToken"]

    async def opens(self, authorization: str) -> Answer:
        """Ask for what is secret with a value of the header ``Authorization``."""
        return await self.ask("GET", "/secrets", headers={"Authorization": authorization})


class Secrets:
    """Tells callers who they are."""

    async def find(self, params: Any) -> Any:
        return {"id": params.user["id"], "keys": sorted(params.user)}
