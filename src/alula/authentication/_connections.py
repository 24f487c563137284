"""Who is signed in on a real-time connection, from the sign-in to its end.

What holds in this file:

- A sign-in is registered before its token is checked. A user who is removed meanwhile, or a session
  that ends, so ends it as well.
- Between a check and the action that depends on it, there is no ``await``.
- Other processes are told the ids of users, sessions and keys that have ended, and never records,
  tokens or hashes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextvars import Context
from functools import partial
from typing import Any, Final

from alula._channels import Channels
from alula._connection import Connection, accept_sign_in
from alula._context import HookContext, Params, connection_params
from alula._events import emit_unless_held
from alula._service import ServiceHandle, owning_handle
from alula.authentication._attempt import session_ended
from alula.authentication._base_strategy import Credentials
from alula.authentication._entities import record_ids
from alula.errors import FrameworkError, NotAuthenticated
from alula.hooks import Next
from alula.types import is_mapping

__all__ = ["SignedInConnections"]

_log: Final = logging.getLogger("alula.authentication")

_CLOSE_DELAY_SECONDS: Final = 0.5  # in which the response to the call that signs out is sent
_MAX_TIMER_SECONDS: Final = 86_400.0  # tokens may be valid for longer than a timer can run
_MAX_CONCURRENT_CHECKS: Final = 32
_MAX_ANNOUNCED: Final = 1000  # ids in one message; further ids are sent in further messages

_USER_METHODS: Final = frozenset({"update", "patch", "remove"})


class SignIn:
    """The credentials by which somebody is signed in on a connection: an access token or a key.

    Args:
        owner: The connections of the authentication service that checks them.
        connection: The connection.
        credentials: What calls of the connection are authenticated with.
        keys: Under what `SignedInConnections` finds it, each a kind and an id: ``("user", "1")``,
            ``("session", "...")``, or the name of a strategy and the id of credentials.
        expires: When the credentials expire, in seconds since 1970.
        has_scopes: Whether they are limited to scopes, as those of a key are.

    Attributes:
        user_id: The id of the user, as text; None without users.
        hidden_user: The name under which calls that have not passed `authenticate` must not find
            the user; None where they may.
        channels: The channels that the connection was in before anybody signed in.
        is_stale: Whether the record of the user changed since it was loaded.
        is_ended: Whether the credentials must no longer be accepted here.
        is_signing_out: Whether the client is signing out by a call, which ends it.
        timer: Runs out when the credentials expire; None before the sign-in is complete.
    """

    def __init__(
        self,
        owner: SignedInConnections,
        connection: Connection,
        credentials: Credentials,
        keys: Mapping[str, object],
        expires: float = math.inf,
        *,
        has_scopes: bool = False,
    ) -> None:
        self.owner = owner
        self.connection = connection
        self.credentials = credentials
        self.keys = {kind: str(key) for kind, key in keys.items() if key is not None}.items()
        self.user_id = dict(self.keys).get("user")
        self.expires = expires
        # Which scope a key needs is up to `authenticate`. Without one, nobody knows its user.
        self.hidden_user = owner.entity if has_scopes else None
        self.channels: frozenset[str] = frozenset()
        self.is_stale = self.is_ended = self.is_signing_out = False
        self.timer: asyncio.TimerHandle | None = None

    def is_by(self, credentials: Credentials) -> bool:
        """Tell whether credentials are those of this sign-in."""
        return all(credentials.get(name) == value for name, value in self.credentials.items())

    @property
    def is_current(self) -> bool:
        """Whether the connection is signed in by it, and not by an earlier or later one."""
        return self.connection.sign_in is self

    @property
    def has_expired(self) -> bool:
        """Whether the credentials have expired."""
        return time.time() >= self.expires

    def has_same_user(self, other: SignIn) -> bool:
        """Tell whether both are of one user; without users they never are."""
        return self.owner is other.owner and self.user_id == other.user_id and bool(self.user_id)

    def check(self) -> None:
        """Refuse a call with expired credentials, also if the timer is late.

        Raises:
            NotAuthenticated: They have expired, and the connection is about to close.
        """
        if self.has_expired:
            self.owner.check_expired(self)

    def forget(self) -> None:
        """Stop following the user, since the connection was closed; it keeps its user."""
        self.owner.drop(self)
        self.connection.sign_in = None


# Shared by all authentication services: a sign-in at any of them keeps a connection open.
_closing: Final[dict[Connection, asyncio.TimerHandle]] = {}


class SignedInConnections:
    """The real-time connections on which users of an authentication service are signed in.

    Args:
        authentication: The authentication service.
    """

    def __init__(self, authentication: Any) -> None:
        self._authentication = authentication
        self._topic = ""
        self._handle: ServiceHandle | None = None
        self._users: ServiceHandle | None = None
        self._sign_ins: dict[tuple[str, str], set[SignIn]] = {}
        self._stale: dict[SignIn, None] = {}
        # The event loop itself keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing: asyncio.Task[None] | None = None

    def setup(self, app: Any, path: str) -> None:
        """Begin to follow sign-ins, sign-outs and closed connections.

        Args:
            app: The application.
            path: Where the authentication service is registered.
        """
        handle = app.service(path)
        if self._handle is not handle:  # a second setup must not register all this twice
            self._handle, self._topic = handle, f"accounts/{path}"
            # Outermost: a call that hooks let fail signs nobody in or out.
            handle.hook_table.add_outermost(self.sign_in, ("create",))
            handle.hook_table.add_outermost(self.sign_out, ("remove",))
            handle.compose_hooks()
            self._channels.on_signal(self._topic, lambda data: self._apply(*data))
            # A message that was missed may have been about the end of any session.
            self._channels.on_gap(lambda: self._apply("changed", None))

    @property
    def entity(self) -> str | None:
        """The name of a user's record in params, None without users."""
        name: str | None = self._authentication.entity
        return name

    # -- sign-in and sign-out ------------------------------------------------------------------

    async def sign_in(self, context: HookContext, next: Next) -> None:
        """Sign a connection in by the access token that its call gets."""
        connection = _connection_of(context.params)
        await next()
        result = context.result
        token = result.get("accessToken") if is_mapping(result) else None
        if connection is not None and isinstance(token, str):
            await self.bind(connection, token, context.params)

    async def sign_out(self, context: HookContext, next: Next) -> None:
        """Sign a connection out whose call signs out with the token of the connection."""
        connection = _connection_of(context.params)
        sign_in = None if connection is None else self._sign_in_of(connection)
        if sign_in is None:
            await next()
            return
        sign_in.is_signing_out = True  # the session ends during the call, and this after it
        try:
            await next()
        except BaseException:
            sign_in.is_signing_out = False
            if sign_in.is_ended:
                self._sign_out_by_server(sign_in)
            raise
        result = context.result
        token = result.get("accessToken") if is_mapping(result) else None
        if sign_in.is_ended or token == sign_in.credentials.get("accessToken"):
            self._release(sign_in)
        sign_in.is_signing_out = False

    async def bind(self, connection: Connection, token: str, params: Params) -> None:
        """Sign a connection in, in place of whoever was signed in before.

        A failure changes nothing. Another user leaves the channels of the one before.

        Args:
            connection: The connection.
            token: An access token.
            params: The params of the call.

        Raises:
            NotAuthenticated: The token is not valid, its session has ended, or its user is gone.
        """
        strategy = self._authentication.token_strategy
        if strategy is None:
            return
        payload = self._authentication.verify_access_token(token)
        credentials = {"strategy": strategy.name, "accessToken": token}
        keys = {"user": payload.get("sub"), "session": payload.get("sid")}
        await self._bind(SignIn(self, connection, credentials, keys, payload["exp"]), params)

    async def identify(
        self, connection: Connection, credentials: Credentials, params: Params
    ) -> None:
        """Sign a new connection in by credentials that get no token, such as an API key.

        The application hears of it by ``login``. Calls over the connection are authenticated by
        the same credentials.

        Args:
            connection: The connection.
            credentials: What a strategy has found in the handshake.
            params: The params of a call over the connection.

        Raises:
            NotAuthenticated: They are not valid.
        """
        authentication, name = self._authentication, credentials["strategy"]
        strategy, entities = authentication.token_strategy, authentication.entities
        result = await authentication.authenticate(credentials, params, name)
        details: Mapping[str, Any] = result.get("authentication") or {}
        if strategy is not None and name == strategy.name:
            await self.bind(connection, credentials["accessToken"], params)
        else:
            user = None if entities is None else entities.id_of(result.get(entities.name))
            keys = {"user": user, name: details.get("id")}
            sign_in = SignIn(
                self,
                connection,
                {**details, **credentials},
                keys,
                has_scopes=name in authentication.scoped_strategies,
            )
            await self._bind(sign_in, params)
        context = HookContext(authentication.app, self._handle, "create", params)
        context.event, context.result = None, result
        authentication.app.emit("login", result, params, context)

    async def _bind(self, sign_in: SignIn, params: Params) -> None:
        """Register a sign-in, check it, and sign its connection in."""
        connection = sign_in.connection
        for key in sign_in.keys:
            self._sign_ins.setdefault(key, set()).add(sign_in)
        try:
            result = await self._checked(sign_in, params)
        except BaseException:
            self.drop(sign_in)
            raise
        if not connection.is_open:
            self.drop(sign_in)
            return
        before = connection.sign_in
        if before is None:
            sign_in.channels = frozenset(connection.channels)
        else:
            sign_in.channels = before.channels
            before.owner.remove_user(before)
            if not sign_in.has_same_user(before):
                self._channels.leave_all(connection, before.channels)
        if (closing := _closing.pop(connection, None)) is not None:
            closing.cancel()
        connection.sign_in = sign_in
        accept_sign_in(connection)
        connection.authentication = sign_in.credentials
        if (entity := self._authentication.entity) is not None:
            connection[entity] = result.get(entity)
        connection.changed()
        self._watch(sign_in)

    async def _checked(self, sign_in: SignIn, params: Params) -> dict[str, Any]:
        """Check the credentials of a sign-in, and load its user as of now.

        Raises:
            NotAuthenticated: They are not valid, or something ended the sign-in meanwhile.
        """
        credentials = sign_in.credentials
        while True:  # again if the record has changed while it was loaded
            sign_in.is_stale = False
            result: dict[str, Any] = await self._authentication.authenticate(
                credentials, params, credentials["strategy"]
            )
            if sign_in.is_ended:
                raise session_ended()
            if not sign_in.is_stale:
                self._stale.pop(sign_in, None)
                details: Mapping[str, Any] = result.get("authentication") or {}
                if (expires_at := details.get("expiresAt")) is not None:  # of a key
                    sign_in.expires = expires_at / 1000
                return result

    # -- what ends a sign-in -------------------------------------------------------------------

    def announce(self, kind: str, ids: Iterable[object] | None) -> None:
        """Apply a change of users, sessions or keys to the connections of all processes.

        Args:
            kind: What happened: ``"changed"`` and ``"removed"`` are for users, ``"session"`` is for
                sessions that have ended, and the name of a strategy for its credentials.
            ids: The ids of these; None where they are not known: all are checked again.
        """
        listed = None if ids is None else [*map(str, ids)]
        if listed == []:
            return
        if listed is not None and len(listed) > _MAX_ANNOUNCED:
            for start in range(0, len(listed), _MAX_ANNOUNCED):
                self.announce(kind, listed[start : start + _MAX_ANNOUNCED])
            return
        self._apply(kind, listed)
        self._channels.signal(self._topic, [kind, listed])

    def refused(self, connection: object, credentials: Credentials) -> None:
        """End the sign-in of a connection whose own credentials were refused in a call.

        So a session that was revoked by a process without a bus ends here at the next call.
        """
        sign_in = self._sign_in_of(connection) if isinstance(connection, Connection) else None
        if sign_in is not None and sign_in.is_by(credentials):
            self._end(sign_in)

    def _apply(self, kind: str, ids: list[str] | None) -> None:
        if ids is None:
            sign_ins = {sign_in for group in self._sign_ins.values() for sign_in in group}
        else:
            kept_by = "user" if kind in {"changed", "removed"} else kind
            sign_ins = {s for named in ids for s in self._sign_ins.get((kept_by, named), ())}
        if kind == "changed" or ids is None:
            for sign_in in sign_ins:
                sign_in.is_stale = True
                if sign_in.is_current:
                    self._stale[sign_in] = None
            if self._stale and self._refreshing is None:
                self._refreshing = self._start(self._refresh_all())
            return
        for sign_in in sign_ins:
            self._end(sign_in)

    def _end(self, sign_in: SignIn) -> None:
        """End a sign-in whose credentials are no longer valid."""
        if sign_in.is_ended:
            return
        sign_in.is_ended = True
        connection = sign_in.connection
        # The check of a new sign-in fails by itself, and `sign_out` releases the connection.
        if not sign_in.is_current or sign_in.is_signing_out:
            return
        if sign_in.has_expired and self._closes:
            self._close(connection, "expired")  # listeners of "disconnect" still see the user
        else:
            self._sign_out_by_server(sign_in)

    def _sign_out_by_server(self, sign_in: SignIn) -> None:
        """Sign a connection out without a call, and tell the application."""
        connection = sign_in.connection
        if not sign_in.is_current:
            return
        authentication = {"strategy": sign_in.credentials["strategy"]}  # without the token
        result: dict[str, Any] = {"authentication": authentication}
        entity = self._authentication.entity
        if entity is not None:
            result[entity] = connection.get(entity)
        self._release(sign_in)
        params = connection_params(connection, {}, {})
        params.__dict__.update(result)
        context = HookContext(self._authentication.app, self._handle, "remove", params)
        context.event, context.result = None, result
        self._authentication.app.emit("logout", result, params, context)
        if connection.is_asleep:  # it must not wake up to events that its user has missed
            self._close(connection, "signed out")
        elif self._closes:
            loop = asyncio.get_running_loop()
            _closing[connection] = loop.call_later(
                _CLOSE_DELAY_SECONDS, self._close, connection, "signed out"
            )

    def _release(self, sign_in: SignIn) -> None:
        """Take the user and all channels from a connection."""
        if sign_in.is_current:
            self.remove_user(sign_in)
            self._channels.leave_all(sign_in.connection)
            accept_sign_in(sign_in.connection)  # listeners of "logout" may join channels

    def remove_user(self, sign_in: SignIn) -> None:
        """Take the user from a connection; it stays in its channels."""
        self.drop(sign_in)
        sign_in.connection.sign_in = None
        for name in ("authentication", self._authentication.entity):
            sign_in.connection.__dict__.pop(name, None)
        sign_in.connection.changed()

    def drop(self, sign_in: SignIn) -> None:
        """Remove a sign-in from everything except its connection."""
        if sign_in.timer is not None:
            sign_in.timer.cancel()
        for key in sign_in.keys:
            self._sign_ins[key].discard(sign_in)
            if not self._sign_ins[key]:
                del self._sign_ins[key]
        self._stale.pop(sign_in, None)

    def _close(self, connection: Connection, reason: str) -> None:
        async def close() -> None:
            try:
                await connection.close(reason)
            except Exception:  # noqa: BLE001  # whatever a transport raises: nobody waits for this
                _log.exception("a connection could not be closed")

        _closing.pop(connection, None)
        if connection.is_open:
            self._start(close())

    # -- expiry --------------------------------------------------------------------------------

    def _watch(self, sign_in: SignIn) -> None:
        """End a sign-in when its credentials expire."""
        if sign_in.timer is not None:
            sign_in.timer.cancel()
        delay = sign_in.expires - time.time()
        if delay <= 0:
            self._end(sign_in)
        elif delay < math.inf:
            loop = asyncio.get_running_loop()
            # Repeatedly: a timer has an upper limit, and its clock is not that of tokens.
            # With an empty context: a timer keeps its context until its time, even if it is
            # cancelled.
            delay = min(delay, _MAX_TIMER_SECONDS)
            sign_in.timer = loop.call_later(delay, self._watch, sign_in, context=Context())

    def check_expired(self, sign_in: SignIn) -> None:
        """End a sign-in that has expired; refuse the call if its connection is closing.

        Raises:
            NotAuthenticated: It is.
        """
        self._end(sign_in)
        if sign_in.is_current:
            if "accessToken" not in sign_in.credentials:
                raise NotAuthenticated("The key has expired")
            self._authentication.verify_access_token(sign_in.credentials["accessToken"])

    # -- users that changed ---------------------------------------------------------------------

    def follow_users(self) -> None:
        """Begin to follow the users' service, so that connections change with their user."""
        handle = self._authentication.entities.handle
        if self._users is handle:  # a second setup must not register the hook twice
            return
        self._users = handle
        owner = owning_handle(handle)
        # Innermost: hooks that fail, or hide the result, must not hide the change.
        owner.add_innermost(self._follow_call, _USER_METHODS.intersection(owner.hook_methods()))
        for event in ("updated", "patched", "removed"):
            handle.on(event, partial(self._follow_event, event))

    async def _follow_call(self, context: HookContext, next: Next) -> None:
        """Announce the changes of a call, once its transaction is over."""
        kind = "removed" if context.method == "remove" else "changed"
        try:
            await next()
        except Exception as error:
            # After a timeout nobody knows whether something was written. A client's mistake is not
            # followed: strangers could have all users loaded again.
            if not (isinstance(error, FrameworkError) and error.code < 500):
                self.announce("changed", None if context.id is None else [context.id])
            raise
        ids = record_ids(context.result, context.id, self._authentication.entities.id_name)
        emit_unless_held(context, partial(self.announce, kind, ids))

    def _follow_event(self, event: str, record: object = None, context: object = None) -> None:
        """Announce a change that the application tells, such as that of another program."""
        if isinstance(context, HookContext) and context.method in _USER_METHODS:
            return  # `_follow_call` has seen it
        user_id = self._authentication.entities.id_of(record)
        kind = "removed" if event == "removed" else "changed"
        self.announce(kind, None if user_id is None else [user_id])

    async def _refresh_all(self) -> None:
        """Load the users of all sign-ins again whose records have changed."""
        try:
            while batch := [*self._stale][:_MAX_CONCURRENT_CHECKS]:
                for sign_in in batch:
                    del self._stale[sign_in]
                await asyncio.gather(*map(self._reload, batch))
        finally:
            self._refreshing = None

    async def _reload(self, sign_in: SignIn) -> None:
        """Replace the user of a connection; sign it out if that is not possible."""
        connection, entity = sign_in.connection, self._authentication.entity
        try:
            result = await self._checked(sign_in, connection_params(connection, {}, {}))
        except Exception as error:  # noqa: BLE001  # whatever the users' service raises
            if not isinstance(error, NotAuthenticated):
                _log.exception("a user could not be loaded again, and is signed out")
            self._end(sign_in)
            return
        if sign_in.is_current:
            before = connection.get(entity)
            connection[entity] = result.get(entity)
            self._watch(sign_in)  # a key may now expire at another time
            self._authentication.app.emit("user_changed", connection, before)

    # -- helpers -------------------------------------------------------------------------------

    @property
    def _channels(self) -> Channels:
        registry: Channels = self._authentication.app.channel_registry
        return registry

    @property
    def _closes(self) -> bool:
        """Whether a connection closes when its sign-in ends; see `JWTStrategy`."""
        strategy = self._authentication.token_strategy
        return strategy is None or strategy.on_expiry == "close"

    def _sign_in_of(self, connection: Connection) -> SignIn | None:
        sign_in = connection.sign_in
        return sign_in if sign_in is not None and sign_in.owner is self else None

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _connection_of(params: Params) -> Connection | None:
    """Return the connection of a client's call; other calls sign nobody in or out."""
    connection = params.connection
    is_of_client = params.provider is not None and isinstance(connection, Connection)
    return connection if is_of_client else None
