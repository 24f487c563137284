"""What the terminal gets: colours where it is one, errors on the standard error, exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final, TextIO

import typer

from alula._cli.failures import Missing, report
from alula.errors import FrameworkError

__all__ = ["FAILURE", "USAGE", "aside", "complain", "is_coloured", "paint", "say", "told"]

FAILURE: Final = 1
USAGE: Final = 2

_EXTRA: Final = "pip install 'alula["
"""What stands in the error of a room of ours that lacks a package."""


def is_coloured(stream: TextIO | None) -> bool:
    """Tell whether colours may be written to a stream: a terminal that nobody asked to do without.

    https://no-color.org says how that is asked for. There is no stream at all where the program was
    started with a closed one.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream is not None and not plain and stream.isatty()


def paint(text: str, stream: TextIO | None = None, **style: Any) -> str:
    """Return text in a style of ``typer.style``, as it is where the stream takes no colours."""
    return typer.style(text, **style) if is_coloured(stream or sys.stdout) else text


def complain(message: str) -> None:
    """Say on the standard error what went wrong."""
    typer.echo(f"{paint('alula:', sys.stderr, fg='red', bold=True)} {message}", err=True)


def say(text: str, *, ends_line: bool = True) -> None:
    """Print what somebody asked for.

    Raises:
        typer.Exit: With 1 where it can not be written. Why is told, unless it is that whoever read
            it, such as ``head``, has gone.
    """
    try:
        typer.echo(text, nl=ends_line)
    except OSError as error:
        # What is still kept for the output would fail once more when Python ends.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            complain(f"the output can not be written: {error.strerror}")
        raise typer.Exit(FAILURE) from None


def aside() -> AbstractContextManager[Any]:
    """Have what the code of an application prints on the standard error, not in the answer."""
    return redirect_stdout(sys.stderr)


@contextmanager
def told() -> Iterator[None]:
    """Tell of errors on the standard error, and end with the exit code that they have.

    Raises:
        typer.Abort: A question was not answered, since there was no more input.
        KeyboardInterrupt: Ctrl+C, also in place of an answer.
        typer.Exit: With 2 where something is not there, with 1 for all other errors.
    """
    try:
        yield
    except (typer.Abort, typer.Exit) as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # in place of an answer
            raise end.__context__ from None
        raise
    except Missing as error:
        complain(error.args[0])
        raise typer.Exit(USAGE) from None
    except FrameworkError as error:
        complain(f"{error.name} ({error.code}): {error}")
        for details in filter(None, (error.data, error.errors)):
            if not _is_told(details, str(error)):
                typer.echo(json.dumps(details, indent=2, ensure_ascii=False, default=str), err=True)
        raise typer.Exit(FAILURE) from None
    except Exception as error:  # noqa: BLE001  # told to whoever typed the command
        if isinstance(error, ImportError) and _EXTRA in str(error):
            complain(str(error))
        else:
            typer.echo(report(error), err=True)
        raise typer.Exit(FAILURE) from None


def _is_told(details: Any, message: str) -> bool:
    """Tell whether details are the reason alone that the message gives, too."""
    return (
        isinstance(details, Mapping)
        and details.keys() == {"reason"}
        and str(details["reason"]) in message
    )
