"""Users and profiles: registration, sign-in, the user's own record, following."""

from typing import Any

from examples.conduit.errors import not_found
from examples.conduit.schemas import Login, NewUser, UserChanges

from alula import App, HookContext, Params, Record
from alula.authentication import (
    AuthenticationService,
    JWTStrategy,
    LocalStrategy,
    Passwords,
    authenticate,
    hash_password,
)
from alula.errors import NotAuthenticated
from alula.express import ExpressApplication
from alula.schema import get_validator, validate_data


def profile_of(user: Record, *, following: bool) -> Record:
    """Return what everybody may see of a user."""
    shown = {name: user[name] for name in ("username", "bio", "image")}
    return {**shown, "following": following}


class _Users:
    app: App

    async def setup(self, app: App, _: str) -> None:
        self.app = app

    def account(self, user: Record, token: str) -> Record:
        """Return what users see of themselves."""
        shown = {name: user[name] for name in ("email", "username", "bio", "image")}
        return {"user": {**shown, "token": token}}

    async def find_user(self, username: str) -> Record:
        found = await self.app.service("users").find(query={"username": username, "$limit": 1})
        if not found:
            raise not_found("profile")
        return found[0]


class Registration(_Users):
    """``/users``."""

    async def create(self, data: Record, params: Params) -> Record:
        """Register a user, who is signed in then."""
        user = await self.app.service("users").create(data["user"], params.copy(query={}))
        issuer: AuthenticationService = self.app.service("authentication").service
        return self.account(user, issuer.create_access_token({}, str(user["id"])))


class SignIn(_Users):
    """``/users/login``."""

    async def create(self, data: Record, params: Params) -> Record:
        """Sign a user in by address and password."""
        credentials = {"strategy": "local", **data["user"]}
        try:
            result = await self.app.service("authentication").create(
                credentials, params.copy(query={})
            )
        except NotAuthenticated as error:
            raise NotAuthenticated(error.message, errors={"credentials": "invalid"}) from error
        return self.account(result["user"], result["accessToken"])


class CurrentUser(_Users):
    """``/user``: whoever calls, so there is no id."""

    async def find(self, params: Params) -> Record:
        """Return the caller's own record."""
        return self.account(params.user, params.authentication["accessToken"])

    async def update(self, _: None, data: Record, params: Params) -> Record:
        """Change some properties of the caller's own record."""
        users = self.app.service("users")
        changed = await users.patch(params.user["id"], data["user"], params.copy(query={}))
        return self.account(changed, params.authentication["accessToken"])


class Profiles(_Users):
    """``/profiles/:username``."""

    async def get(self, id: str, params: Params) -> Record:
        """Return the profile of a user."""
        user = await self.find_user(id)
        return {"profile": profile_of(user, following=await self._follows(user, params))}

    async def _follows(self, author: Record, params: Params) -> bool:
        if params.get("user") is None:
            return False
        query = {"followerId": params.user["id"], "authorId": author["id"], "$limit": 1}
        return bool(await self.app.service("follows").find(query=query))


class Following(Profiles):
    """``/profiles/:username/follow``."""

    async def create(self, _: Any, params: Params) -> Record:
        """Follow a user; nothing changes if the caller does already."""
        author = await self.find_user(params.route["username"])
        follow = {"followerId": params.user["id"], "authorId": author["id"]}
        upsert = {"upsert": ["followerId", "authorId"]}
        await self.app.service("follows").create(follow, sql=upsert)
        return {"profile": profile_of(author, following=True)}

    async def remove(self, _: None, params: Params) -> Record:
        """Follow a user no longer."""
        author = await self.find_user(params.route["username"])
        query = {"followerId": params.user["id"], "authorId": author["id"]}
        await self.app.service("follows").remove(None, query=query)
        return {"profile": profile_of(author, following=False)}


def ok(context: HookContext) -> None:
    """Respond with 200: nothing was created that has an address."""
    context.http = {"status": 200}


def add_users(app: ExpressApplication, secret: str | None, passwords: Passwords | None) -> None:
    """Register the services of users, and those that sign them in."""
    authentication = AuthenticationService(
        app, secret=secret, service="users", audience="conduit", expires_in="60d"
    )
    authentication.register("jwt", JWTStrategy(schemes=["Token"]))
    authentication.register("local", LocalStrategy(username_field="email", passwords=passwords))
    app.use("authentication", authentication, methods=[])
    app.service("users").hooks(
        before={"create": [hash_password("password")], "patch": [hash_password("password")]}
    )

    app.use("api/users", Registration(), methods=["create"])
    app.service("api/users").hooks(before={"create": [validate_data(NewUser)]})

    app.use("api/users/login", SignIn(), methods=["create"])
    app.service("api/users/login").hooks(
        before={"create": [validate_data(Login)]}, after={"create": [ok]}
    )

    app.use("api/user", CurrentUser(), methods=["find", "update"])
    changes = get_validator(UserChanges, defaults=False)
    app.service("api/user").hooks(
        around=[authenticate("jwt")], before={"update": [validate_data(changes)]}
    )

    app.use("api/profiles", Profiles(), methods=["get"])
    app.service("api/profiles").hooks(around=[authenticate("jwt", optional=True)])

    app.use("api/profiles/:username/follow", Following(), methods=["create", "remove"])
    app.service("api/profiles/:username/follow").hooks(
        around=[authenticate("jwt")], after={"create": [ok]}
    )
