"""A service together with the hooks that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

__all__ = ["ServiceBundle"]

ByMethod: TypeAlias = Mapping[str, Sequence[Callable[..., Any]]]

_NONE: Final[ByMethod] = MappingProxyType({})


class ServiceBundle:
    """What ``use`` takes in the place of a service that brings hooks of its own.

    Its hooks are registered before all others of the service. The service itself stays as it is,
    and is what the handle has as its ``service``.

    Args:
        service: The service.
        hooks: As ``hooks`` of a service's handle takes them, as one mapping.
        schema: The JSON Schema of its records, for descriptions of the API.
        first: Before hooks by method that run in front of all other before hooks of the service,
            whenever these are registered, except that ``authenticate`` and what is registered in
            front of it comes earlier: these hooks may depend on who is calling.
        last: Before hooks by method that run behind all others, directly in front of the method.

    Attributes:
        service: As given.
        hooks: As given.
        schema: As given.
        first: As given.
        last: As given.
    """

    def __init__(
        self,
        service: Any,
        hooks: Mapping[str, Any],
        schema: Any = None,
        *,
        first: ByMethod = _NONE,
        last: ByMethod = _NONE,
    ) -> None:
        self.service = service
        self.hooks = hooks
        self.schema = schema
        self.first = first
        self.last = last

    def __repr__(self) -> str:
        return f"with_schema({type(self.service).__name__}(), ...)"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"{self!r} has no {name!r}: it is called where it is registered:"
                f" app.use(path, service), then app.service(path).{name}",
                name=name,
            )
