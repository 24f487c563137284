"""`alula shell` runs lines in the event loop of the application."""

from __future__ import annotations

import builtins
import contextlib
import os
import signal
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest
from tests.cli.applications import folder_with

import alula._cli.commands.shell as shell_module
from alula._cli.commands.shell import names_of

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path):
    with folder_with(tmp_path) as run:
        yield lambda *lines, **more: run("shell", input="\n".join((*lines, "")), **more)


class TestLines:
    def test_the_application_is_there_and_set_up(self, run):
        result = run("print(app.service('notes') is notes)")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == ["set up", "True", "torn down"]

    def test_await_works(self, run):
        result = run("note = await notes.get(3)", "print(note)", "(await notes.find())['total']")
        assert result.stdout.splitlines()[1:-1] == ["{'id': 3, 'n': 3}", "7"]

    def test_a_function_of_several_lines(self, run):
        result = run("async def double(n):", "    return 2 * n", "", "await double(4)")
        assert result.stdout.splitlines()[1:-1] == ["8"]

    def test_background_tasks_run_between_lines(self, run):
        result = run(
            "import asyncio, time",
            "event = asyncio.Event()",
            "task = asyncio.create_task(event.wait())",
            "event.set()",
            "await task",
        )
        assert result.stdout.splitlines()[1:-1] == ["True"]

    def test_without_a_terminal_only_results_are_printed(self, run):
        result = run("1 + 1")
        assert result.stdout == "set up\n2\ntorn down\n"
        assert result.stderr.strip() == ""

    @pytest.mark.parametrize("line", ["1 / 0", "await notes.get(99)", "1 +"])
    def test_a_line_that_fails_is_printed_and_sets_the_exit_code(self, run, line):
        result = run("def f(): pass", "", line, "print('went on')")
        assert result.exit_code == 1
        assert 'File "<console>", line 1' in result.stderr
        assert "alula/_cli" not in result.stderr
        assert "went on" in result.stdout
        assert "torn down" in result.stdout

    @pytest.mark.parametrize(("line", "code"), [("exit()", 0), ("raise SystemExit(3)", 3)])
    def test_a_line_can_exit(self, run, line, code):
        result = run(line, "print('not this')")
        assert result.exit_code == code
        assert "not this" not in result.stdout
        assert "torn down" in result.stdout

    def test_a_set_up_that_fails(self, run, tmp_path):
        with (tmp_path / "app.py").open("a") as file:
            file.write("\nasync def fail(context, next): 1 / 0\napp.hooks(setup=[fail])\n")
        result = run("print('not this')")
        assert result.exit_code == 1
        assert "ZeroDivisionError" in result.stderr
        assert "not this" not in result.output

    @pytest.mark.parametrize(
        "waiting",
        [
            "tell_the_test(); await asyncio.sleep(600)",
            "tell_the_test(); time.sleep(600)",
            # Not in the loop itself: the interrupt could come while it holds the event's lock.
            "tell_the_test(); exec('while True: pass')",
            # Another task holds the loop: the first Ctrl+C asks, the second one ends it.
            "asyncio.get_running_loop().call_soon(hold); await asyncio.sleep(600)",
        ],
    )
    def test_ctrl_c_ends_a_line_and_no_more(self, run, waiting):
        times = 2 if "call_soon" in waiting else 1
        hold = "hold = lambda: (tell_the_test(), time.sleep(600))"
        with interrupted(times):
            result = run("import asyncio, time", hold, waiting, "", "print('on')")
        assert result.exit_code == 0, result.output
        assert result.stderr.split() == ["KeyboardInterrupt"]
        assert "on" in result.stdout.splitlines()
        assert "torn down" in result.stdout

    def test_a_line_that_raises_cancelled_error_fails(self, run):
        result = run("import asyncio", "raise asyncio.CancelledError")
        assert result.exit_code == 1
        assert "CancelledError" in result.stderr


