"""Errors and results on the terminal: the right stream, the right exit code, the user's frames."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import typer
from tests.cli.applications import folder_with

from alula._cli import main
from alula._cli.terminal import (
    UsageError,
    format_error,
    print_error,
    print_result,
    reporting_errors,
    style,
    supports_color,
)
from alula.errors import BadRequest, Unavailable


def module(folder, name, code):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    names = {}
    exec(compile(code, str(path), "exec"), names)
    return names


def failure_of(function):
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("it went well")


class TestTracebacks:
    def test_foreign_frames_are_left_out(self, tmp_path):
        foreign = module(tmp_path, "site-packages/lib.py", "def fail():\n    1 / 0\n")
        own = module(tmp_path, "app.py", "def start():\n    fail()\n")
        own["fail"] = foreign["fail"]
        text = format_error(failure_of(own["start"]), tmp_path)
        lines = text.splitlines()
        # Python 3.13 marks the call below it.
        assert [line for line in lines if line.strip(" ~^")] == [
            "Traceback (most recent call last):",
            f'  File "{tmp_path / "app.py"}", line 2, in start',
            "    fail()",
            "ZeroDivisionError: division by zero",
        ]

    def test_a_database_that_cannot_be_reached_is_one_line(self):
        error = Unavailable("The database cannot be reached")
        assert format_error(error).startswith("alula.errors.Unavailable")
        error.add_note("PostgreSQL at db:5432: Connection refused")
        error.add_note("the URL comes from CHAT_DATABASE_URL")
        assert format_error(error) == (
            "The database cannot be reached: PostgreSQL at db:5432: Connection refused;"
            " the URL comes from CHAT_DATABASE_URL"
        )

    def test_without_own_frames_all_are_shown(self, tmp_path):
        foreign = module(tmp_path, "site-packages/lib.py", "def fail():\n    1 / 0\n")
        assert "lib.py" in format_error(failure_of(foreign["fail"]), tmp_path)

    def test_a_syntax_error_has_no_frames_at_all(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        error = failure_of(lambda: module(tmp_path, "app.py", "def x(:"))
        text = format_error(error)
        assert "def x(:" in text
        assert "exec(" not in text

    def test_a_syntax_error_elsewhere(self, tmp_path):
        error = failure_of(lambda: compile("def x(:", "/elsewhere/lib.py", "exec"))
        assert "compile(" in format_error(error, tmp_path)

    @pytest.mark.parametrize("line", ["raise KeyError('b') from error", "raise KeyError('b')"])
    def test_causes_are_reduced_the_same_way(self, tmp_path, line):
        foreign = module(tmp_path, "site-packages/lib.py", "def fail():\n    1 / 0\n")
        begin = "def start():\n    try:\n        fail()\n    except Exception as error:\n"
        code = f"{begin}        {line}"
        own = module(tmp_path, "app.py", code)
        own["fail"] = foreign["fail"]
        text = format_error(failure_of(own["start"]), tmp_path)
        assert text.count("Traceback") == 2
        assert "lib.py" not in text

    def test_exception_groups_are_reduced_the_same_way(self, tmp_path):
        foreign = module(tmp_path, "site-packages/lib.py", "def fail():\n    1 / 0\n")
        code = (
            "def start():\n    try:\n        fail()\n    except Exception as error:\n"
            "        found = error\n    raise ExceptionGroup('two', [found])"
        )
        own = module(tmp_path, "app.py", code)
        own["fail"] = foreign["fail"]
        text = format_error(failure_of(own["start"]), tmp_path)
        assert "ZeroDivisionError" in text
        assert "lib.py" not in text


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (UsageError("there is none"), 2, "alula: there is none\n"),
            (BadRequest("no"), 1, "alula: BadRequest (400): no\n"),
            (
                ImportError("alula.x needs y; install it with: pip install 'alula[x]'"),
                1,
                "alula: alula.x needs y; install it with: pip install 'alula[x]'\n",
            ),
            (ImportError("no module"), 1, "ImportError: no module\n"),
            (BadRequest("no", {"at": Path("x")}, errors=[1]), 1, '"at": "x"'),
            (BadRequest("no", {"reason": "since"}), 1, '"reason": "since"'),
        ],
    )
    def test_errors_and_their_exit_codes(self, capsys, error, code, said):
        with pytest.raises(typer.Exit) as raised, reporting_errors():
            raise error
        assert raised.value.exit_code == code
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.out == ""

    def test_a_reason_that_the_message_contains_is_not_repeated(self, capsys):
        with pytest.raises(typer.Exit), reporting_errors():
            raise Unavailable("GET / failed: refused", {"reason": "refused"})
        assert capsys.readouterr().err == "alula: Unavailable (503): GET / failed: refused\n"

    def test_other_errors_show_where(self, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        own = module(tmp_path, "app.py", "def start():\n    1 / 0\n")
        with pytest.raises(typer.Exit) as raised, reporting_errors():
            own["start"]()
        assert raised.value.exit_code == 1
        assert 'app.py", line 2, in start' in capsys.readouterr().err

    def test_an_exit_stays_what_it_is(self):
        with pytest.raises(typer.Exit) as raised, reporting_errors():
            raise typer.Exit(7)
        assert raised.value.exit_code == 7


class TestResults:
    def test_a_full_disk_is_reported_in_one_line(self, capsys):
        with Path("/dev/full").open("w") as full, redirect_stdout(full):
            with pytest.raises(typer.Exit) as raised, reporting_errors():
                print_result("text")
            full.flush()  # what is left does not fail once more
        assert raised.value.exit_code == 1
        assert capsys.readouterr().err == (
            "alula: cannot write the output: No space left on device\n"
        )

    def test_a_closed_pipe_is_not_reported(self, capsys):
        reading, writing = os.pipe()
        os.close(reading)
        gone = os.fdopen(writing, "w")
        with gone, redirect_stdout(gone), pytest.raises(typer.Exit) as raised, reporting_errors():
            print_result("text")
        assert raised.value.exit_code == 1
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize(
        "command",
        ["routes", "openapi", "client", "call notes find", "new shop", "--version", "dev -p 0"],
    )
    def test_commands_report_a_full_disk(self, capsys, tmp_path, command):
        with (
            folder_with(tmp_path),
            Path("/dev/full").open("w") as full,
            redirect_stdout(full),
            pytest.raises(SystemExit) as end,
        ):
            main(command.split())
        assert end.value.code == 1
        assert "Traceback" not in (said := capsys.readouterr().err)
        assert "cannot write the output" in said

    @pytest.mark.parametrize("command", ["routes", "new shop"])
    def test_commands_work_where_there_is_no_output_at_all(self, tmp_path, command):
        with folder_with(tmp_path), pytest.raises(SystemExit) as end, redirect_stdout(None):
            main(command.split())
        assert end.value.code == 0


class Stream:
    def __init__(self, is_terminal):
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


class TestColors:
    @pytest.fixture(autouse=True)
    def _no_wishes(self, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")

    def test_are_for_terminals(self):
        assert supports_color(Stream(True))
        assert not supports_color(Stream(False))
        assert style("text", Stream(True), fg="red") == "\x1b[31mtext\x1b[0m"
        assert style("text", Stream(False), fg="red") == "text"

    @pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
    def test_can_be_turned_off(self, monkeypatch, name, value):
        monkeypatch.setenv(name, value)
        assert style("text", Stream(True), fg="red") == "text"

    def test_an_empty_variable_does_not_turn_them_off(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "")
        assert supports_color(Stream(True))

    def test_the_output_is_where_they_go(self, monkeypatch):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
        assert style("text", fg="red") == "text"

    def test_errors_go_to_the_standard_error(self, capsys):
        print_error("no")
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", "alula: no\n")
