"""Handles with the types of their records: for type checkers alone, without cost in a call."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from types import GenericAlias
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from alula._context import GivenParams, HookContext
from alula._service._handle import Given, RawQuery, ServiceHandle, owning_handle
from alula._service_object import ServiceBundle
from alula.hooks import Next
from alula.types import Changes, Found, Id, NewRecord, RecordType, ScalarId

__all__ = [
    "AnyTypedService",
    "CustomMethod",
    "StreamMethod",
    "StreamedItems",
    "TypedService",
    "check_service_type",
]

Sent_contra = TypeVar("Sent_contra", contravariant=True)
Received_co = TypeVar("Received_co", covariant=True)
AnyTypedService = TypeVar("AnyTypedService", bound="TypedService[Any, Any, Any, Any]")


class CustomMethod(Protocol[Sent_contra, Received_co]):
    """For type checkers, a custom method that takes ``Sent`` and returns ``Received``.

    Declare it in a class of its service: ``archive: CustomMethod[Archive, Message]``.
    """

    def __call__(
        self,
        data: Sent_contra,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Coroutine[Any, Any, Received_co]:
        """Call the method with the data and the params of a call."""
        ...


class StreamedItems(Protocol[Received_co]):
    """For type checkers, the items of a method that streams.

    ``async for item in items`` reads them. ``contextlib.aclosing(items)`` closes the stream if the
    loop is left early.
    """

    def __aiter__(self) -> AsyncIterator[Received_co]:
        """Return an iterator of the items."""
        ...

    async def __anext__(self) -> Received_co:
        """Return the next item."""
        ...

    async def aclose(self) -> None:
        """End the stream, and wait until the method has cleaned up."""
        ...


class StreamMethod(Protocol[Sent_contra, Received_co]):
    """For type checkers, a custom method that takes ``Sent`` and streams items ``Received``.

    Declare it in a class of its service: ``ask: StreamMethod[Question, Token]``.
    """

    def __call__(
        self,
        data: Sent_contra,
        params: Given = None,
        *,
        query: RawQuery = None,
        **given: Unpack[GivenParams],
    ) -> Coroutine[Any, Any, StreamedItems[Received_co]]:
        """Call the method with the data and the params of a call."""
        ...


class TypedService(ServiceHandle, Generic[RecordType, NewRecord, Changes, Found]):
    """A `ServiceHandle` whose records have types, which type checkers check.

    ``app.service("messages", Message)`` is a ``TypedService[Message]``. Records are dicts, so their
    type is a ``TypedDict``. A class names further types, and the custom methods:
    ``app.service("messages", Messages)`` is then of that class for type checkers. Nothing differs
    in a call.

    The types in brackets are those of a record, of the data of `create` and `update`, of the data
    of `patch`, and of what `find` returns, a page or a list. All but the first may be left out.

    A typed handle knows the six methods, the four events and what its class declares. The untyped
    handle at ``app.services["messages"]`` is for everything else.

    Examples:
        >>> class Message(typing.TypedDict):
        ...     id: int
        ...     text: str
        >>> class NewMessage(typing.TypedDict):
        ...     text: str
        >>> class Messages(TypedService[Message, NewMessage]):
        ...     archive: CustomMethod[list[int], None]
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # takes any number of types

    if TYPE_CHECKING:
        # Without it, a misspelt method would be a custom method of type `Any`.
        __getattr__: None  # type: ignore[assignment, misc]  # as above

        async def find(
            self, params: Given = None, *, query: RawQuery = None, **given: Unpack[GivenParams]
        ) -> Found: ...

        async def get(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...

        @overload
        async def create(
            self,
            data: NewRecord,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...
        @overload
        async def create(
            self,
            data: Sequence[NewRecord],
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[RecordType]: ...
        async def create(self, data: object, *args: object, **given: object) -> object: ...

        async def update(
            self,
            id: ScalarId,
            data: NewRecord,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...

        @overload
        async def patch(
            self,
            id: None,
            data: Changes,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[RecordType]: ...
        @overload
        async def patch(
            self,
            id: ScalarId,
            data: Changes,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...
        async def patch(self, id: Id, data: object, *args: object, **given: object) -> object: ...

        @overload
        async def remove(
            self,
            id: None,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> list[RecordType]: ...
        @overload
        async def remove(
            self,
            id: ScalarId,
            params: Given = None,
            *,
            query: RawQuery = None,
            **given: Unpack[GivenParams],
        ) -> RecordType: ...
        async def remove(self, id: Id, *args: object, **given: object) -> object: ...

        def hooks(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # knows the methods, and checks hooks against them
            self,
            hooks: TypedHooks[RecordType, NewRecord, Changes, Found] | None = None,
            /,
            *,
            around: SomeAround[RecordType, NewRecord, Changes, Found] = ...,
            before: SomePlain[RecordType, NewRecord, Changes, Found] = ...,
            after: SomePlain[RecordType, NewRecord, Changes, Found] = ...,
            error: SomePlain[RecordType, NewRecord, Changes, Found] = ...,
        ) -> Self: ...

        around: AroundHooks[RecordType, NewRecord, Changes, Found]  # type: ignore[assignment]  # checks hooks against the types
        before: PlainHooks[RecordType, NewRecord, Changes, Found]  # type: ignore[assignment]  # checks hooks against the types
        after: PlainHooks[RecordType, NewRecord, Changes, Found]  # type: ignore[assignment]  # checks hooks against the types
        error: PlainHooks[RecordType, NewRecord, Changes, Found]  # type: ignore[assignment]  # checks hooks against the types
        on: Listening[RecordType]  # type: ignore[assignment]  # checks listeners
        once: Listening[RecordType]  # type: ignore[assignment]  # checks listeners


def check_service_type(handle: ServiceHandle, described: object) -> None:
    """Check the type that a program gives for the records of a service, or for the service.

    Args:
        handle: The service.
        described: A ``TypedDict`` or another type of dicts, a class of `TypedService`, or the
            bundle that was registered.

    Raises:
        TypeError: It is neither, such as a Pydantic model.
        ValueError: It declares a custom method that the service does not have, or it is a bundle
            of another service.
    """
    if isinstance(described, ServiceBundle):
        if described.service is not owning_handle(handle).service:
            raise ValueError(
                f"{handle!r} is not the service of {described!r}; give what `use` has registered"
                " at this path"
            )
        return
    described = typing.get_origin(described) or described
    base, methods = type(handle), handle.hook_methods()
    if isinstance(described, type) and issubclass(described, base):
        for class_ in described.__mro__[: described.__mro__.index(base)]:
            declared: dict[str, object] = {}
            # From Python 3.14 on, reading annotations evaluates them, and names that are imported
            # for checkers alone are absent.
            with suppress(NameError):
                declared = inspect.get_annotations(class_)
            for name in declared:
                if name not in methods:
                    raise ValueError(
                        f"{class_.__name__} declares the method `{name}`, but {handle!r} has"
                        f" {', '.join(methods)} (custom methods are listed: methods=[...])"
                    )
        return
    is_class = isinstance(described, type) and issubclass(described, dict)
    if not is_class and not typing.is_typeddict(described):  # pyright: ignore[reportUnknownArgumentType]  # a class of anything
        raise TypeError(
            f"service(path, {described!r}): records are dicts, also those that a Pydantic model"
            " checks, so their type is a TypedDict; or give a class of"
            f" {base.__module__.partition('._')[0]}.{base.__name__}"
        )


if TYPE_CHECKING:
    Returned = TypeVar("Returned")
    Context = TypeVar("Context")
    # A mapping of hooks is only read. And from the hooks of one method, a checker cannot infer the
    # types of the others: contravariant, it needs not.
    Record_contra = TypeVar("Record_contra", contravariant=True)
    New_contra = TypeVar("New_contra", contravariant=True)
    Part_contra = TypeVar("Part_contra", contravariant=True)
    Found_contra = TypeVar("Found_contra", contravariant=True)

    Plain: TypeAlias = Callable[[Context], Any] | Sequence[Callable[[Context], Any]]
    Around: TypeAlias = Callable[[Context, Next], Any] | Sequence[Callable[[Context, Next], Any]]
    OneRecord: TypeAlias = Literal["get", "create", "update", "patch", "remove"]
    Method: TypeAlias = Literal["find", "get", "create", "update", "patch", "remove"]
    Event: TypeAlias = Literal["created", "updated", "patched", "removed"]
    Value = TypeVar("Value")
    Listener: TypeAlias = Callable[[Value, HookContext], Returned]

    # Classes, since the type of what a decorator gets has to be found when it gets it.
    class PlainDecorator(Generic[Context]):
        """Registers a before, after or error hook, and returns it."""

        def __call__(
            self, hook: Callable[[Context], Returned], /
        ) -> Callable[[Context], Returned]: ...

    class AroundDecorator(Generic[Context]):
        """Registers an around hook, and returns it."""

        def __call__(
            self, hook: Callable[[Context, Next], Returned], /
        ) -> Callable[[Context, Next], Returned]: ...

    class ListenerDecorator(Generic[Value]):
        """Registers a listener, and returns it."""

        def __call__(self, listener: Listener[Value, Returned], /) -> Listener[Value, Returned]: ...

    class PlainByMethod(
        TypedDict, Generic[Record_contra, New_contra, Part_contra, Found_contra], total=False
    ):
        """Before, after or error hooks by method."""

        all: Plain[HookContext]
        find: Plain[HookContext[Found_contra]]
        get: Plain[HookContext[Record_contra]]
        create: Plain[HookContext[Record_contra, New_contra]]
        update: Plain[HookContext[Record_contra, New_contra]]
        patch: Plain[HookContext[Record_contra, Part_contra]]
        remove: Plain[HookContext[Record_contra]]

    class AroundByMethod(
        TypedDict, Generic[Record_contra, New_contra, Part_contra, Found_contra], total=False
    ):
        """Around hooks by method."""

        all: Around[HookContext]
        find: Around[HookContext[Found_contra]]
        get: Around[HookContext[Record_contra]]
        create: Around[HookContext[Record_contra, New_contra]]
        update: Around[HookContext[Record_contra, New_contra]]
        patch: Around[HookContext[Record_contra, Part_contra]]
        remove: Around[HookContext[Record_contra]]

    SomePlain: TypeAlias = (
        PlainByMethod[Record_contra, New_contra, Part_contra, Found_contra] | Plain[HookContext]
    )
    SomeAround: TypeAlias = (
        AroundByMethod[Record_contra, New_contra, Part_contra, Found_contra] | Around[HookContext]
    )

    class TypedHooks(
        TypedDict, Generic[Record_contra, New_contra, Part_contra, Found_contra], total=False
    ):
        """Hooks by their type."""

        around: SomeAround[Record_contra, New_contra, Part_contra, Found_contra]
        before: SomePlain[Record_contra, New_contra, Part_contra, Found_contra]
        after: SomePlain[Record_contra, New_contra, Part_contra, Found_contra]
        error: SomePlain[Record_contra, New_contra, Part_contra, Found_contra]

    class PlainHooks(Generic[RecordType, NewRecord, Changes, Found]):
        """The decorators of before, after and error hooks."""

        @overload
        def __call__(self) -> PlainDecorator[HookContext]: ...
        @overload
        def __call__(self, method: Literal["find"], /) -> PlainDecorator[HookContext[Found]]: ...
        @overload
        def __call__(
            self, method: Literal["get", "remove"], /, *more: Literal["get", "remove"]
        ) -> PlainDecorator[HookContext[RecordType]]: ...
        @overload
        def __call__(
            self, method: Literal["create", "update"], /, *more: Literal["create", "update"]
        ) -> PlainDecorator[HookContext[RecordType, NewRecord]]: ...
        @overload
        def __call__(
            self, method: Literal["patch"], /
        ) -> PlainDecorator[HookContext[RecordType, Changes]]: ...
        @overload
        def __call__(
            self, method: OneRecord, /, *more: OneRecord
        ) -> PlainDecorator[HookContext[RecordType, NewRecord | Changes]]: ...
        @overload
        def __call__(self, method: Method, /, *more: Method) -> PlainDecorator[HookContext]: ...
        def __call__(self, *methods: str) -> object: ...

    class AroundHooks(Generic[RecordType, NewRecord, Changes, Found]):
        """The decorator of around hooks."""

        @overload
        def __call__(self) -> AroundDecorator[HookContext]: ...
        @overload
        def __call__(self, method: Literal["find"], /) -> AroundDecorator[HookContext[Found]]: ...
        @overload
        def __call__(
            self, method: Literal["get", "remove"], /, *more: Literal["get", "remove"]
        ) -> AroundDecorator[HookContext[RecordType]]: ...
        @overload
        def __call__(
            self, method: Literal["create", "update"], /, *more: Literal["create", "update"]
        ) -> AroundDecorator[HookContext[RecordType, NewRecord]]: ...
        @overload
        def __call__(
            self, method: Literal["patch"], /
        ) -> AroundDecorator[HookContext[RecordType, Changes]]: ...
        @overload
        def __call__(
            self, method: OneRecord, /, *more: OneRecord
        ) -> AroundDecorator[HookContext[RecordType, NewRecord | Changes]]: ...
        @overload
        def __call__(self, method: Method, /, *more: Method) -> AroundDecorator[HookContext]: ...
        def __call__(self, *methods: str) -> object: ...

    class Listening(Generic[RecordType]):
        """Registers listeners, by call or as a decorator."""

        @overload
        def __call__(
            self, event: Event, listener: Listener[RecordType, Returned]
        ) -> Listener[RecordType, Returned]: ...
        @overload
        def __call__(self, event: Event) -> ListenerDecorator[RecordType]: ...
        def __call__(self, event: str, listener: object = None) -> object: ...
