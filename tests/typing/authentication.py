"""What type checkers see of authentication; they read this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, assert_type

from alula import App, Params
from alula.authentication import (
    AuthenticationService,
    AuthenticationStrategy,
    HashedPassword,
    JWTStrategy,
    LocalStrategy,
    Passwords,
    authenticate,
    hash_password,
    password_hash,
    protect,
)
from alula.express import authenticate as authenticate_request
from alula.express import express, parse_authentication, rest


class ApiKey(AuthenticationStrategy):
    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        return {"authentication": {"strategy": self.name}}

    def parse(self, req: Any, res: Any) -> Mapping[str, Any] | None:
        return None


class Patient(AuthenticationStrategy):
    async def parse(self, req: Any, res: Any) -> Mapping[str, Any] | None:
        return None


app = App()
service = AuthenticationService(
    app, secret="...", entity=None, strategies=["jwt"], audience=["a"], expires_in=timedelta(1)
)
service.register("api-key", ApiKey())
service.register("jwt", JWTStrategy(header="X-Token", schemes=["Token"]))
service.register("local", LocalStrategy(username_field="name", passwords=Passwords(time_cost=1)))
service.register("api-key", "api-key")  # type: ignore[arg-type]  # refused by its type
assert_type(service.strategy("jwt"), AuthenticationStrategy)
assert_type(service.create_access_token({"a": 1}, "1"), str)
assert_type(service.verify_access_token("..."), dict[str, Any])

app.use("authentication", service)
app.service("users").hooks(
    around=[authenticate("jwt"), authenticate(service="a", strategies=["jwt"]), protect("a", "b")],
    before={"create": [hash_password("password")]},
)
password_hash("local")

web = express(app)
web.configure(rest())
web.use(parse_authentication(service="a", strategies=["jwt"]))
web.get("/me", authenticate_request("jwt"), lambda req, res: res.json(req.user))


async def use_passwords() -> None:
    passwords = Passwords()
    assert_type(await passwords.hash("a"), HashedPassword)
    assert_type(await passwords.check("a", "b"), bool)
