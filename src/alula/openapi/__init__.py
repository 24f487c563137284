"""An OpenAPI description of all services that is never out of date, and a page that shows it."""

from alula.openapi._document import describe
from alula.openapi._plugin import openapi

__all__ = ["describe", "openapi"]
