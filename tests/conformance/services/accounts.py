"""Users, who sign in, and the service that only they may call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.services.javascript import spread

from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    LocalStrategy,
    Passwords,
    authenticate,
    hash_password,
    protect,
)
from alula.express import authenticate as authenticate_request

SECRET = json.loads((Path(__file__).parents[1] / "seed.json").read_text(encoding="utf-8"))["secret"]

# What each is filled with at a reset: a key of seed.json.
SEEDS: dict[str, str | None] = {"users": "users", "secrets": "secrets"}


def accounts(app: Any) -> None:
    """Register users, authentication and secrets."""
    app.use("users", MemoryService(start_id=1, paginate={"default": 10, "max": 50}))
    signed_in = [authenticate("jwt")]
    app.service("users").hooks(
        around={
            "all": [protect("password")],
            **dict.fromkeys(("find", "get", "update", "patch", "remove"), signed_in),
        },
        before={"create": [hash_password("password")], "patch": [hash_password("password")]},
    )
    authentication = AuthenticationService(app, secret=SECRET)
    quick = Passwords(time_cost=1, memory_cost=1024, parallelism=1, least_floor=0.02)
    authentication.register("local", LocalStrategy(passwords=quick))
    app.use("authentication", authentication)
    app.use("secrets", MemoryService(start_id=1, multi=True))
    app.service("secrets").hooks(around=signed_in, before={"create": [own]})


def own(context):
    """Note whose secret it is."""
    context.data = {**spread(context.data), "userId": context.params.user["id"]}


def routes(app: Any) -> None:
    """Add the route that tells callers who they are."""

    def me(req, res):
        params = req.framework
        user = {name: req.user[name] for name in ("id", "email")}
        return res.json(
            {"user": user, "provider": params.provider, "authenticated": params.authenticated}
        )

    app.get("/mw/me", authenticate_request("jwt"), me)
