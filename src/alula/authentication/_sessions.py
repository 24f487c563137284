"""Sessions: access tokens that name one are valid until it ends.

A session is a record in a service of the application. Its access tokens name it in the claim
``sid``. Signing out removes it, and so do a new password and the removal of its user. What renews a
session is in `_refresh_tokens`. However often it is renewed, it ends some time after the sign-in.
"""

# ruff: noqa: ARG002  # extensions get more arguments than they need here

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import islice
from secrets import token_urlsafe
from typing import Any, Final

from alula._context import HookContext, Params
from alula._events import emit_unless_held
from alula._identity import private_service
from alula._service import ServiceHandle, owning_handle
from alula.authentication._access_tokens import Duration, milliseconds_of
from alula.authentication._attempt import Attempt, Extension, Session, session_ended
from alula.authentication._entities import (
    changed_properties,
    id_name,
    record_ids,
    remove_before,
)
from alula.errors import BadRequest, NotAuthenticated, NotFound
from alula.hooks import Next
from alula.types import Id, Record, is_list, is_mapping

__all__ = ["Sessions"]

_log: Final = logging.getLogger("alula.authentication")

_SWEEP_INTERVAL_MS: Final = 3_600_000
_USER_AGENT_LENGTH: Final = 200


class Sessions(Extension):
    """The sessions of an authentication service.

    Args:
        service: Path of the service that stores them. It must be closed to clients.
        lifetime: How long a session lasts without being renewed: seconds, or a text such as
            ``"30d"``.
        absolute: How long after the sign-in a session ends, however often it is renewed.
        privacy: Whether only the network of an address is stored: of IPv4 the first 24 bits, and of
            IPv6 the first 48.
        grace: For how many seconds the previous refresh token is still accepted. With 0, its second
            use ends the session at once; some seconds suit clients that renew from several tabs or
            over unreliable connections. With `TokenCookie`, the default is 10 seconds, since all
            tabs of a browser share its cookies.
        foreign_tokens: Whether access tokens that name no session are accepted: those of another
            server with the same secret, or from before there were sessions. They cannot be
            revoked.
        now: The clock, in seconds.

    Raises:
        ValueError: A duration is not valid, or ``lifetime`` is longer than ``absolute``.

    Examples:
        >>> from alula.authentication import Sessions
        >>> sessions = Sessions(service="sessions", lifetime="30d", grace="10s")
    """

    def __init__(
        self,
        *,
        service: str,
        lifetime: Duration = "30d",
        absolute: Duration = "90d",
        privacy: bool = False,
        grace: Duration = 0,
        foreign_tokens: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = service
        self.lifetime = milliseconds_of(lifetime, "sessions: lifetime")
        self.absolute = milliseconds_of(absolute, "sessions: absolute")
        if self.lifetime > self.absolute:
            raise ValueError(
                f"sessions: lifetime is {lifetime!r}, but a session ends {absolute!r} after the"
                " sign-in; give a longer absolute, or a shorter lifetime"
            )
        if type(privacy) is not bool:
            raise ValueError(f"sessions: privacy is {privacy!r}; write True or False")
        self._is_private = privacy
        self._stores_origins = True  # until the store refuses one
        self.grace = milliseconds_of(grace, "sessions: grace") if grace else 0
        self._foreign = foreign_tokens
        self._now = now
        self.handle: Any = None
        self._users: ServiceHandle | None = None
        self._sweep_at = 0

    # -- as an extension -----------------------------------------------------------------------

    async def setup(self, authentication: Any) -> None:
        """Find the services of the sessions and of their users.

        From then on, the sessions of a user end when the password changes or the user is removed.

        Raises:
            ValueError: The service is not registered or open to clients, or there are no users.
        """
        if authentication.entities is None:
            raise ValueError("sessions need users; this authentication service has entity=None")
        handle = private_service(authentication.app, self._path, "sessions['service']")
        if self.handle is not handle:
            self.handle = handle
            # A hook, because calls without an event end sessions, too. Innermost, because other
            # hooks may hide which sessions a call has removed.
            owning_handle(handle).add_innermost(self.follow_ends, ["remove"])
        self._id = id_name(handle)
        self._connections = authentication.connections
        self._entities = authentication.entities
        users: ServiceHandle = authentication.entities.handle
        if self._users is not users:  # a second setup would register the hook twice
            self._users = users
            self._end_at_password_changes(users, authentication)

    async def claims(self, attempt: Attempt) -> Mapping[str, Any]:
        """Name the session in a new access token; begin one unless the sign-in renews one.

        ``auth_time`` and ``amr`` tell when and how the user signed in (OpenID Connect Core, section
        2). A renewal does not change them.
        """
        if attempt.session is None:
            session = attempt.session = await self.begin(
                attempt.user_id, attempt.methods, attempt.params
            )
            if attempt.confirm is not None:
                try:
                    await attempt.confirm()
                except Exception:
                    await self.remove(session.id)
                    raise
        session = attempt.session
        claims = {"sid": session.id, "auth_time": session.began_at // 1000}
        return {**claims, "amr": [*session.methods]} if session.methods else claims

    async def check_token(self, payload: Mapping[str, Any], entity: object, params: Params) -> None:
        """Refuse an access token whose session has ended."""
        await self.check(payload)

    async def after_sign_out(self, attempt: Attempt) -> None:
        """End the session, or with the query ``everywhere=true`` all sessions of the user."""
        response, session = attempt.response, attempt.session
        authentication: Mapping[str, Any] = response.get("authentication") or {}
        payload: Mapping[str, Any] = authentication.get("payload", {})
        if session is not None:  # the credentials are a refresh token
            payload = {"sid": session.id, "sub": session.user_id}
        everywhere = attempt.params.query.get("everywhere")
        if everywhere is True or everywhere == "true":
            # The claim comes first, because hooks may hide the id in the response.
            user_id = payload.get("sub") or self._entities.id_of(response[self._entities.name])
            await self.end_all(user_id)
        await self.end(payload)

    # -- sessions ------------------------------------------------------------------------------

    async def begin(
        self, user_id: object, methods: Iterable[str] = (), params: Params | None = None
    ) -> Session:
        """Begin a session of a user who has just signed in.

        Args:
            user_id: The id of the user's record.
            methods: How the user has signed in, as in RFC 8176: ``["pwd"]``.
            params: The params of the sign-in, which say where it comes from.

        Raises:
            RuntimeError: The store of the sessions refuses the record; the message says why.
        """
        now = self.milliseconds()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_INTERVAL_MS
            await remove_before(self.handle, "expiresAt", now)
        record = {
            self._id: token_urlsafe(16),
            "userId": str(user_id),
            "rotation": 0,
            "createdAt": now,
            "rotatedAt": now,
            "expiresAt": now + self.lifetime,
            "methods": " ".join(methods),
        }
        origin: dict[str, Any] = {"ip": None, "userAgent": None}
        if params is not None:
            origin["ip"] = _shown_address(params.ip, is_private=self._is_private)
            origin["userAgent"] = _shown_user_agent(params.headers.get("user-agent"))
        await self._store(record, origin)
        return self.session_of(record)

    async def _store(self, record: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
        """Store a new session, without its origin if the store has no place for that.

        Raises:
            RuntimeError: The store refuses the record; the message says why.
        """
        refusal: BadRequest | None = None
        if self._stores_origins:
            try:
                await self.handle.create({**record, **origin})
            except BadRequest as error:
                refusal = error
            else:
                return
        try:
            await self.handle.create({**record})
        except BadRequest as error:  # not the client's mistake: the record is ours
            raise RuntimeError(
                f"{self._path!r} cannot store a session: {error.message}. It needs the properties"
                f" {', '.join(record)}, all of them texts or 64-bit integers"
            ) from error
        if refusal is not None:
            self._stores_origins = False
            _log.warning(
                "%r does not store where people have signed in: %s. Add the properties %s: texts"
                " that may be null",
                self._path,
                refusal.message,
                ", ".join(origin),
            )

    async def check(self, payload: Mapping[str, Any]) -> None:
        """Check that the session of an access token has not ended.

        Args:
            payload: The claims of the token, whose signature was verified.

        Raises:
            NotAuthenticated: It names no session, one that has ended, or that of another user.
        """
        session_id = payload.get("sid")
        if session_id is None and self._foreign:
            return
        if not isinstance(session_id, str):
            raise NotAuthenticated("The access token has no session; sign in again")
        record = await self.get(session_id)
        if record["userId"] != payload.get("sub"):
            raise session_ended()

    async def get(self, session_id: str) -> dict[str, Any]:
        """Return the record of a session.

        Raises:
            NotAuthenticated: The session has ended.
        """
        try:
            record: dict[str, Any] = await self.handle.get(session_id)
        except NotFound:
            raise session_ended() from None
        now = self.milliseconds()
        # Sessions of earlier versions may have been renewed beyond their absolute end.
        if now >= record["expiresAt"] or now >= record["createdAt"] + self.absolute:
            raise session_ended()
        return record

    def renewed_until(self, began_at: int, now: int) -> int:
        """Return when a session ends that is renewed now.

        Args:
            began_at: When the user signed in, in milliseconds since 1970.
            now: The time, in the same unit.
        """
        return min(now + self.lifetime, began_at + self.absolute)

    async def end(self, payload: Mapping[str, Any]) -> None:
        """End the session of an access token, if it has one.

        Args:
            payload: The claims of the token.
        """
        if isinstance(session_id := payload.get("sid"), str):
            await self.remove(session_id)

    async def end_all(self, user_id: object, *, but: str | None = None) -> None:
        """End all sessions of a user.

        Args:
            user_id: The id of the user's record.
            but: The id of a session that goes on, the claim ``sid`` of its tokens.
        """
        query: dict[str, Any] = {"userId": str(user_id)}
        if but is not None:
            query[self._id] = {"$ne": but}
        await self.handle.remove(None, query=query, adapter={"multi": ["remove"]}, paginate=False)

    async def remove(self, session_id: str) -> None:
        """Remove a session by its id, if it is still there."""
        with suppress(NotFound):
            await self.handle.remove(session_id)

    def session_of(self, record: Mapping[str, Any]) -> Session:
        """Return the session that a record stores."""
        # Records of earlier versions have no methods.
        methods = (*(record.get("methods") or "").split(),)
        return Session(
            record[self._id],
            record["userId"],
            record["rotation"],
            record["createdAt"],
            min(record["expiresAt"], record["createdAt"] + self.absolute),
            methods,
        )

    def milliseconds(self) -> int:
        """Return the time as records have it."""
        return int(self._now() * 1000)

    async def follow_ends(self, context: HookContext, next: Next) -> None:
        """Sign out the connections of sessions that a call has ended."""
        await next()
        result, now = context.result, self.milliseconds()
        if is_list(result):  # a sweep: the tokens of sessions that have expired are invalid anyway
            result = [r for r in result if not r.get("expiresAt", now + 1) <= now]
        ids = record_ids(result, context.id, self._id)
        emit_unless_held(context, partial(self._connections.announce, "session", ids))

    def _end_at_password_changes(self, users: ServiceHandle, authentication: Any) -> None:
        """End the sessions of users whose password changes, or who are removed, from now on.

        They end before the change, and again after it: sessions may have begun in between. If
        something fails, the worst is that a user must sign in again; no session that began with
        the old password outlives it.
        """
        id_property = authentication.entities.id_name

        async def end_sessions(context: HookContext, next: Next) -> None:
            is_change = context.method != "patch" or not authentication.secret_fields.isdisjoint(
                changed_properties(context.data)
            )
            # A renewed hash is of the same password.
            if not is_change or context.params.get("renews_password"):
                await next()
                return
            kept = _kept_session(context)
            for user_id in await _ids_to_change(context, id_property):
                await self.end_all(user_id, but=kept)
            await next()
            for user_id in record_ids(context.result, context.id, id_property) or ():
                await self.end_all(user_id, but=kept)

        owner = owning_handle(users)
        methods = {"update", "patch", "remove"}.intersection(owner.hook_methods())
        # Innermost: hooks registered later cannot change the data behind this one.
        owner.add_innermost(end_sessions, methods)


def _kept_session(context: HookContext) -> str | None:
    """Return the session that a new password does not end: that of the caller, if a hook says so.

    Raises:
        RuntimeError: The caller has no session.
    """
    if context.method == "remove" or context.params.get("keeps_session") is not True:
        return None
    authentication: Mapping[str, Any] = context.params.get("authentication") or {}
    payload: Mapping[str, Any] = authentication.get("payload") or {}
    session_id = payload.get("sid")
    if not isinstance(session_id, str):
        raise RuntimeError(
            "params.keeps_session keeps the session of the caller, who has none; set it behind"
            " authenticate(...), in calls with an access token of a session"
        )
    return session_id


async def _ids_to_change(context: HookContext, id_property: str) -> list[Id]:
    """Return the ids of the users that a call is going to change.

    The query of the call counts: a call that changes nobody must not sign anybody out.
    """
    service, params = context.service.service, context.params.copy(paginate=False)
    for option in ("$limit", "$skip", "$sort", "$select"):
        params.query.pop(option, None)
    is_single = context.id is not None
    try:
        result = service.get(context.id, params) if is_single else service.find(params)
        if hasattr(result, "__await__"):
            result = await result
    except NotFound:
        return []
    if not is_single and is_mapping(result):
        result = result["data"]
    records: list[Record] = [result] if is_single else result
    return [record[id_property] for record in records if id_property in record]


def _shown_address(address: str | None, *, is_private: bool) -> str | None:
    """Return an address as sessions store it, None if it is not an address.

    Args:
        address: That of the connection, or what the server takes for it behind a proxy.
        is_private: Whether only its network is stored.
    """
    try:
        ip = ip_address((address or "").partition("%")[0])
    except ValueError:  # such as the path of a Unix socket
        return None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if not is_private:
        return str(ip)
    return str(ip_network((ip, 24 if ip.version == 4 else 48), strict=False))


def _shown_user_agent(sent: str | None) -> str | None:
    """Return the header ``User-Agent`` as sessions store it: short, and as one line of text."""
    return "".join(islice(filter(str.isprintable, sent or ""), _USER_AGENT_LENGTH)) or None
