"""Follows the records of users, so that their connections change with them."""

from __future__ import annotations

from functools import partial
from typing import Any

from alula._context import HookContext
from alula._events import emit_unless_held
from alula._service import ServiceHandle, owning_handle
from alula.authentication._connections import Kind
from alula.authentication._entities import record_ids
from alula.errors import FrameworkError
from alula.hooks import Next

__all__ = ["FollowedUsers"]

_METHODS = frozenset({"update", "patch", "remove"})


class FollowedUsers:
    """Announces which users were changed or removed.

    Args:
        authentication: The authentication service.
    """

    def __init__(self, authentication: Any) -> None:
        self._authentication = authentication
        self._handle: ServiceHandle | None = None

    def setup(self) -> None:
        """Begin to follow the users' service."""
        handle = self._authentication.entities.handle
        if self._handle is handle:  # a second setup must not register the hook twice
            return
        self._handle = handle
        owner = owning_handle(handle)
        # Innermost: hooks that fail, or hide the result, must not hide the change.
        owner.add_innermost(self.follow_call, _METHODS.intersection(owner.hook_methods()))
        for event in ("updated", "patched", "removed"):
            handle.on(event, partial(self.follow_event, event))

    async def follow_call(self, context: HookContext, next: Next) -> None:
        """Announce the changes of a call, once its transaction is over."""
        kind: Kind = "removed" if context.method == "remove" else "changed"
        try:
            await next()
        except Exception as error:
            # After a timeout nobody knows whether something was written. A client's mistake is not
            # followed: strangers could have all users loaded again.
            if not (isinstance(error, FrameworkError) and error.code < 500):
                self._announce("changed", None if context.id is None else [context.id])
            raise
        ids = record_ids(context.result, context.id, self._authentication.entities.id_name)
        emit_unless_held(context, partial(self._announce, kind, ids))

    def follow_event(self, event: str, record: object = None, context: object = None) -> None:
        """Announce a change that the application tells, such as that of another program."""
        if isinstance(context, HookContext) and context.method in _METHODS:
            return  # `follow_call` has seen it
        user_id = self._authentication.entities.id_of(record)
        kind: Kind = "removed" if event == "removed" else "changed"
        self._announce(kind, None if user_id is None else [user_id])

    def _announce(self, kind: Kind, ids: list[Any] | None) -> None:
        self._authentication.connections.announce(kind, ids)
