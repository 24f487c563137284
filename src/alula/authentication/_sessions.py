"""Sessions: short access tokens, refresh tokens that are good for one use, and revocation.

A session is a record in a service of the application. Its access tokens name it (claim ``sid``),
and are good for as long as it is there: signing out removes it. Its refresh token is
``<session>.<turn>.<tag>``: the tag is a keyed hash of the rest, so nothing that could be stolen is
stored, and a token that was made up is refused without asking the store. Each use turns the
session on by one. A token of an earlier turn was used already, by its owner or by a thief; nobody
can tell which, so the session ends for both.
"""
# ruff: noqa: ARG002  # the methods of extensions

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from secrets import token_urlsafe
from typing import Any, Final, NamedTuple

from alula._context import HookContext, Params
from alula._service import ServiceHandle, owning_handle
from alula.authentication._access_tokens import Duration, milliseconds_of
from alula.authentication._entities import id_name, private_service, remove_before
from alula.authentication._extension import Extension
from alula.authentication._strategies import CONFIRM
from alula.errors import NotAuthenticated, NotFound

__all__ = ["Session", "Sessions"]

_log: Final = logging.getLogger("alula.authentication")
_LONGEST: Final = 256
_SWEEP_EVERY: Final = 3_600_000
_OF_SIGN_IN: Final = "session_of_sign_in"
_ENDED: Final = "The session has ended; sign in again"


class Session(NamedTuple):
    """A session that goes on.

    Attributes:
        id: What its access tokens have as ``sid``.
        user_id: Whose it is, as text.
        refresh_token: What it is to be renewed with, once.
    """

    id: str
    user_id: str
    refresh_token: str


