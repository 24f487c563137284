"""`alula shell`: a Python prompt whose lines run in the event loop of the application."""

from __future__ import annotations

import ast
import asyncio
import code
import contextlib
import inspect
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine, Generator, Mapping
from importlib import import_module
from importlib.metadata import version
from types import CodeType
from typing import Any, Final, Self, TypeVar

import typer

from alula._cli.application import Application, ApplicationTarget, load_application, set_up
from alula._cli.service_listing import identifier_of
from alula._cli.terminal import EXIT_FAILURE, reporting_errors

__all__ = ["BackgroundLoop", "Console", "names_of", "open_console", "shell"]

T = TypeVar("T")

_CONSOLE_FILE: Final = "<console>"


def shell(application: ApplicationTarget = "app:app") -> None:
    """Open a prompt with `app`, its services, and `await`.

    Services are available under their paths: `await messages.find()`. Calls from here are
    internal. If the input is not a terminal, its lines are run, and a line that fails makes the
    exit code 1.
    """
    with reporting_errors():
        if not open_console(load_application(application)):
            raise typer.Exit(EXIT_FAILURE)


def open_console(app: Application) -> bool:
    """Set an application up, run lines until the input ends, and tear it down.

    If the input is not a terminal, only what the lines print is written.

    Returns:
        Whether all lines succeeded; on a terminal always True.

    Raises:
        Exception: Whatever the setup or the teardown raises.
    """
    names = names_of(app)
    with asyncio.Runner() as runner, BackgroundLoop(runner.get_loop()) as loop:
        loop.run(set_up(app))
        try:
            console = Console(names, loop)
            if not _input_is_terminal():
                console.interact(banner="", exitmsg="")
                return not console.failed
            ipython = _import_ipython()
            if ipython is not None:
                embedded = ipython.InteractiveShellEmbed(
                    banner1=_banner(names) + "\n", user_ns=names
                )
                # IPython would run `await` in its own loop; connections of the application work
                # in this one only.
                embedded.loop_runner = loop.run
                embedded()
            else:
                console.enable_completion()
                console.interact(banner=_banner(names), exitmsg="")
            return True
        finally:
            loop.run(app.teardown())


def names_of(app: Application) -> dict[str, object]:
    """Return the names that the prompt starts with: ``app``, and the services by their paths.

    Characters that an identifier cannot have become underscores. ``app`` is always the application.
    """
    return {**{identifier_of(path): app.service(path) for path in app.services}, "app": app}


class Console(code.InteractiveConsole):
    """A console that runs each line as a task of an event loop.

    The loop also runs while the next line is typed.

    Args:
        names: The variables to start with.
        loop: Runs the lines.

    Attributes:
        names: The variables, including those that lines have assigned.
        failed: Whether a line has failed.
    """

    def __init__(self, names: Mapping[str, object], loop: BackgroundLoop) -> None:
        self.names: dict[str, Any] = {"__name__": "__console__", **names}
        super().__init__(self.names, _CONSOLE_FILE)
        self.failed = False
        self._loop = loop
        # As `python -m asyncio` does: `await` works outside of a function.
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def enable_completion(self) -> None:
        """Let the user edit lines, and complete variables with the tab key."""
        try:
            import readline  # noqa: PLC0415  # some systems lack it
            import rlcompleter  # noqa: PLC0415  # needs readline
        except ImportError:
            return
        readline.set_completer(rlcompleter.Completer(self.names).complete)
        readline.parse_and_bind("tab: complete")

    def raw_input(self, prompt: str = "") -> str:
        """Read a line; print the prompt on a terminal only."""
        return super().raw_input(prompt if _input_is_terminal() else "")

    def runcode(self, code: CodeType) -> None:
        """Run what was typed; Ctrl+C ends it."""

        async def run() -> SystemExit | None:
            try:
                result = eval(code, self.names)  # noqa: S307  # this is what a prompt is for
                if inspect.isawaitable(result):
                    await result
            except SystemExit as exit_request:
                return exit_request  # raised in the loop, it would stop the loop
            return None

        try:
            exit_request = self._loop.run(run())
        except KeyboardInterrupt:
            self.write("\nKeyboardInterrupt\n")
        except BaseException as error:  # noqa: BLE001  # a prompt shows every error
            self.failed = True
            # The user's stack begins at the typed line; the frames above it are the console's.
            stack = error.__traceback__
            while stack is not None and stack.tb_frame.f_code.co_filename != _CONSOLE_FILE:
                stack = stack.tb_next
            self.write("".join(traceback.format_exception(error.with_traceback(stack))))
        else:
            if exit_request is not None:
                raise exit_request

    def showsyntaxerror(self, *args: Any, **options: Any) -> None:
        """Show a line that is not Python."""
        self.failed = True
        super().showsyntaxerror(*args, **options)


