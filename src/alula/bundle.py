"""A service together with the hooks that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ServiceBundle"]


class ServiceBundle:
    """What ``use`` takes in the place of a service that brings hooks of its own.

    Its hooks are registered before all others of the service. The service itself stays as it is,
    and is what the handle has as its ``service``.

    Args:
        service: The service.
        hooks: As ``hooks`` of a service's handle takes them, as one mapping.
        schema: The JSON Schema of its records, for descriptions of the API.

    Attributes:
        service: As given.
        hooks: As given.
        schema: As given.
    """

    def __init__(self, service: Any, hooks: Mapping[str, Any], schema: Any = None) -> None:
        self.service = service
        self.hooks = hooks
        self.schema = schema
