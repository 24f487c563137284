"""The records that sign in, by the service that has them."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from alula._context import HookContext, Params
from alula._service import ServiceHandle, owning_handle
from alula.errors import NotAuthenticated, NotFound
from alula.outgoing import RedactedRecord
from alula.types import UNSET, Id

__all__ = [
    "Entities",
    "check_property",
    "fold_username",
    "id_name",
    "private_service",
    "remove_before",
    "without",
]

_log: Final = logging.getLogger("alula.authentication")

# What belongs to the call that asks, and not to the look at its user.
_OF_THE_CALL: Final = frozenset(
    {
        *("query", "provider", "authentication", "authenticated", "authenticated_by"),
        *("paginate", "adapter", "pipeline", "docdb", "collation"),
    }
)


class Entities:
    """Calls the service of the users.

    Args:
        app: The application.
        path: The path of the service.
        name: The name under which a record gets into params and answers, ``"user"``.
        id_name: The property that holds its id; None takes that of the service.
    """

    def __init__(self, app: Any, path: str, name: str, id_name: str | None = None) -> None:
        self.app = app
        self.path = path
        self.name = name
        self._id_name = id_name

    @property
    def handle(self) -> ServiceHandle:
        """The handle of the service.

        Raises:
            LookupError: There is none.
        """
        handle: ServiceHandle = self.app.service(self.path)
        return handle

    @property
    def id_name(self) -> str:
        """The property that holds the id of a record.

        Raises:
            LookupError: Nobody said which one.
        """
        service = owning_handle(self.handle).service
        name = self._id_name or getattr(service, "id", None)
        if not isinstance(name, str):
            raise LookupError(
                f"the service {self.path!r} has no `id` that names its id property; give its name:"
                " AuthenticationService(app, entity_id=...)"
            )
        return name

    def id_of(self, record: Any) -> Id:
        """Return the id of a record, None where it has none."""
        return record.get(self.id_name) if isinstance(record, Mapping) else None

    def subject_of(self, result: Mapping[str, Any]) -> str:
        """Return the claim ``sub`` for the result of a strategy: the id of its user, as text.

        Raises:
            RuntimeError: The strategy has returned no user with an id.
        """
        subject = self.id_of(result.get(self.name))
        if subject is None:
            strategy = (result.get("authentication") or {}).get("strategy")
            raise RuntimeError(
                f"the strategy {strategy!r} found no {self.name} with an {self.id_name!r}, so"
                " there is nobody to make a token for"
            )
        return str(subject)

    async def get(self, id: Id, params: Params) -> Any:
        """Return a record as hooks inside see it.

        Raises:
            NotAuthenticated: There is none.
        """
        try:
            return (await self._run("get", _inside(params), id)).result
        except NotFound as error:
            raise NotAuthenticated("The account of this proof does not exist") from error

    async def find_one(self, query: Mapping[str, Any], params: Params) -> Any:
        """Return the one record that a query finds, None where there is none."""
        inside = _inside(params, query={"$limit": 1, **query}, paginate=False)
        found = (await self._run("find", inside)).result
        records = found["data"] if isinstance(found, Mapping) else found
        return records[0] if records else None

    async def renew_password(
        self, id: Id, data: Any, params: Params, query: Mapping[str, Any]
    ) -> None:
        """Store another hash of the same password, if the record meets the query.

        ``params.renews_password`` tells hooks that the password itself stays as it was.
        """
        inside = _inside(params, query=dict(query), renews_password=True)
        await self._run("patch", inside, id, data)

    async def shown(self, record: Any, params: Params) -> Any:
        """Return a record as the caller may see it, by the hooks for such calls.

        Raises:
            NotAuthenticated: It does not exist any more, or has no id.
        """
        record_id = self.id_of(record)
        if record_id is None:
            _log.error(
                "a record of %r has no %r, so it cannot sign in; AuthenticationService(app,"
                " entity_id=...) names the property that has the id",
                self.path,
                self.id_name,
            )
            raise NotAuthenticated(f"Can not set subject from {self.name}.{self.id_name}")
        outside = _inside(params, provider=params.provider, authenticated=True)
        outside[self.name] = record
        try:
            context = await self._run("get", outside, record_id)
        except NotFound as error:
            raise NotAuthenticated("The account of this proof does not exist") from error
        return context.result if context.dispatch is UNSET else context.dispatch

    async def _run(self, method: str, params: Params, id: Id = None, data: Any = None) -> Any:
        handle = self.handle
        context = HookContext(handle.app, handle, method, params, id, data)
        context.event = None  # a hash that is renewed is no news, and no listener should get it
        await handle.run(context)
        return context


def fold_username(name: str) -> str:
    """Return the form of a sign-in name in which names that look the same are the same.

    Case and Unicode compatibility forms are folded (NFKC and case folding, to a fixed point),
    characters that are not visible (category Cf, such as the soft hyphen) and blanks at the ends
    are left out. The throttle counts guesses by this form. Store it in a property of its own with
    a unique index, and two people cannot register names that differ only in such ways.

    Args:
        name: The name as somebody typed it.

    Examples:
        >>> fold_username("  \uff21da@Example.COM ")
        'ada@example.com'
    """
    if name.isascii():
        return name.strip().lower()
    folded = name
    while True:
        visible = "".join(each for each in folded if unicodedata.category(each) != "Cf")
        again = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
        again = again.strip()
        if again == folded:
            return folded
        folded = again


def check_property(field: str, where: str) -> None:
    """See to it that a secret is no part of another property, where it would not be found.

    Raises:
        TypeError: It is not a name.
        ValueError: The name has a dot; the message says what to do.
    """
    if not isinstance(field, str):
        raise TypeError(f"{where} takes names of properties, one by one: 'password'")
    if "." in field:
        raise ValueError(
            f"{where}: {field!r} lies inside another property; keep it in one of its own, such as"
            f" {field.rpartition('.')[2]!r}"
        )


def without(record: Any, fields: frozenset[str]) -> Any:
    """Return a record without some fields; one that is guarded stays so."""
    if not isinstance(record, Mapping):
        return record
    rest = {name: value for name, value in record.items() if name not in fields}
    return record.changed(rest) if isinstance(record, RedactedRecord) else rest


def _inside(params: Params, **values: Any) -> Params:
    """Return the params of an internal call, with what middleware and hooks have set."""
    kept = {name: value for name, value in params.__dict__.items() if name not in _OF_THE_CALL}
    inside = Params()
    inside.__dict__.update(kept, **values)  # as attributes, which need no declaration
    return inside


def private_service(app: Any, path: str, option: str) -> ServiceHandle:
    """Return the handle of a service that an option names, once it is sure that it is closed.

    Args:
        app: The application.
        path: Where the service is registered.
        option: The name of the option, for the messages.

    Raises:
        ValueError: There is no such service, or clients can call it.
    """
    handle: ServiceHandle | None = app.services.get(path.strip("/"))
    if handle is None:
        raise ValueError(
            f"{option} names the service {path!r}, which is not registered: add"
            f" app.use({path!r}, <a service>, methods=[])"
        )
    if handle.methods:
        raise ValueError(
            f"{option} names the service {path!r}, which clients can call"
            f" ({', '.join(handle.methods)}); close it: app.use({path!r}, <a service>, methods=[])"
        )
    return handle


def id_name(handle: ServiceHandle) -> str:
    """Return the name of a service's id property."""
    name = getattr(handle.service, "id", None)
    return name if isinstance(name, str) else "id"


async def remove_before(handle: ServiceHandle, field: str, time: int) -> None:
    """Remove the records of a service whose field, a time, has passed."""
    await handle.remove(
        None, query={field: {"$lte": time}}, adapter={"multi": ["remove"]}, paginate=False
    )
