"""An application whose tools are those that the official conformance suite calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from alula import App, Params
from alula.errors import BadRequest
from alula.express import ExpressApplication, api
from alula.mcp import mcp


class Test:
    """Its methods and its path are the names of the tools: ``test_simple_text``."""

    async def simple_text(self, data: None, params: Params) -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    async def error_handling(self, data: None, params: Params) -> None:
        """Fail."""
        raise BadRequest("This tool intentionally returns an error for testing")

    async def tool_with_progress(self, data: None, params: Params) -> AsyncIterator[Any]:
        """Report progress."""
        for progress in (0, 50, 100):
            yield {"progress": progress, "total": 100, "message": f"Completed step {progress}"}


def application() -> ExpressApplication:
    """Return the application."""
    methods = ["simple_text", "error_handling", "tool_with_progress"]
    app = api(App(debug=True)).use("test", Test(), methods=methods)
    return app.configure(mcp({"test": methods}))  # on this machine, as for development
