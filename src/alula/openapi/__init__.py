"""Descriptions of an application that are never out of date, and a page that shows them.

Services are described in OpenAPI, events of real time in AsyncAPI.
"""

from alula.openapi._asyncapi import describe_events
from alula.openapi._document import describe
from alula.openapi._plugin import openapi
from alula.openapi._typescript import typescript

__all__ = ["describe", "describe_events", "openapi", "typescript"]
