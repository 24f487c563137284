"""The applications that the recorded exchanges of accounts were recorded from, built with Alula.

``python -m tests.conformance.reference_accounts --port N [--url URL]`` serves three of them on N,
N+1 and N+2, until SIGINT or SIGTERM. They keep what they store in memory, or in the database of a
URL: ``sqlite:///...``, ``postgresql://...`` or ``mongodb://...``. With ``--oidc URL --github URL``,
people can sign in with the providers there.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.accounts.building import Stores, memory_stores, stores_at

from alula import App, HookContext, Params
from alula.accounts import Accounts, MemoryMailer, Provider, openid
from alula.accounts.providers._github import GitHub
from alula.authentication import (
    AuthenticationService,
    LocalStrategy,
    authenticate,
    hash_password,
    protect,
)
from alula.express import error_handler, express, json, not_found, rest, urlencoded

PAGE = "https://app.example/account#token={token}"


class Notices:
    """The messages in their order, as the original lists them."""

    def __init__(self, accounts: Accounts, mailer: MemoryMailer) -> None:
        self.accounts = accounts
        self.mailer = mailer

    async def find(self, params: Params) -> list[dict[str, Any]]:
        await self.accounts.idle()
        nothing = {"changes": None, "options": None}
        return [
            {
                "type": mail.kind,
                "to": mail.to,
                "token": token_of(mail.link),
                "shortToken": mail.code,
                **nothing,
            }
            for mail in self.mailer.sent
        ]


class Notes:
    async def find(self, params: Params) -> dict[str, Any]:
        return {"user": (params.get("user") or {}).get("email")}


def token_of(link: str | None) -> str | None:
    """Return the token in the fragment of a link."""
    return None if link is None else parse_qs(urlsplit(link).fragment)["token"][0]


class Application:
    """One of the three applications.

    Args:
        stores: Where it keeps what it stores.
        options: Options of `Accounts` that differ.
    """

    def __init__(self, stores: Stores, **options: Any) -> None:
        self.stores = stores
        self.mailer = MemoryMailer()
        links = ["verify", "reset", *(["link_identity"] if "sign_in" in options else [])]
        self.accounts = Accounts(
            store="credentials",
            mailer=self.mailer,
            sender="Example <no-reply@app.example>",
            links=dict.fromkeys(links, PAGE),
            codes=True,
            check_unique=True,
            totp=True,
            **options,
        )
        app = self.app = express(App())
        app.use(json())
        app.use(urlencoded())
        app.configure(rest())
        app.use("users", stores.users)
        app.use("sessions", stores.sessions, methods=[])
        app.use("credentials", stores.credentials, methods=[])
        authentication = AuthenticationService(
            app,
            secret="a secret of more than thirty-two bytes",
            sessions="sessions",
            throttle=False,  # as for the recording
        )
        authentication.register("local", LocalStrategy(fold_username=True))
        app.use("authentication", authentication)
        self.add_hooks()
        app.configure(self.accounts)
        app.use("notes", Notes())
        app.service("notes").hooks(before={"find": [authenticate("jwt")]})
        app.use("__notices", Notices(self.accounts, self.mailer))

    def add_hooks(self) -> None:
        signed_in = {m: [authenticate("jwt")] for m in ("find", "get", "patch", "remove")}
        self.app.service("users").hooks(
            around={"all": [protect("password")]},
            before={**signed_in, "create": [drop_tokens, hash_password("password")]},
        )

    async def reset(self) -> None:
        await self.accounts.idle()
        await self.stores.clear()
        self.mailer.sent.clear()


def drop_tokens(context: HookContext) -> None:
    """Drop what front ends of the original may send, and no table of users has."""
    for name in ("verifyToken", "resetToken"):
        context.data.pop(name, None)


class StandIn(GitHub):
    """GitHub at another address."""

    def __init__(self, url: str) -> None:
        secrets = {"client_id": "github-app", "client_secret": "secret-of-github"}
        super().__init__("github", "github.com", scopes=["user:email"], profile=None, **secrets)
        self._site = self._api = url


def providers_at(oidc: str, github: str) -> list[Provider]:
    """Return the providers of the recorded applications.

    Args:
        oidc: The issuer.
        github: Where the stand-in of GitHub is.
    """
    trusted = {"client_id": "app", "client_secret": "secret-of-app", "trust_email": True}
    plain = {"client_id": "plain", "client_secret": "secret-of-plain"}
    return [
        openid("oidc", issuer=oidc, **trusted),
        openid("plain", issuer=oidc, scopes=["openid", "email"], **plain),
        StandIn(github),
    ]


class Reset:
    def __init__(self, applications: list[Application]) -> None:
        self.applications = applications

    async def create(self, data: object, params: Params) -> dict[str, Any]:
        for application in self.applications:
            await application.reset()
        return {}


def options_of(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the options of `Accounts` that differ, of the three applications."""
    options: list[dict[str, Any]] = [{}, {}, {"code_tries": 3}]
    if given.oidc is not None:
        pages = (
            [f"http://127.0.0.1:{given.port}/app/"],
            ["https://app.example", "http://localhost:3000"],
            [],
        )
        for number, each in enumerate(options):
            each["sign_in"] = providers_at(given.oidc, given.github)
            each["base_url"] = f"http://127.0.0.1:{given.port + number}"
            each["pages"] = pages[number]
    return options


async def make_applications(stack: AsyncExitStack, given: argparse.Namespace) -> list[Application]:
    """Return the three applications, not set up."""
    applications, url = [], given.url
    for number, options in enumerate(options_of(given)):
        if url is None:
            stores = memory_stores()
        else:
            stores = await stack.enter_async_context(stores_at(url, f"accounts{number}"))
        applications.append(Application(stores, **options))
    for application in applications:
        application.app.use("__reset", Reset(applications))
        application.app.use(not_found())
        application.app.use(error_handler())
    return applications


async def serve(given: argparse.Namespace) -> None:
    """Serve until a signal."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with AsyncExitStack() as stack:
        applications = await make_applications(stack, given)
        port = given.port
        for place, application in enumerate(applications):
            await stack.enter_async_context(await application.app.listen(port + place))
        print(f"serving on {port}, {port + 1} and {port + 2}", flush=True)
        await ended.wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The applications of the recorded accounts.")
    parser.add_argument("--port", type=int, required=True, help="the others have the next two")
    parser.add_argument("--url", help="a database; without one, everything is in memory")
    parser.add_argument("--oidc", help="the issuer of an OpenID provider")
    parser.add_argument("--github", help="where a stand-in of GitHub is")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
