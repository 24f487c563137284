"""The prompt of `alula shell`: code runs in the event loop of the application."""

from __future__ import annotations

import ast
import asyncio
import code
import concurrent.futures
import contextlib
import inspect
import keyword
import re
import sys
import threading
import traceback
from collections.abc import Coroutine, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from types import CodeType, TracebackType
from typing import Any, Final, TypeVar

__all__ = ["Console", "names_of", "open_console"]

T = TypeVar("T")

_TYPED: Final = "<console>"


def open_console(app: Any) -> bool:
    """Set an application up, read and run lines until there are no more, and tear it down.

    Where the input is no terminal nothing but what the lines print is written.

    Returns:
        Whether all went well: on a terminal always, else where no line has failed.

    Raises:
        Exception: Whatever the set-up or the teardown raises.
    """
    names = names_of(app)
    with _loop_beside() as loop:
        _finish(loop, app.setup())
        try:
            return _converse(names, loop)
        finally:
            _finish(loop, app.teardown())


def _converse(names: dict[str, Any], loop: asyncio.AbstractEventLoop) -> bool:
    """Read and run lines, on a terminal with IPython where it is installed."""
    if not _is_typed():
        console = Console(names, loop)
        console.interact(banner="", exitmsg="")
        return not console.failed
    try:
        ipython: Any = import_module("IPython.terminal.embed")  # it is the user's, not ours
    except ImportError:
        console = Console(names, loop)
        _prepare_line(console)
        console.interact(banner=_banner(names), exitmsg="")
        return True
    shell = ipython.InteractiveShellEmbed(banner1=_banner(names) + "\n", user_ns=names)
    shell.loop_runner = partial(_finish, loop)
    shell()
    return True


def _is_typed() -> bool:
    return sys.stdin.isatty()


def names_of(app: Any) -> dict[str, Any]:
    """Return what the prompt knows by name: ``app``, and the services by their paths.

    What can not stand in a name becomes an underscore; ``app`` itself stays what it is.
    """
    services = {_identifier(path): app.service(path) for path in app.services}
    return {**services, "app": app}


def _identifier(path: str) -> str:
    name = re.sub(r"\W+", "_", path).strip("_")
    if name[:1].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class Console(code.InteractiveConsole):
    """Runs each line as a task of an event loop, which goes on meanwhile.

    Args:
        names: What is there by name.
        loop: The event loop, which runs in another thread.

    Attributes:
        names: As given, and what was named since.
        failed: Whether a line has failed.
    """

    def __init__(self, names: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.names: dict[str, Any] = {"__name__": "__console__", **names}
        super().__init__(self.names, _TYPED)
        self.failed = False
        self._loop = loop
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def raw_input(self, prompt: str = "") -> str:
        """Read a line; without a prompt where nobody would see it."""
        return super().raw_input(prompt if _is_typed() else "")

    def runcode(self, code: CodeType) -> None:
        """Run what was typed; Ctrl+C cancels it."""
        try:
            end = _finish(self._loop, self._run(code))
        except KeyboardInterrupt:
            self.write("\nKeyboardInterrupt\n")
        except BaseException as error:  # noqa: BLE001  # a prompt shows every error
            self.failed = True
            self.write("".join(traceback.format_exception(error.with_traceback(_own(error)))))
        else:
            if end is not None:
                raise end

    def showsyntaxerror(self, *args: Any, **options: Any) -> None:
        """Show what is no Python."""
        self.failed = True
        super().showsyntaxerror(*args, **options)

    async def _run(self, compiled: CodeType) -> SystemExit | None:
        """Run code in the loop; return what asks for the end, which must not end the loop."""
        try:
            result = eval(compiled, self.names)  # noqa: S307  # this is what a prompt is for
            if inspect.isawaitable(result):
                await result
        except SystemExit as end:
            return end
        return None


def _own(error: BaseException) -> TracebackType | None:
    """Return the part of a stack that begins with what was typed."""
    stack = error.__traceback__
    while stack is not None and stack.tb_frame.f_code.co_filename != _TYPED:
        stack = stack.tb_next
    return stack


def _finish(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the loop, and return its result; what interrupts that cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        with contextlib.suppress(concurrent.futures.CancelledError):
            future.result()
        raise


@contextlib.contextmanager
def _loop_beside() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop that runs in a thread of its own."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        over = asyncio.Event()
        thread = threading.Thread(target=lambda: runner.run(_wait_for(over)), name="alula shell")
        thread.start()
        try:
            yield loop
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()


async def _wait_for(over: asyncio.Event) -> None:
    await over.wait()


def _banner(names: Mapping[str, Any]) -> str:
    services = ", ".join(name for name in names if name != "app") or "none"
    return (
        f"Alula {version('alula')}, Python {sys.version.partition(' ')[0]}\n"
        f"app, and its services: {services}\n"
        "Write `await app.service(path).find()`; Ctrl+D ends."
    )


def _prepare_line(console: Console) -> None:
    """Let the line be edited, with completion of what is there by name."""
    try:
        import readline  # noqa: PLC0415  # there is none on some systems
        import rlcompleter  # noqa: PLC0415  # as above
    except ImportError:
        return
    readline.set_completer(rlcompleter.Completer(console.names).complete)
    readline.parse_and_bind("tab: complete")
