"""The command ``alula``. Needs the extra ``cli``."""

import sys

try:
    import typer as _typer  # noqa: F401  # only to see whether it is installed
except ImportError as error:
    _message = (
        f"alula: the command alula needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[cli]'"
    )

    def main() -> None:
        """Say what is missing, and exit."""
        sys.exit(_message)  # without a stack trace: the script that pip writes calls this

else:
    from alula._cli.commands import main as main

__all__ = ["main"]
