"""Records in services of the application: the users, and what sessions and the throttle store."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from alula._context import HookContext, Params
from alula._identity import Application
from alula._service import ServiceHandle, owning_handle
from alula._user_code import describe_frames
from alula.errors import BadRequest, GeneralError, NotAuthenticated, NotFound
from alula.outgoing import RedactedRecord
from alula.outgoing._redaction import result_to_encode
from alula.types import Id, is_list, is_mapping

__all__ = [
    "Entities",
    "changed_properties",
    "check_property",
    "fold_username",
    "id_name",
    "record_ids",
    "remove_before",
    "without",
]

_bare: Final = object.__new__
_log: Final = logging.getLogger("alula.authentication")


# Params that requests seldom have, and that must not change how the user of a call is looked up.
_SELDOM_SET: Final = frozenset(
    {
        "authenticated",
        "authenticated_by",
        "paginate",
        "adapter",
        "pipeline",
        "docdb",
        "sql",
        "collation",
    }
)


class Entities:
    """The users who sign in, as records of a service.

    Args:
        app: The application.
        path: The path of the service.
        name: The name of a user's record in params and responses, ``"user"``.
        id_name: The property that holds the id of a record; None takes that of the service.
    """

    def __init__(self, app: Application, path: str, name: str, id_name: str | None = None) -> None:
        self.app = app
        self.path = path
        self.name = name
        self._id_name = id_name
        self._services = app.services  # kept: the attributes of an application take long to read

    @property
    def handle(self) -> ServiceHandle:
        """The handle of the service.

        Raises:
            LookupError: It is not registered.
        """
        handle = self._services.get(self.path)
        if handle is not None:
            return handle
        try:
            return self.app.service(self.path)
        except LookupError as error:
            raise LookupError(
                f"AuthenticationService(app, service={self.path!r}): register the service of the"
                f" users there, or name another; {error}"
            ) from None

    @property
    def id_name(self) -> str:
        """The property that holds the id of a record.

        Raises:
            LookupError: The service does not name it, and nor does ``entity_id``.
        """
        if self._id_name is None:
            name = getattr(owning_handle(self.handle).service, "id", None)
            if not isinstance(name, str):
                raise LookupError(
                    f"the service {self.path!r} has no `id` that names its id property; give its"
                    " name: AuthenticationService(app, entity_id=...)"
                )
            self._id_name = name
        return self._id_name

    def id_of(self, record: object) -> Id:
        """Return the id of a record, None if it has none."""
        return record.get(self.id_name) if is_mapping(record) else None

    async def get(self, id: Id, params: Params) -> object:
        """Return a record as internal calls see it.

        Raises:
            NotAuthenticated: It does not exist.
            GeneralError: The service refuses the call as invalid.
        """
        context = self._context("get", _inside(params), id)
        try:
            await context.service.run(context)
        except NotFound as error:
            raise NotAuthenticated("The user of these credentials does not exist") from error
        except BadRequest as error:
            raise self._own_fault(error) from error
        return context.result

    async def find_one(self, field: str, value: str, params: Params) -> Mapping[str, Any] | None:
        """Return the first record that has a value in a field, None if there is none.

        Raises:
            BadRequest: The service refuses this value.
            GeneralError: The service refuses the call as invalid, whatever the value is.
        """
        inside = _inside(params, query={"$limit": 1, field: value}, paginate=False)
        context = self._context("find", inside)
        try:
            await context.service.run(context)
        except BadRequest as error:
            if _is_about(error, field):
                raise
            raise self._own_fault(error) from error
        result = context.result
        records = result["data"] if is_mapping(result) else result
        return records[0] if records and is_mapping(records[0]) else None

    async def renew_password(
        self, id: Id, data: Mapping[str, Any], params: Params, query: Mapping[str, Any]
    ) -> None:
        """Store another hash of the same password, if the record matches the query.

        ``params.renews_password`` tells hooks that the password stays the same.
        """
        inside = _inside(params, query=dict(query), renews_password=True)
        context = self._context("patch", inside, id, data)
        await context.service.run(context)

    async def shown(self, record: object, id: Id, params: Params) -> object:
        """Return a record as the caller may see it: through the hooks of the users' service.

        Args:
            record: The record as a strategy has returned it.
            id: Its id, None if it has none.
            params: The params of the sign-in.

        Raises:
            NotAuthenticated: It no longer exists, or has no id.
            GeneralError: The service refuses the call as invalid.
        """
        if id is None:
            _log.error(
                "a record of %r has no %r, so it cannot sign in; AuthenticationService(app,"
                " entity_id=...) names the property that has the id",
                self.path,
                self.id_name,
            )
            # FeathersJS's text, which front ends may know.
            raise NotAuthenticated(f"Can not set subject from {self.name}.{self.id_name}")
        of_caller = {"provider": params.provider, "authenticated": True, self.name: record}
        as_caller = _inside(params, **of_caller)
        context = self._context("get", as_caller, id)
        try:
            await context.service.run(context)
        except NotFound as error:
            raise NotAuthenticated("The user of these credentials does not exist") from error
        except BadRequest as error:
            raise self._own_fault(error) from error
        return result_to_encode(context)

    def _own_fault(self, error: BadRequest) -> GeneralError:
        """Return the error for a call that was made here, not by the client, and is not valid."""
        fault = GeneralError("The service of the users refuses to read a user")
        fault.add_note(f"{self.path!r} says: {error.message}")
        return fault

    def _context(self, method: str, params: Params, id: Id = None, data: Any = None) -> HookContext:
        """Return the context of an internal call; ``service.run`` runs it.

        It is not a call of the handle, because callers need the dispatch, and no event.
        """
        handle = self.handle
        context = HookContext(handle.app, handle, method, params, id, data)
        context.event = None  # listeners must not get a renewed hash
        return context


describe_frames(Entities.get, lambda names: f"`get` of {names['context'].service!r}")


def fold_username(name: str) -> str:
    """Return a sign-in name in the form in which names that look the same are equal.

    Case and Unicode compatibility forms are folded (NFKC and case folding, to a fixed point).
    Invisible characters (category Cf, such as the soft hyphen) and surrounding blanks are removed.
    The throttle counts guesses by this form. Store it in a separate property with a unique index,
    and two people cannot register names that look the same.

    Fold a name before you check it. One character may become an ``@`` or several letters, and a
    name of invisible characters becomes empty.

    Args:
        name: The name as it was typed.

    Examples:
        >>> fold_username("  \uff21da@Example.COM ")
        'ada@example.com'
    """
    if name.isascii():
        return name.strip().lower()
    folded = name
    while True:  # until nothing changes: case folding can make a form that NFKC changes again
        visible = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
        again = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
        again = again.strip()
        if again == folded:
            return folded
        folded = again


def record_ids(result: object, id: Id, id_name: str) -> list[Id] | None:
    """Return the ids of the records that a call has changed or removed, None if they are unknown.

    Args:
        result: The result of the call.
        id: The id that the call was given.
        id_name: The property that holds the id of a record.
    """
    records = result if is_list(result) else [result]
    ids = [r[id_name] for r in records if is_mapping(r) and id_name in r]
    if len(ids) == len(records) and (ids or id is None):
        return ids
    # The result comes first: the call may spell the id differently, as an ObjectId in capitals.
    return None if id is None else [id]


def changed_properties(data: object) -> set[str]:
    """Return the top-level properties that the data of a patch changes, also by operators.

    Args:
        data: The data; any value.
    """
    if not is_mapping(data):
        return set()
    names: list[object] = [*data]
    for name, value in data.items():
        if isinstance(name, str) and name[:1] == "$" and is_mapping(value):
            names += value
            if name == "$rename":  # it also writes to the properties that are its operands
                names += value.values()
    return {name.split(".")[0] for name in names if isinstance(name, str)}


def check_property(field: str, where: str) -> None:
    """Check the name of a secret property; one inside another property would not be removed.

    Raises:
        TypeError: It is not a string.
        ValueError: The name has a dot; the message says what to do.
    """
    if not isinstance(field, str):
        raise TypeError(f"{where} takes names of properties, one by one: 'password'")
    if "." in field:
        raise ValueError(
            f"{where}: {field!r} is inside another property; keep it in a separate one, such as"
            f" {field.rpartition('.')[2]!r}"
        )


def without(record: object, fields: frozenset[str]) -> object:
    """Return a record without some fields; a redacted record stays redacted."""
    if isinstance(record, RedactedRecord):
        return record.without(fields)
    if not is_mapping(record):
        return record
    return {name: value for name, value in record.items() if name not in fields}


def _is_about(error: BadRequest, field: str) -> bool:
    """Tell whether an error says that the value of a field is not valid.

    Adapters say so in ``errors``, which have the names of fields. Schemas do in ``data``, a list of
    failures with their places, and hooks often with names of fields.
    """
    if is_list(error.data):
        place = f"/{field.replace('.', '/')}"
        return any(is_mapping(each) and each.get("instancePath") == place for each in error.data)
    return any(is_mapping(names) and field in names for names in (error.errors, error.data))


def _inside(params: Params, **values: object) -> Params:
    """Return params for an internal call, with the values that middleware and hooks have set."""
    attributes = params.__dict__.copy()  # as attributes, which need no declaration
    attributes["query"] = {}
    attributes.pop("provider", None)
    attributes.pop("authentication", None)
    if not _SELDOM_SET.isdisjoint(attributes):
        for name in _SELDOM_SET:
            attributes.pop(name, None)
    if values:
        attributes.update(values)
    inside = _bare(Params)  # not Params(): it would look for names that are not declared
    inside._undeclared = ()  # noqa: SLF001  # all of them were attributes
    inside.__dict__ = attributes
    return inside


def id_name(handle: ServiceHandle) -> str:
    """Return the name of a service's id property."""
    name = getattr(handle.service, "id", None)
    return name if isinstance(name, str) else "id"


async def remove_before(handle: ServiceHandle, field: str, time: int) -> None:
    """Remove the records of a service that have a time up to this one in a field."""
    await handle.remove(
        None, query={field: {"$lte": time}}, adapter={"multi": ["remove"]}, paginate=False
    )
