"""Applications whose users have API keys."""

from __future__ import annotations

from typing import Any

from tests.accounts.building import FROM_AFAR, World, make_world

from alula import Params
from alula.authentication import authenticate


class Notes:
    """Tells who calls."""

    def __init__(self) -> None:
        self.params: list[Params] = []

    async def find(self, params: Params) -> list[Any]:
        return self.told(params)

    async def create(self, data: Any, params: Params) -> list[Any]:
        return self.told(params)

    async def tidy(self, data: Any, params: Params) -> list[Any]:
        return self.told(params)

    def told(self, params: Params) -> list[Any]:
        self.params.append(params)
        return [params.user and params.user["email"]]


def world_with_keys(*arguments: Any, **options: Any) -> World:
    """Return an application with `notes` for tokens and keys, which is not set up."""
    world = make_world(*arguments, **{"api_keys": True, **options})
    world.app.use("notes", Notes(), methods=["find", "create", "tidy"])
    world.app.service("notes").hooks(around=[authenticate("jwt", "apiKey")])
    return world


async def started_with_keys(*arguments: Any, **options: Any) -> World:
    """Return one that is set up, with the users 1 and 2."""
    world = world_with_keys(*arguments, **options)
    await world.app.setup()
    await world.sign_up()
    await world.sign_up(email="bob@example.com")
    return world


async def new_key(world: World, *scopes: str, **options: Any) -> Any:
    """Return a key of the first user."""
    wanted: dict[str, Any] = {
        "user_id": 1,
        "name": "CI",
        "scopes": scopes or ["notes:read"],
        **options,
    }
    return await world.accounts.api_keys.create(**wanted)


def by_key(key: str, **more: Any) -> dict[str, Any]:
    """Return the params of a call with a key."""
    credentials = {"strategy": "apiKey", "apiKey": key}
    return {**FROM_AFAR, "authentication": credentials, **more}


def by_token(signed_in: Any, **query: Any) -> dict[str, Any]:
    """Return the params of a call with an access token."""
    credentials = {"strategy": "jwt", "accessToken": signed_in["accessToken"]}
    return {**FROM_AFAR, "authentication": credentials, "query": query}
