"""The prompt of `alula shell`: code runs in the event loop of the application."""

from __future__ import annotations

import ast
import asyncio
import code
import contextlib
import inspect
import keyword
import re
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine, Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from types import CodeType, TracebackType
from typing import Any, Final, Self, TypeVar

__all__ = ["Console", "LoopBetweenLines", "names_of", "open_console"]

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
    with asyncio.Runner() as runner, LoopBetweenLines(runner.get_loop()) as loop:
        loop.run(app.setup())
        try:
            return _converse(names, loop)
        finally:
            loop.run(app.teardown())


def _converse(names: dict[str, Any], loop: LoopBetweenLines) -> bool:
    """Read and run lines, on a terminal with IPython where it is installed."""
    if not _is_typed():
        console = Console(names, loop)
        console.interact(banner="", exitmsg="")
        return not console.failed
    ipython = _ipython()
    if ipython is not None:
        shell = ipython.InteractiveShellEmbed(banner1=_banner(names) + "\n", user_ns=names)
        shell.loop_runner = loop.run
        shell()
    else:
        console = Console(names, loop)
        _prepare_line(console)
        console.interact(banner=_banner(names), exitmsg="")
    return True


def _ipython() -> Any:
    """Return the module of IPython's prompt, None where it is not installed.

    The prompt must not run inside the `except`: every error of a line would show this one, too.
    """
    try:
        return import_module("IPython.terminal.embed")  # it is the user's, not ours
    except ImportError:
        return None


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
    """Runs each line as a task of an event loop, which also runs while the next one is typed.

    Args:
        names: What is there by name.
        loop: Runs the lines.

    Attributes:
        names: As given, and what was named since.
        failed: Whether a line has failed.
    """

    def __init__(self, names: Mapping[str, Any], loop: LoopBetweenLines) -> None:
        self.names: dict[str, Any] = {"__name__": "__console__", **names}
        super().__init__(self.names, _TYPED)
        self.failed = False
        self._loop = loop
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def raw_input(self, prompt: str = "") -> str:
        """Read a line; without a prompt where nobody would see it."""
        return super().raw_input(prompt if _is_typed() else "")

    def runcode(self, code: CodeType) -> None:
        """Run what was typed; Ctrl+C ends it."""
        try:
            end = self._loop.run(self._run(code))
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


class LoopBetweenLines:
    """An event loop that runs in a thread of its own, and in this one while a line runs.

    Python delivers Ctrl+C to the main thread alone. A line that blocks, such as `time.sleep(60)`,
    can be interrupted only there, so the loop moves over for as long as the line takes.

    Args:
        loop: The event loop, which is closed by the caller.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stop_is_due = False
        self._has_stopped = threading.Event()
        self._has_stopped.set()

    def __enter__(self) -> Self:
        self._leave()
        return self

    def __exit__(self, *_: object) -> None:
        self._fetch()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine here, and return its result.

        Raises:
            KeyboardInterrupt: Ctrl+C. Code that was just running gets it where it is; a coroutine
                that waited is cancelled.
            BaseException: Whatever the coroutine raises.
        """
        try:
            self._fetch()
        except KeyboardInterrupt:
            work.close()
            raise
        task = self._loop.create_task(work)
        try:
            with self._interrupting(task):
                return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._is_interrupted:
                raise KeyboardInterrupt from None
            raise
        except KeyboardInterrupt:
            if not task.done():  # it was raised in another task
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    self._loop.run_until_complete(task)
            raise
        finally:
            self._leave()

    @contextlib.contextmanager
    def _interrupting(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Have Ctrl+C end a task, and not whatever the loop happens to do for others."""
        self._is_interrupted = False

        def interrupt(*_: object) -> None:
            again, self._is_interrupted = self._is_interrupted, True
            # A second Ctrl+C ends a task that keeps the loop from cancelling this one.
            if again or asyncio.current_task(self._loop) is task:
                raise KeyboardInterrupt
            self._loop.call_soon_threadsafe(task.cancel)

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _leave(self) -> None:
        """Let the loop run in a thread of its own, where it does not run any more."""
        self._stop_is_due = False
        self._has_stopped.clear()
        threading.Thread(target=self._run_aside, name="alula shell", daemon=True).start()

    def _run_aside(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._has_stopped.set()

    def _fetch(self) -> None:
        """Have the loop stop in its thread; where something blocks it there, Ctrl+C gives up."""
        if not self._stop_is_due:
            self._stop_is_due = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._has_stopped.wait()


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
