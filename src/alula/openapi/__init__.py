"""Descriptions of an application that are never out of date, and a page that shows them.

Services are described in OpenAPI, events of real time in AsyncAPI.
"""

from typing import TYPE_CHECKING

from alula._late_imports import late_names
from alula.openapi._plugin import openapi

if TYPE_CHECKING:
    from alula.openapi._asyncapi import describe_events
    from alula.openapi._document import describe
    from alula.openapi._typescript import typescript

__all__ = ["describe", "describe_events", "openapi", "typescript"]

if not TYPE_CHECKING:  # otherwise, checkers would accept every name
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "describe": "_document",
            "describe_events": "_asyncapi",
            "typescript": "_typescript",
        },
    )
