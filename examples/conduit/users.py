"""Users and profiles: registration, sign-in, the user's own record, following."""

from examples.conduit.errors import not_found
from examples.conduit.schemas import (
    Account,
    Login,
    NewUser,
    OneAccount,
    OneProfile,
    Profile,
    UserChanges,
)

from alula import App, Params, Record, answers
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


def profile_of(user: Record, *, following: bool) -> Profile:
    """Return what everybody may see of a user."""
    shown = {name: user[name] for name in ("username", "bio", "image")}
    return Profile(**shown, following=following)


class _Users:
    app: App

    async def setup(self, app: App, _: str) -> None:
        self.app = app

    def account(self, user: Record, token: str) -> OneAccount:
        """Return what users see of themselves."""
        shown = {name: user[name] for name in ("email", "username", "bio", "image")}
        return OneAccount(user=Account(**shown, token=token))

    async def find_user(self, username: str) -> Record:
        found = await self.app.service("users").find(query={"username": username, "$limit": 1})
        if not found:
            raise not_found("profile")
        return found[0]


class Registration(_Users):
    """``/users``."""

    async def create(self, data: NewUser, params: Params) -> OneAccount:
        """Register a user, who is signed in then."""
        new = data.user.model_dump()
        user = await self.app.service("users").create(new, params.copy(query={}))
        issuer: AuthenticationService = self.app.service("authentication").service
        return self.account(user, issuer.create_access_token({}, str(user["id"])))


class SignIn(_Users):
    """``/users/login``."""

    @answers(200)
    async def create(self, data: Login, params: Params) -> OneAccount:
        """Sign a user in by address and password."""
        credentials = {"strategy": "local", **data.user.model_dump()}
        try:
            result = await self.app.service("authentication").create(
                credentials, params.copy(query={})
            )
        except NotAuthenticated as error:
            raise NotAuthenticated(error.message, errors={"credentials": "invalid"}) from error
        return self.account(result["user"], result["accessToken"])


class CurrentUser(_Users):
    """``/user``: whoever calls, so there is no id."""

    async def find(self, params: Params) -> OneAccount:
        """Return the caller's own record."""
        return self.account(params.user, params.authentication["accessToken"])

    async def update(self, _: None, data: UserChanges, params: Params) -> OneAccount:
        """Change some properties of the caller's own record."""
        users, changes = self.app.service("users"), data.user.model_dump(exclude_unset=True)
        changed = await users.patch(params.user["id"], changes, params.copy(query={}))
        return self.account(changed, params.authentication["accessToken"])


class Profiles(_Users):
    """``/profiles/:username``."""

    async def get(self, id: str, params: Params) -> OneProfile:
        """Return the profile of a user."""
        user = await self.find_user(id)
        return OneProfile(profile=profile_of(user, following=await self._follows(user, params)))

    async def _follows(self, author: Record, params: Params) -> bool:
        if params.get("user") is None:
            return False
        query = {"followerId": params.user["id"], "authorId": author["id"], "$limit": 1}
        return bool(await self.app.service("follows").find(query=query))


class Following(Profiles):
    """``/profiles/:username/follow``."""

    @answers(200)
    async def create(self, _: None, params: Params, *, username: str) -> OneProfile:
        """Follow a user; nothing changes if the caller does already."""
        author = await self.find_user(username)
        follow = {"followerId": params.user["id"], "authorId": author["id"]}
        upsert = {"upsert": ["followerId", "authorId"]}
        await self.app.service("follows").create(follow, sql=upsert)
        return OneProfile(profile=profile_of(author, following=True))

    async def remove(self, _: None, params: Params, *, username: str) -> OneProfile:
        """Follow a user no longer."""
        author = await self.find_user(username)
        query = {"followerId": params.user["id"], "authorId": author["id"]}
        await self.app.service("follows").remove(None, query=query)
        return OneProfile(profile=profile_of(author, following=False))


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
    app.use("api/users/login", SignIn(), methods=["create"])
    app.use("api/user", CurrentUser(), methods=["find", "update"])
    app.service("api/user").hooks(around=[authenticate("jwt")])

    app.use("api/profiles", Profiles(), methods=["get"])
    app.service("api/profiles").hooks(around=[authenticate("jwt", optional=True)])

    app.use("api/profiles/:username/follow", Following(), methods=["create", "remove"])
    app.service("api/profiles/:username/follow").hooks(around=[authenticate("jwt")])
