"""On which other services a live list depends, and what two services have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from alula._live._notices import Notice
from alula._service import LiveOptions, ServiceHandle, UsersOf, owning_handle
from alula.types import is_mapping

__all__ = [
    "Source",
    "concerned_users",
    "declared_dependency",
    "related_to",
    "sources_of",
    "store_of",
    "used_relations",
]


class Source(NamedTuple):
    """A service whose changes change what another one finds.

    Attributes:
        handle: The service.
        by_removal: Whether only records that are removed there matter: the database removes or
            changes others with them.
    """

    handle: ServiceHandle
    by_removal: bool = False


def store_of(handle: ServiceHandle) -> Hashable:
    """Return what holds the records of a service; services on one table have the same."""
    own: object = getattr(handle.service, "store", None)
    return own() if callable(own) else id(handle.service)


def sources_of(handle: ServiceHandle, services: Mapping[str, ServiceHandle]) -> Iterator[Source]:
    """Yield the services whose changes change what a live service finds, whatever the query.

    Those of ``depends_on``, and those whose records take some of this one with them: a foreign key
    with ``ON DELETE CASCADE`` says so.

    Raises:
        LookupError: ``depends_on`` names a service that the application does not have.
    """
    for path in (handle.live_options or LiveOptions()).depends_on:
        if path not in services:
            raise LookupError(
                f"{handle!r}: live(depends_on=[{path!r}]) names no service of the application"
            )
        yield Source(owning_handle(services[path]))
    owner = owning_handle(handle)
    waiting, found = [owner], set[ServiceHandle]()
    while waiting:
        parents: Any = getattr(waiting.pop().service, "changed_with", None)
        stores: frozenset[Hashable] = frozenset() if parents is None else parents()
        for other in map(owning_handle, owner.app.services.values() if stores else ()):
            if other not in found and store_of(other) in stores:
                found.add(other)
                waiting.append(other)
                yield Source(other, by_removal=True)


def declared_dependency(
    handle: ServiceHandle, changed: ServiceHandle, services: Mapping[str, ServiceHandle]
) -> tuple[bool, UsersOf | None]:
    """Return whether ``depends_on`` of a live service names another one, and its function."""
    options = handle.live_options or LiveOptions()
    for path in options.depends_on:
        if owning_handle(services[path]) is changed:
            return True, options.users_of.get(path)
    return False, None


def concerned_users(users_of: UsersOf | None, notice: Notice) -> frozenset[str] | None:
    """Return the ids of the users whose lists a change concerns, None for all lists.

    Only what is new or gone has one version, which is known here. Of all other changes, it is not
    known whom the record named before.
    """
    records = [record for record in notice.records if record is not None]
    is_known = bool(records) and len(records) == len(notice.records)
    if users_of is None or not is_known or notice.event not in {"created", "removed"}:
        return None
    try:
        return frozenset(str(user_id) for record in records for user_id in users_of(record))
    except Exception:  # noqa: BLE001  # other processes tell only a part of a record
        return None


def related_to(handle: ServiceHandle) -> Iterator[Source]:
    """Yield the services of related records, and those of their related records."""
    waiting, found = [owning_handle(handle)], set[ServiceHandle]()
    while waiting:
        owner = waiting.pop()
        relations: object = getattr(owner.service, "relations", None)
        for path in getattr(relations, "services", ()):
            other = owning_handle(owner.app.service(path))
            if other not in found:
                found.add(other)
                waiting.append(other)
                yield Source(other)


def used_relations(handle: ServiceHandle, query: Mapping[str, Any]) -> Iterator[Source]:
    """Yield the services of the related records that a query asks for, tests or sorts by."""
    sort: object = query.get("$sort")
    if "$include" in query or any("." in name for name in (*_names(query), *_names(sort))):
        yield from related_to(handle)


def _names(part: object) -> Iterator[str]:
    if is_mapping(part):
        for name, inner in part.items():
            yield name
            for each in inner if name in {"$and", "$or"} else ():
                yield from _names(each)