class Sessions(Extension):
    """The sessions of one authentication service.

    Args:
        service: Path of the service that keeps them, which has to be closed to clients.
        lifetime: How long a session lasts that is not renewed: seconds, or a text such as
            ``"30d"``.
        grace: For how many seconds the refresh token before the current one is still good. With 0
            a second use ends the session at once; some seconds suit clients that renew from
            several tabs or over bad connections.
        foreign_tokens: Whether access tokens that name no session are good: those of another
            server with the same secret, or from before there were sessions. They can not be
            revoked.
        now: The clock, in seconds.

    Raises:
        ValueError: A time that is none.
    """

    def __init__(
        self,
        *,
        service: str,
        lifetime: Duration = "30d",
        grace: Duration = 0,
        foreign_tokens: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = service
        self._lifetime = milliseconds_of(lifetime, "sessions: lifetime")
        self._grace = milliseconds_of(grace, "sessions: grace") if grace else 0
        self._foreign = foreign_tokens
        self._now = now
        self._users: ServiceHandle | None = None
        self._sweep_at = 0

    # -- as an extension -----------------------------------------------------------------------

    async def setup(self, authentication: Any) -> None:
        """Find the services of the sessions and of their users.

        From then on, users who get another password or are removed lose their sessions.

        Raises:
            ValueError: There is no such service, or clients can call it, or there are no users.
        """
        if authentication.entities is None:
            raise ValueError("sessions belong to users; an authentication service without has none")
        self._handle: ServiceHandle = private_service(
            authentication.app, self._path, "sessions['service']"
        )
        self._id = id_name(self._handle)
        # A key of its own: no tag can be taken for the signature of something else.
        self._key = authentication.derived_key(b"alula refresh token")
        users: ServiceHandle = authentication.entities.handle
        if self._users is not users:  # it is set up for the first time
            self._users = users
            self._end_with(users, authentication)
        self._entities = authentication.entities

    async def claims(self, result: Mapping[str, Any], params: Params) -> Mapping[str, Any]:
        """Name the session in a new access token; begin one where the sign-in renews none."""
        session = params.get(_OF_SIGN_IN)
        if session is None:
            user_id = self._entities.id_of(result.get(self._entities.name))
            session = params[_OF_SIGN_IN] = await self.begin(user_id)
            await self._confirmed(session, params)
        return {"sid": session.id}

    async def answer(self, answer: dict[str, Any], params: Params) -> dict[str, Any]:
        """Add the refresh token to what a sign-in answers."""
        token = answer.pop("accessToken")
        refresh_token = params[_OF_SIGN_IN].refresh_token
        return {"accessToken": token, "refreshToken": refresh_token, **answer}

    async def use_of_token(self, payload: Mapping[str, Any], entity: Any, params: Params) -> None:
        """Refuse an access token whose session has ended."""
        await self.check(payload)

    async def after_sign_out(self, answer: Mapping[str, Any], params: Params) -> None:
        """End the session, or with the query ``everywhere=true`` all sessions of the user."""
        payload = (answer.get("authentication") or {}).get("payload", {})
        session = params.get(_OF_SIGN_IN)
        if session is not None:  # the proof is a refresh token
            payload = {"sid": session.id, "sub": session.user_id}
        everywhere = params.query.get("everywhere")
        if everywhere is True or everywhere == "true":
            # The answer shows no id where hooks hide it.
            user_id = payload.get("sub") or self._entities.id_of(answer[self._entities.name])
            await self.end_all(user_id)
        await self.end(payload)

    async def sign_in(self, refresh_token: Any, params: Params) -> Any:
        """Use up a refresh token; return the record of its user.

        Raises:
            NotAuthenticated: As `renew`, or the user is gone.
        """
        session = await self.renew(refresh_token)
        try:
            record = await self._entities.get(session.user_id, params)
        except NotAuthenticated:
            await self._remove(session.id)
            raise
        params[_OF_SIGN_IN] = session
        return record

    async def _confirmed(self, session: Session, params: Params) -> None:
        """End a session whose proof is not good any more now that it is there."""
        confirm = params.get(CONFIRM)
        if confirm is not None:
            try:
                await confirm()
            except Exception:
                await self._remove(session.id)
                raise

    # -- sessions ------------------------------------------------------------------------------

    async def begin(self, user_id: Any) -> Session:
        """Begin a session of a user who has just signed in."""
        now = self._milliseconds()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_EVERY
            await remove_before(self._handle, "expiresAt", now)
        record = {
            self._id: token_urlsafe(16),
            "userId": str(user_id),
            "turn": 0,
            "createdAt": now,
            "turnedAt": now,
            "expiresAt": now + self._lifetime,
        }
        await self._handle.create(record)
        return self._session(record, 0)

    async def renew(self, refresh_token: Any) -> Session:
        """Use up a refresh token; return its session with the next one.

        Raises:
            NotAuthenticated: It is none, or its session has ended, or it was used before. That
                ends the session.
        """
        session_id, turn = self._read(refresh_token)
        while True:
            record = await self._running(session_id)
            if record["turn"] != turn:
                return await self._used_before(record, turn)
            now = self._milliseconds()
            changes = {"turn": turn + 1, "turnedAt": now, "expiresAt": now + self._lifetime}
            try:
                await self._handle.patch(session_id, changes, query={"turn": turn})
            except NotFound:
                continue  # somebody was quicker with the same token, or has signed out
            return self._session(record, turn + 1)

    async def check(self, payload: Mapping[str, Any]) -> None:
        """See to it that the session of an access token goes on.

        Args:
            payload: The claims of the token, whose signature was verified.

        Raises:
            NotAuthenticated: It names no session, or one that has ended, or that of another user.
        """
        session_id = payload.get("sid")
        if session_id is None and self._foreign:
            return
        if not isinstance(session_id, str):
            raise NotAuthenticated("The access token belongs to no session; sign in again")
        record = await self._running(session_id)
        if record["userId"] != payload.get("sub"):
            raise NotAuthenticated(_ENDED)

    async def end(self, payload: Mapping[str, Any]) -> None:
        """End the session of an access token, where it has one."""
        if isinstance(session_id := payload.get("sid"), str):
            await self._remove(session_id)

    async def end_all(self, user_id: Any) -> None:
        """End all sessions of a user."""
        await self._handle.remove(
            None, query={"userId": str(user_id)}, adapter={"multi": ["remove"]}, paginate=False
        )

    def _end_with(self, users: ServiceHandle, authentication: Any) -> None:
        """From now on end all sessions of users who get another password, or are removed.

        They end before the change and once more after it, so that whatever fails, no session of
        an old password goes on behind a new one: the worst is that a user has to sign in again.
        """
        name = authentication.entities.id_name

        async def end_sessions(context: HookContext, next: Any) -> None:
            of_password = context.method != "patch" or _brings(
                context.data, authentication.secret_fields
            )
            if not of_password or context.params.get("renews_password"):  # only the hash is another
                await next()
                return
            for user_id in await _ids_before(context, name):
                await self.end_all(user_id)
            await next()
            for user_id in _ids(context, name):  # begun meanwhile
                await self.end_all(user_id)

        users = owning_handle(users)
        methods = {"update", "patch", "remove"}.intersection(users.hook_methods())
        users.add_innermost(end_sessions, methods)

    async def _running(self, session_id: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = await self._handle.get(session_id)
        except NotFound:
            raise NotAuthenticated(_ENDED) from None
        if record["expiresAt"] <= self._milliseconds():
            raise NotAuthenticated(_ENDED)
        return record

    async def _used_before(self, record: dict[str, Any], turn: int) -> Session:
        late = self._milliseconds() - record["turnedAt"]
        if turn == record["turn"] - 1 and late < self._grace:
            return self._session(record, record["turn"])
        await self._remove(record[self._id])
        _log.warning(
            "a refresh token of user %s was used twice: their session has been ended, since the"
            " token may have been stolen",
            ascii(record["userId"]),
        )
        raise NotAuthenticated(_ENDED)

    async def _remove(self, session_id: str) -> None:
        with suppress(NotFound):  # it is gone, which is what is wanted
            await self._handle.remove(session_id)

    def _session(self, record: Mapping[str, Any], turn: int) -> Session:
        token = f"{record[self._id]}.{turn}"
        return Session(record[self._id], record["userId"], f"{token}.{self._tag(token)}")

    def _read(self, token: Any) -> tuple[str, int]:
        if isinstance(token, str) and len(token) <= _LONGEST and token.isascii():
            signed, _, tag = token.rpartition(".")
            if hmac.compare_digest(tag, self._tag(signed)):
                session_id, _, turn = signed.rpartition(".")
                return session_id, int(turn)
        raise NotAuthenticated("Invalid refresh token")

    def _tag(self, text: str) -> str:
        tag = hmac.digest(self._key, text.encode(), hashlib.sha256)
        return urlsafe_b64encode(tag).rstrip(b"=").decode()

    def _milliseconds(self) -> int:
        return int(self._now() * 1000)


def _brings(data: Any, fields: Collection[str]) -> bool:
    """Tell whether the data of a patch touches fields, also below them or by an operator."""
    if not isinstance(data, Mapping):
        return False
    names = [*data]
    for name, value in data.items():
        if isinstance(name, str) and name[:1] == "$" and isinstance(value, Mapping):
            names += value
    return any(isinstance(name, str) and name.split(".")[0] in fields for name in names)


async def _ids_before(context: HookContext, name: str) -> list[Any]:
    """Return the ids of the users that a call is going to change.

    Whom its query leaves out it does not change, so nobody can sign others out by trying to.
    """
    service, params = context.service.service, context.params.copy(paginate=False)
    for option in ("$limit", "$skip", "$sort", "$select"):
        params.query.pop(option, None)
    try:
        one = context.id is not None
        found = service.get(context.id, params) if one else service.find(params)
        if hasattr(found, "__await__"):
            found = await found
    except NotFound:
        return []
    if not one and isinstance(found, Mapping):
        found = found["data"]
    return [record[name] for record in ([found] if one else found) if name in record]


def _ids(context: HookContext, name: str) -> list[Any]:
    """Return the ids of the users that a call has changed.

    Those of its records, since the id of a call can be spelled in other ways (ObjectIds in
    capitals), and stands in for records that show none.
    """
    found = context.result if isinstance(context.result, list) else [context.result]
    ids = [record[name] for record in found if isinstance(record, Mapping) and name in record]
    return ids if ids or context.id is None else [context.id]