class BackgroundLoop:
    """Runs an event loop in a background thread, and in this thread while a line runs.

    Python delivers Ctrl+C to the main thread only. A line that blocks, such as `time.sleep(60)`,
    can only be interrupted there, so the loop moves to the main thread for each line.

    Args:
        loop: The event loop; the caller closes it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stop_requested = False
        self._interrupted = False
        self._has_stopped = threading.Event()
        self._has_stopped.set()

    def __enter__(self) -> Self:
        self._move_to_background()
        return self

    def __exit__(self, *_: object) -> None:
        self._move_to_this_thread()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this thread and return its result.

        Raises:
            KeyboardInterrupt: Ctrl+C. Running code gets it where it is; a waiting coroutine is
                cancelled.
            BaseException: Whatever the coroutine raises.
        """
        try:
            self._move_to_this_thread()
        except KeyboardInterrupt:
            # It is never awaited, which Python would warn about.
            work.close()
            raise
        task = self._loop.create_task(work)
        try:
            with self._interrupting(task):
                return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            if self._interrupted:
                raise KeyboardInterrupt from None
            raise
        except KeyboardInterrupt:
            if not task.done():  # it was raised in another task
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    self._loop.run_until_complete(task)
            raise
        finally:
            self._move_to_background()

    @contextlib.contextmanager
    def _interrupting(self, task: asyncio.Task[Any]) -> Generator[None]:
        """Let Ctrl+C end this task, and not another one that the loop happens to run."""
        self._interrupted = False

        def interrupt(*_: object) -> None:
            repeated, self._interrupted = self._interrupted, True
            # A second Ctrl+C ends a task that blocks the loop, which could not cancel this one.
            if repeated or asyncio.current_task(self._loop) is task:
                raise KeyboardInterrupt
            self._loop.call_soon_threadsafe(task.cancel)

        previous = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _move_to_background(self) -> None:
        def run() -> None:
            try:
                self._loop.run_forever()
            finally:
                self._has_stopped.set()

        self._stop_requested = False
        self._has_stopped.clear()
        # A daemon: code that blocks the loop must not keep the command from exiting.
        threading.Thread(target=run, name="alula shell", daemon=True).start()

    def _move_to_this_thread(self) -> None:
        """Stop the loop in its thread; Ctrl+C gives up if something blocks it there."""
        # After such a Ctrl+C the first request still stands: a second one would stop the loop
        # as soon as it runs in this thread.
        if not self._stop_requested:
            self._stop_requested = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._has_stopped.wait()


def _input_is_terminal() -> bool:
    return sys.stdin.isatty()


def _import_ipython() -> Any:
    """Return IPython's module, None if it is not installed.

    A function of its own: inside an `except`, every error of a line would show this ImportError.
    """
    try:
        return import_module("IPython.terminal.embed")
    except ImportError:
        return None


def _banner(names: Mapping[str, object]) -> str:
    services = ", ".join(name for name in names if name != "app") or "none"
    return (
        f"Alula {version('alula')}, Python {sys.version.partition(' ')[0]}\n"
        f"app, and its services: {services}\n"
        "Write `await app.service(path).find()`; Ctrl+D exits."
    )
