"""What a command would write, worked out before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from alula._cli.generator.insertion import NoPlaceError
from alula._cli.terminal import UsageError

__all__ = ["Plan", "Todo"]

_PRIVATE: Final = 0o600


@dataclass(frozen=True)
class Todo:
    """What could not be added, and is left to the user.

    Attributes:
        path: The file that it belongs into.
        reason: Why it could not be added.
        where: The place in the file.
        code: What to add.
    """

    path: str
    reason: str
    where: str
    code: str


@dataclass
class Plan:
    """Files to be made and changed below a folder.

    Nothing is overwritten: a file that is there already, with other content, is an error before
    anything is written.

    Attributes:
        folder: The folder of the application.
        todos: What could not be added.
        notes: What to tell in the end.
    """

    folder: Path
    todos: list[Todo] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _texts: dict[str, str] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)
    _private: set[str] = field(default_factory=set)

    def create(self, path: str, text: str, *, private: bool = False) -> None:
        """Have a file made.

        Args:
            path: Where, below the folder.
            text: Its content.
            private: Whether nobody else on the machine may read it.
        """
        self._texts[path] = text
        self._made.add(path)
        if private:
            self._private.add(path)

    def change(
        self,
        path: str,
        edit: Callable[[str], str],
        *,
        where: str,
        code: str,
        optional: bool = False,
    ) -> None:
        """Have a file changed; what it has already, and the changes before, stay.

        Args:
            path: Where it is, below the folder.
            edit: Takes the content and returns what it becomes.
            where: The place of the change, in words, for users who have to make it themselves.
            code: What is to be there.
            optional: Whether it does not matter where there is no such file.
        """
        try:
            self._texts[path] = edit(self._read(path))
        except FileNotFoundError:
            if not optional:
                self.todos.append(Todo(path, "there is no such file", where, code))
        except UnicodeDecodeError:
            self.todos.append(Todo(path, "it is no text in UTF-8", where, code))
        except NoPlaceError as error:
            self.todos.append(Todo(path, str(error), where, code))

    def apply(self, *, force: bool, dry_run: bool) -> list[tuple[str, str]]:
        """Write, and return what was done to each file: ``create``, ``change`` and so on.

        Args:
            force: Whether files that are there may be replaced.
            dry_run: Only tell.

        Raises:
            UsageError: A file would be overwritten, or leads out of the folder.
        """
        done = [(self._deed(path, force), path) for path in self._texts]
        if not dry_run:
            for deed, path in done:
                if deed != "same":
                    self._write(path)
        return done

    def _deed(self, path: str, force: bool) -> str:
        target = self.folder / path
        if not target.resolve().is_relative_to(self.folder.resolve()):
            raise UsageError(f"{path} leads out of {self.folder}; nothing was written")
        if not target.exists():
            return "create"
        if self._on_disk(path) == self._texts[path]:
            return "same"
        if path not in self._made:
            return "change"
        if force:
            return "overwrite"
        raise UsageError(f"{path} is there already; nothing was written. --force overwrites it")

    def _write(self, path: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in self._private:
            target.touch(mode=_PRIVATE)
        with target.open("w", encoding="utf-8", newline="") as file:
            file.write(self._texts[path])

    def _read(self, path: str) -> str:
        return self._texts[path] if path in self._texts else self._on_disk(path)

    def _on_disk(self, path: str) -> str:
        with (self.folder / path).open(encoding="utf-8", newline="") as file:
            return file.read()