@contextlib.contextmanager
def interrupted(times=1):
    """Press Ctrl+C so often, a moment after a line has called `tell_the_test`.

    Yields the event of that call.
    """

    def interrupt():
        assert seen.wait(60)
        for number in range(times):
            # Two signals are one where the process stands still in between.
            time.sleep(2 if number else 0.3)
            os.kill(os.getpid(), signal.SIGINT)

    seen = threading.Event()
    builtins.tell_the_test = seen.set
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield seen
    finally:
        seen.set()
        del builtins.tell_the_test
        thread.join()


class Terminal:
    """Lines as somebody types them."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.prompts = []
        self.seconds = 0
        self.events = {}

    def __call__(self, prompt=""):
        time.sleep(self.seconds)
        if self.lines and self.lines[0] in self.events:
            assert self.events[self.lines[0]].wait(60)
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    monkeypatch.setattr(shell_module, "_input_is_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython.terminal.embed", None)

    def typed(*lines):
        typed = Terminal(*lines)
        monkeypatch.setattr(builtins, "input", typed)
        return typed

    return typed


class TestATerminal:
    def test_it_greets_and_asks(self, run, terminal):
        typed = terminal("await notes.get(2)")
        result = run()
        assert "app, and its services: notes, teams_team_counter, hidden, closed" in result.stderr
        assert typed.prompts == [">>> ", ">>> "]
        assert "{'id': 2, 'n': 2}" in result.stdout

    def test_a_line_that_fails_does_not_set_the_exit_code(self, run, terminal):
        terminal("1 / 0")
        result = run()
        assert "ZeroDivisionError" in result.stderr
        assert "IPython" not in result.stderr
        assert "During handling" not in result.stderr
        assert result.exit_code == 0

    def test_background_tasks_run_while_the_next_line_is_typed(self, run, terminal):
        typed = terminal(
            "import asyncio, time",
            "begun = asyncio.create_task(asyncio.sleep(0.05))",
            "print('done before the line:', begun.done())",
        )
        typed.seconds = 0.3
        assert "done before the line: True" in run().stdout

    def test_ctrl_c_where_something_in_the_background_holds_the_loop(self, run, terminal):
        typed = terminal(
            "import asyncio, time",
            "hold = lambda: (tell_the_test(), time.sleep(5))",
            "handle = asyncio.get_running_loop().call_later(0.01, hold)",
            "print('not this')",
            "print('on')",
        )
        with interrupted() as held:
            typed.events["print('not this')"] = held
            result = run()
        assert result.stderr.count("KeyboardInterrupt") == 1
        assert "not this" not in result.stdout
        assert "on" in result.stdout.splitlines()

    def test_names_are_completed(self, run, terminal):
        terminal("import readline", "print(readline.get_completer()('teams_', 0))")
        assert "teams_team_counter" in run().stdout.split("\n")[1]

    def test_without_readline(self, run, terminal, monkeypatch):
        monkeypatch.setitem(sys.modules, "readline", None)
        terminal("print('works')")
        assert "works" in run().stdout

    def test_ipython_is_used_where_it_is_installed(self, run, terminal, monkeypatch):
        shown = []

        class Shell(SimpleNamespace):
            def __call__(self):
                async def ask():
                    return await self.user_ns["notes"].get(1)

                shown.append((self.loop_runner(ask()), self.banner1, type(self).__name__))

        module = ModuleType("IPython.terminal.embed")
        module.InteractiveShellEmbed = Shell
        monkeypatch.setitem(sys.modules, "IPython.terminal.embed", module)
        result = run()
        assert result.exit_code == 0, result.output
        assert shown[0][0] == {"id": 1, "n": 1}
        assert "app, and its services: notes" in shown[0][1]
        assert "torn down" in result.stdout


def test_names():
    handles = {"a": 1, "teams/:team/x-y": 2, "app": 3, "2fa": 4, "class": 5}
    app = SimpleNamespace(services=handles, service=handles.get)
    names = names_of(app)
    assert (names["a"], names["teams_team_x_y"], names["_2fa"], names["class_"]) == (1, 2, 4, 5)
    assert names["app"] is app
