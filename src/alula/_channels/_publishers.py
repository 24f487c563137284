"""Publishers: the functions of an application that return the channels for an event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar, overload

from alula._user_code import did_you_mean, name_of, unfit_signature
from alula.types import EVENT_OF_METHOD

__all__ = [
    "Publisher",
    "PublisherTable",
    "Publishing",
    "PublishingService",
    "check_event_of_any",
    "unlisted_event",
    "warn_about_publishers",
]

_log: Final = logging.getLogger("alula.events")

Publisher: TypeAlias = Callable[..., Any]
"""``(data, context)``, plain or asynchronous: returns a `Channel`, lists of channels, or None."""
AnyPublisher = TypeVar("AnyPublisher", bound=Publisher)


class PublishingService(Protocol):
    """What channels need of a service.

    Attributes:
        app: The application.
        path: The path.
        events: The names of its events.
        methods: Names of the methods that clients may call.
        publishers: The publisher of each event that has one, also of the application.
        secret_events: Whether its events are never published.
    """

    app: Any
    path: str
    events: tuple[str, ...]
    methods: tuple[str, ...]
    publishers: Mapping[str, Publisher]
    secret_events: bool

    @property
    def live_options(self) -> object:
        """How it offers live lists, None if it has none."""
        ...

    def resolve_publishers(self) -> None:
        """Set ``publishers`` again, after publishers or followers were added."""
        ...


Services: TypeAlias = Mapping[str, PublishingService]


class PublisherTable:
    """Publishers by event. The key None has the publisher for all other events.

    Args:
        owner: The service or application, for messages.
        check_event: Raises for the name of an event that does not exist.
    """

    def __init__(self, owner: object, check_event: Callable[[str], None] | None = None) -> None:
        self._owner = owner
        self._check_event = check_event
        self._by_event: dict[str | None, Publisher] = {}

    def add(self, event: str | None, publisher: Publisher) -> None:
        """Register a publisher. It replaces the one that the event had.

        Raises:
            TypeError: It is not a function of ``(data, context)``.
            ValueError: There is no such event.
        """
        self.check(event)
        if not callable(publisher):
            raise TypeError(
                f"publish({event!r}, {publisher!r}): a publisher is a function of (data, context)"
            )
        if (signature := unfit_signature(publisher, "data", "context")) is not None:
            raise TypeError(
                f"the publisher {name_of(publisher)} of {self._owner!r} takes {signature};"
                " publishers are called with (data, context)"
            )
        self._by_event[event] = publisher

    def check(self, event: str | None) -> None:
        """Check that an event exists.

        Raises:
            ValueError: There is no such event.
        """
        if event is not None and self._check_event is not None:
            self._check_event(event)

    @property
    def events(self) -> list[str]:
        """The events that have a publisher of their own."""
        return [event for event in self._by_event if event is not None]

    def find(self, event: str) -> Publisher | None:
        """Return the publisher of an event, or else the one for all events."""
        return self._by_event.get(event) or self._by_event.get(None)


class Publishing:
    """The method ``publish`` of services and the application.

    Attributes:
        secret_events: Whether its events are never published; see `never_publish`.
        publishes_calls: Whether events of calls are published. False if the service publishes the
            changes that its database reports instead.
        _own_publishers: Set by the class that inherits from this one.
    """

    secret_events: bool = False
    publishes_calls: bool = True
    _own_publishers: PublisherTable

    def resolve_publishers(self) -> None:
        """Look up the publishers of all events again; classes that inherit this override it."""

    def never_publish(self) -> None:
        """Keep all events from clients and other processes, since they hold secrets."""
        self.secret_events = True
        self.resolve_publishers()

    @overload
    def publish(self, event: str, publisher: AnyPublisher) -> AnyPublisher: ...
    @overload
    def publish(self, event: str) -> Callable[[AnyPublisher], AnyPublisher]: ...
    @overload
    def publish(self, event: AnyPublisher) -> AnyPublisher: ...
    def publish(self, event: str | Publisher, publisher: Publisher | None = None) -> Publisher:
        """Register the function that returns the channels for an event, or for all events.

        Without a publisher, of the service or the application, no event leaves the server. What a
        publisher raises is logged; the call stands.

        Args:
            event: The name of the event, or the publisher of all events without one of their own.
            publisher: ``(data, context)``, plain or asynchronous. It returns a `Channel`, lists of
                channels in any depth, or None for nobody.

        Raises:
            TypeError: The publisher is not such a function.
            ValueError: The service emits no such event, or its events hold secrets.

        Examples:
            >>> from alula import App
            >>> from alula.adapters.memory import MemoryService
            >>> app = App().use("messages", MemoryService())
            >>> @app.service("messages").publish("created")
            ... def to_room(data, context):
            ...     return app.channel(f"rooms/{data['room']}")
        """
        if self.secret_events:
            raise ValueError(f"events of {self!r} hold secrets, such as tokens; publish others")
        if not isinstance(event, str):  # @service.publish
            self._own_publishers.add(None, event)
            self.resolve_publishers()
            return event
        if publisher is None:  # @service.publish("created")
            # Now, since nobody decorates with publish("everyone"), the name of a channel.
            self._own_publishers.check(event)
            return partial(self.publish, event)
        self._own_publishers.add(event, publisher)
        self.resolve_publishers()
        return publisher


def unlisted_event(service: PublishingService, event: str) -> str:
    """Return a message: a service does not list an event, and what to do about it."""
    hint = did_you_mean(event, service.events) or ";"
    return (
        f"{service!r} emits no event {event!r}{hint} it emits {', '.join(service.events)};"
        f" others are listed: use({service.path!r}, service, events=[{event!r}])"
    )


def check_event_of_any(event: str, services: Services) -> None:
    """Check the event of a publisher of the application: is its name likely a mistake?

    Unknown names pass, since a service that emits the event may be registered later.

    Raises:
        ValueError: It is the path of a service, or close to the name of an event.
    """
    known = {*EVENT_OF_METHOD.values()}.union(*(service.events for service in services.values()))
    if event in known:
        return
    if event in services:
        raise ValueError(
            f"app.publish({event!r}, ...) takes the name of an event, not of a service:"
            f" app.service({event!r}).publish(publisher)"
        )
    if hint := did_you_mean(event, known, 0.8):
        raise ValueError(
            f"no service emits an event {event!r}{hint} If not, register the service that lists it"
            f" first: app.use(path, service, events=[{event!r}])"
        )


def warn_about_publishers(
    services: Services, of_app: PublisherTable, transports: Iterable[str]
) -> None:
    """Log publishers that never run, and transports of events without any publisher.

    Args:
        services: The services by path.
        of_app: The publishers of the application.
        transports: The names of the configured transports.
    """
    emitting = [service for service in services.values() if not service.secret_events]
    has_lists = any(service.live_options is not None for service in services.values())
    for event in of_app.events:
        if not any(event in service.events for service in emitting):
            _log.warning(
                "the publisher of the application for %r never runs: no service emits it; list it"
                " where its service is registered: app.use(path, service, events=[%r])",
                event,
                event,
            )
    real_time = [name for name in transports if name != "rest"]
    silent = [
        service.path
        for service in emitting
        if not EVENT_OF_METHOD.keys().isdisjoint(service.methods)
        or len(service.events) > len(EVENT_OF_METHOD)
    ]
    has_publisher = any(service.publishers for service in emitting)
    if real_time and silent and not has_publisher and not has_lists:
        _log.warning(
            "%s is configured, but no service has a publisher, so clients get no events; write"
            " @app.service(%r).publish, or @app.publish for all services; if only calls are"
            " wanted: app.publish(lambda data, context: None)",
            " and ".join(real_time),
            silent[0],
        )
