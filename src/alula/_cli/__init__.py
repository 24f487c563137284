"""The command ``alula``. Needs the extra ``cli``."""

try:
    import typer as _typer  # noqa: F401  # only to see whether it is installed
except ImportError as error:
    raise ImportError(
        f"the command alula needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[cli]'"
    ) from error

from alula._cli.commands import main

__all__ = ["main"]
