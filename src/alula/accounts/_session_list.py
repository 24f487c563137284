"""The service `account/sessions`: people see where they are signed in, and end sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from alula._context import HookContext, Params
from alula._identity import Application
from alula.accounts._guards import RECENT_SECONDS, recent
from alula.authentication import authenticate
from alula.errors import BadRequest
from alula.types import Id, Record

__all__ = ["PATH", "SessionList", "caller_of", "forbid_caching", "offer_to_callers"]

PATH: Final = "account/sessions"

_MOST: Final = 1_000
"""The most sessions in a list: nobody reads more, and a script may sign in without end."""


class SessionList:
    """The sessions of the caller; those of others do not exist here.

    Args:
        authentication: The authentication service.

    Attributes:
        secret_events: True: nobody else may know where somebody is signed in, so its events are
            never published.
    """

    secret_events = True

    def __init__(self, authentication: Any) -> None:
        self._authentication = authentication

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service.

        Args:
            app: The application.
            authentication_path: The path of the authentication service, None for the default one.

        Raises:
            ValueError: No strategy checks access tokens, by which callers sign in here.
        """
        strategy = self._authentication.token_strategy
        if strategy is None:
            raise ValueError("Accounts needs a JWTStrategy, which checks access tokens")
        offer_to_callers(app, PATH, self, ["find", "remove"], strategy.name, authentication_path)

    async def find(self, params: Params) -> list[dict[str, Any]]:
        """Return the sessions of the caller, the newest first."""
        sessions, caller = self._authentication.sessions, caller_of(params)
        now = sessions.milliseconds()
        records: list[Record] = await sessions.handle.find(
            query={
                "userId": caller["sub"],
                "expiresAt": {"$gt": now},
                "createdAt": {"$gt": now - sessions.absolute},
                "$sort": {"createdAt": -1},
                "$limit": _MOST,
            },
            paginate=False,
        )
        return [self._shown(record, caller) for record in records]

    async def remove(self, id: Id, params: Params) -> Any:
        """End one session of the caller, or with the query ``others=true`` all but this one.

        Raises:
            BadRequest: There is neither an id nor this query.
            NotFound: The caller has no such session.
        """
        sessions, caller = self._authentication.sessions, caller_of(params)
        if id is not None:
            query = {"userId": caller["sub"]}
            return self._shown(await sessions.handle.remove(id, query=query), caller)
        if params.query.get("others") not in {True, "true"}:
            raise BadRequest("Name a session by its id, or end all others by the query others=true")
        ended = [one for one in await self.find(params) if not one["current"]]
        await sessions.end_all(caller["sub"], but=caller.get("sid"))
        return ended

    def _shown(self, record: Mapping[str, Any], caller: Mapping[str, Any]) -> dict[str, Any]:
        session = self._authentication.sessions.session_of(record)
        return {
            "id": session.id,
            "current": session.id == caller.get("sid"),
            "createdAt": session.began_at,
            "lastUsedAt": record["rotatedAt"],
            "expiresAt": session.expires_at,
            "ip": record.get("ip"),
            "userAgent": record.get("userAgent"),
            "methods": [*session.methods],
        }


def offer_to_callers(
    app: Application,
    path: str,
    service: object,
    methods: Sequence[str],
    strategy: str,
    authentication: str | None,
    *,
    recently: Iterable[str] = (),
) -> None:
    """Register a service for people who have signed in; no cache keeps its responses.

    Args:
        app: The application.
        path: Where.
        service: The service.
        methods: Its methods.
        strategy: The name of the strategy that checks access tokens.
        authentication: The path of the authentication service, None for the default one.
        recently: The methods that need a recent sign-in.
    """
    app.use(path, service, methods=methods)
    signed_in, just_signed_in = (
        authenticate(strategy, service=authentication),
        recent(RECENT_SECONDS),
    )
    app.service(path).hooks(
        around={"all": [signed_in]},
        before={"all": [forbid_caching], **{method: [just_signed_in] for method in recently}},
    )


def forbid_caching(context: HookContext) -> None:
    """Keep what belongs to one person out of caches, which others may use."""
    headers: dict[str, Any] = context.http.get("headers") or {}
    context.http["headers"] = {**headers, "Cache-Control": "no-store"}


def caller_of(params: Params) -> Mapping[str, Any]:
    """Return the claims of the caller's token.

    Raises:
        BadRequest: The application itself calls, so there is no caller.
    """
    payload: Mapping[str, Any] | None = (params.authentication or {}).get("payload")
    if payload is None:
        raise BadRequest("This service needs a signed-in caller")
    return payload
