"""Creates applications in tests, and reads their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from alula._cli import main
from alula._cli.generator.names import MAX_LENGTH

LONG = f"a{'b' * (MAX_LENGTH - 2)}s"
"""The longest name there is, of several."""


def alula(folder: Path, monkeypatch: Any, *arguments: str, code: int = 0) -> Result:
    """Run the command in a folder; it has to end with an exit code."""
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done


def files_of(folder: Path) -> dict[str, str]:
    """Return the content of every file, by its path."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {"__pycache__", ".data"} & set(path.parts)
    }
