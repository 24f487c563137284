"""Terminal output: results, errors, colors and exit codes.

Results go to the standard output and everything else to the standard error, so that the output of
a command can be piped into another program.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Final, TextIO

import typer

from alula._public_error import log_text
from alula._user_code import is_user_code, keep_user_frames
from alula.errors import FrameworkError, Unavailable
from alula.types import is_mapping

__all__ = [
    "EXIT_FAILURE",
    "EXIT_USAGE",
    "UsageError",
    "format_error",
    "print_error",
    "print_result",
    "reporting_errors",
    "stdout_to_stderr",
    "style",
    "supports_color",
]

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2

_MISSING_EXTRA: Final = "pip install 'alula["
"""Part of the error of every Alula package whose extra is not installed."""


class UsageError(typer.BadParameter):
    """A command was mistyped, or names something that does not exist; ends with exit code 2.

    Typer keeps click's `UsageError` private; `BadParameter` is its public subclass.
    """


@contextmanager
def reporting_errors() -> Generator[None]:
    """Print errors to the standard error and exit with the code of each.

    Raises:
        typer.Abort: The input ended before a question was answered.
        KeyboardInterrupt: Ctrl+C, also at a question.
        typer.Exit: With 2 for a `UsageError` and 1 for every other error.
    """
    try:
        yield
    except (typer.Abort, typer.Exit) as end:
        # Typer turns Ctrl+C at a question into Abort (exit code 1); shells expect 130.
        if isinstance(end.__context__, KeyboardInterrupt):
            raise end.__context__ from None
        raise
    except UsageError as error:
        print_error(error.message)
        raise typer.Exit(error.exit_code) from None
    # An error such as NotFound is a result of the call, not a defect: its message is enough.
    except FrameworkError as error:
        print_error(f"{error.name} ({error.code}): {log_text(error)}")
        for details in filter(None, (error.data, error.errors)):
            # Errors of the client have the data {"reason": ...}, and the reason in their message.
            only_reason = is_mapping(details) and [*details] == ["reason"]
            if not only_reason or str(details["reason"]) not in str(error):
                typer.echo(json.dumps(details, indent=2, ensure_ascii=False, default=str), err=True)
        raise typer.Exit(EXIT_FAILURE) from None
    except Exception as error:  # noqa: BLE001  # printed for the user who typed the command
        if isinstance(error, ImportError) and _MISSING_EXTRA in str(error):
            print_error(str(error))
        else:
            typer.echo(format_error(error), err=True)
        raise typer.Exit(EXIT_FAILURE) from None


def stdout_to_stderr() -> redirect_stdout[TextIO]:
    """Redirect what application code prints, so that it does not mix with the result."""
    return redirect_stdout(sys.stderr)


def print_result(text: str, *, newline: bool = True) -> None:
    """Print what the command was run for.

    Raises:
        typer.Exit: With 1 if the output cannot be written. The reason is printed, except where
            the reader, such as ``head``, has closed the pipe.
    """
    try:
        typer.echo(text, nl=newline)
    except OSError as error:
        # Python flushes the rest of the buffer at exit, which would fail with a second traceback.
        with Path(os.devnull).open("wb") as devnull:
            os.dup2(devnull.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print_error(f"cannot write the output: {error.strerror}")
        raise typer.Exit(EXIT_FAILURE) from None


def print_error(message: str) -> None:
    """Print a message to the standard error, after ``alula:``."""
    typer.echo(f"{style('alula:', sys.stderr, fg='red', bold=True)} {message}", err=True)


def style(
    text: str,
    stream: TextIO | None = None,
    *,
    fg: str | None = None,
    bold: bool | None = None,
    dim: bool | None = None,
) -> str:
    """Return text with the escape codes of a style, or unchanged if the stream has no colors.

    Args:
        text: The text.
        stream: Where the text is written, None for the standard output.
        fg: The foreground color, by its name in `typer.colors`.
        bold: Whether it is bold.
        dim: Whether it is dim.
    """
    if not supports_color(stream or sys.stdout):
        return text
    return typer.style(text, fg=fg, bold=bold, dim=dim)


def supports_color(stream: TextIO | None) -> bool:
    """Tell whether colors may be written to a stream: a terminal without ``NO_COLOR``.

    See https://no-color.org. The stream is None if the program was started with it closed.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream is not None and not plain and stream.isatty()


def format_error(error: BaseException, folder: Path | None = None) -> str:
    """Return the traceback of an error, reduced to the frames of the user's own code.

    A traceback without any such frame is returned whole. A database that cannot be reached is one
    line: no code is wrong then.

    Args:
        error: The error.
        folder: The folder of the user's code, None for the current folder.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    if isinstance(error, Unavailable) and notes:
        return f"{error.message}: {'; '.join(notes)}"
    summary = traceback.TracebackException.from_exception(error)
    user_folder = (folder or Path.cwd()).resolve()
    keep_user_frames(
        summary, lambda name: Path(name).is_relative_to(user_folder) and is_user_code(name)
    )
    return "".join(summary.format()).rstrip()
