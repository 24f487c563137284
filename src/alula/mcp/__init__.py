"""Services as tools for agents, by the Model Context Protocol (MCP). Needs the extra ``mcp``."""

try:
    import orjson as _orjson  # noqa: F401  # as above

    import mcp as _sdk  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError(
        f"alula.mcp needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[mcp]'"
    ) from error

from alula.mcp._plugin import mcp

__all__ = ["mcp"]
