"""What all rules use: the adapter under test, how it is called, and what it cannot do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import pytest

from alula._app import App
from alula.types import Id, Record

__all__ = [
    "CREW",
    "FEATURES",
    "FIELDS",
    "Make",
    "Result",
    "Rules",
    "Subject",
    "feature",
    "names",
    "seeded",
]

CREW: Final[tuple[Record, ...]] = (
    {"name": "Ada", "age": 36},
    {"name": "Bela", "age": 25},
    {"name": "Cleo", "age": 19},
)
"""The records that most tests begin with."""

FEATURES: Final[Mapping[str, str]] = {
    "atomic create": "if one record of a list cannot be stored, none is",
    "dotted names": "a name with dots leads into objects",
    "free names": "a record may have fields that were never declared",
    "id property": "the option `id` names the property that holds the id",
    "lists": "a list in a record meets a test if one of its elements does",
    "mixed types": "values of different types are never equal, and have a defined order",
    "nothing is null": "a missing field equals null",
    "own fields": "a record has the fields that it was given, and no others",
    "own ids": "a new record may have an id, and ids are unique",
    "parts": "a name with dots in $select keeps a part of an object",
    "regular expressions": "code of the server may query by compiled regular expressions",
}
"""What a store may declare as unsupported, and what it means."""

FIELDS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "name": str,
        "age": int,
        "town": str,
        "n": int,
        "v": int,
        "nothing": str,
        "a": dict,
        "home": dict,
        "list": list,
    }
)
"""All fields of records and queries, beside the id, and the type of their values.

Only tests of the features "free names", "mixed types" and "lists" use other fields or types.
"""


Result: TypeAlias = Any
"""What a method returns: a record, a list of records, or a page. The test knows which."""


class Subject:
    """The adapter under test, called directly or through the handle of an application.

    Every method takes the query first, and further params as keywords.
    """

    def __init__(self, adapter: Any, access: str, *, own_fields: bool = True) -> None:
        self.adapter = adapter
        self._own_fields = own_fields
        self.id: str = adapter.id
        in_app = access == "app"
        # By way of an application, too: its handle reads params and makes events.
        self._target = App().use("records", adapter).service("records") if in_app else adapter

    async def find(self, query: object = None, **params: object) -> Result:
        """Call `find`."""
        return await self._target.find({"query": query, **params})

    async def get(self, id: Id, query: object = None, **params: object) -> Record:
        """Call `get`."""
        record: Record = await self._target.get(id, {"query": query, **params})
        return record

    async def create(self, data: object, query: object = None, **params: object) -> Result:
        """Call `create`."""
        return await self._target.create(data, {"query": query, **params})

    async def update(self, id: Id, data: object, query: object = None, **params: object) -> Record:
        """Call `update`."""
        record: Record = await self._target.update(id, data, {"query": query, **params})
        return record

    async def patch(self, id: Id, data: object, query: object = None, **params: object) -> Result:
        """Call `patch`."""
        return await self._target.patch(id, data, {"query": query, **params})

    async def remove(self, id: Id, query: object = None, **params: object) -> Result:
        """Call `remove`."""
        return await self._target.remove(id, {"query": query, **params})

    async def bare(self, method: str, *arguments: object) -> Result:
        """Call a method with exactly these arguments."""
        return await getattr(self._target, method)(*arguments)

    async def with_id(self, method: str, id: Id, query: object = None, **params: object) -> Result:
        """Call one of the methods that take an id; with data where it takes data."""
        data = [{"name": "Eve"}] if method in {"update", "patch"} else []
        return await self.bare(method, id, *data, {"query": query, **params})

    async def all(self) -> list[Record]:
        """Return all records, whatever the options of the service are."""
        records: list[Record] = await self.find(paginate=False)
        return records

    def given(self, record: Record) -> Record:
        """Return the fields that a record was given.

        A store without the feature "own fields" has null for all others: there, nulls are left out.
        """
        if self._own_fields:
            return record
        return {name: value for name, value in record.items() if value is not None}


class Make(Protocol):
    """The fixture ``make``: a new, empty service with the options given."""

    async def __call__(self, **options: object) -> Subject:
        """Return the service, ready to be called."""
        ...


class Rules:
    """The base of all rules, with what the author of an adapter implements.

    Attributes:
        fields: The fields of the records in this suite, beside the id, and the type of their
            values. A store with declared fields declares these; each of them may be null.
        unsupported: What the store cannot do: names of `FEATURES`, with the reason.
        missing_ids: Ids that no record has; a store in which an id has a certain form lists some
            of that form and some of another.
    """

    fields: ClassVar[Mapping[str, type]] = FIELDS
    unsupported: ClassVar[Mapping[str, str]] = {}
    missing_ids: ClassVar[Sequence[Id]] = ("568225fbfe21222432e836ff", 123456789)

    async def make_service(self, **options: object) -> Any:
        """Return a new, empty service. The author of the adapter implements it.

        Args:
            options: Options of the adapter: ``id``, ``paginate``, ``multi``, ``events``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} defines `async def make_service(self, **options)`,"
            " which returns a new, empty service"
        )

    def own_id(self, number: int) -> Id:
        """Return an id that a new record may bring, another one for each number."""
        return f"own-{number}"

    def id_in_url(self, id: Id) -> str:
        """Return an id in the form in which a URL carries it."""
        return str(id)

    async def subject(self, access: str, **options: object) -> Subject:
        """Return a new service, to be called directly or by way of an ``"app"``."""
        adapter = await self.make_service(**options)
        return Subject(adapter, access, own_fields=self.has("own fields"))

    def has(self, feature: str) -> bool:
        """Return whether the store has a feature: it is not declared as unsupported."""
        return feature not in self.unsupported

    @pytest.fixture(params=["adapter", "app"])
    def make(self, request: pytest.FixtureRequest) -> Make:
        """Return the function by which tests get a service."""
        # A plain fixture: every plugin that runs coroutines understands it.
        return lambda **options: self.subject(request.param, **options)


Test: TypeAlias = Callable[..., Awaitable[None]]


def feature(name: str, *, strict: bool = True) -> Callable[[Test], Test]:
    """Mark the test of a feature that a store may lack.

    If `Rules.unsupported` declares the feature, the test must fail: a declaration that is not true
    any more is an error like any other.

    Args:
        name: The feature, one of `FEATURES`.
        strict: False if the test needs a part of the feature only, which a store may have without
            the rest: it then may pass, too.
    """

    def decorate(test: Test) -> Test:
        @wraps(test)
        async def run(self: Rules, *args: object, **kwargs: object) -> None:
            reason = self.unsupported.get(name)
            if reason is None:
                await test(self, *args, **kwargs)
                return
            try:
                await test(self, *args, **kwargs)
            # Both: what `pytest.fail` raises is not an `Exception`.
            except (Exception, pytest.fail.Exception):  # noqa: BLE001  # however it shows
                pytest.xfail(f"{name}: {reason}")
            if strict:
                pytest.fail(f"`unsupported` declares {name!r}, but the store has it: take it out")

        return run

    return decorate


async def seeded(make: Make, records: Iterable[Record] = CREW, **options: object) -> Subject:
    """Return a new service that holds these records, created one after the other."""
    subject = await make(**options)
    for record in records:
        await subject.create(dict(record))
    return subject


def names(records: Iterable[Record]) -> list[str]:
    """Return the names in records, in their order."""
    return [record["name"] for record in records]
