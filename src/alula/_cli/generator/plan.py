"""Collects the files that a command creates and changes, and writes them all or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from alula._cli.generator.insertion import NoPlaceError
from alula._cli.terminal import EXIT_FAILURE, UsageError, print_error, print_result, style

__all__ = ["Plan", "Todo", "carry_out"]

_PRIVATE_MODE: Final = 0o600
_BYTE_ORDER_MARK: Final = "\ufeff"
_TEMPLATES: Final = Environment(
    # The output is source code, not HTML. Its values are names that `names` has checked.
    autoescape=False,  # noqa: S701  # as above
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    # A misspelled variable is an error instead of an empty string.
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATE_SUFFIX: Final = ".jinja"
_COLORS: Final = {
    "create": "green",
    "change": "yellow",
    "overwrite": "red",
    "same": "bright_black",
}


@dataclass(frozen=True)
class Todo:
    """A change that could not be made and is left to the user.

    Attributes:
        path: The file.
        reason: Why it was not changed.
        where: The place in the file, in words.
        code: The code to add.
    """

    path: str
    reason: str
    where: str
    code: str


@dataclass
class Plan:
    """Files to create and to change in the folder of an application.

    An existing file with other content is not overwritten: it is an error before anything is
    written.

    Attributes:
        folder: The folder of the application.
        todos: The changes that are left to the user.
    """

    folder: Path
    todos: list[Todo] = field(default_factory=list[Todo])
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _created: set[str] = field(default_factory=set[str])
    _private: set[str] = field(default_factory=set[str])

    def create(self, path: str, text: str, *, private: bool = False) -> None:
        """Add a file to create.

        Args:
            path: Its path in the folder.
            text: Its content.
            private: Whether only its owner may read it.
        """
        self._texts[path] = text
        self._created.add(path)
        if private:
            self._private.add(path)

    def create_from_templates(
        self, folder: str, values: Mapping[str, object], names: Mapping[str, str] | None = None
    ) -> None:
        """Add a file to create for each template of a folder; those that render empty are left out.

        Args:
            folder: A folder of templates, laid out as the application.
            values: The variables of the templates.
            names: Replacements for words in capitals in the paths of the templates.
        """
        prefix = f"{folder}/"
        for name in sorted(_TEMPLATES.list_templates(extensions=[_TEMPLATE_SUFFIX[1:]])):
            if not name.startswith(prefix):
                continue
            text = _TEMPLATES.get_template(name).render(values)
            path = name.removeprefix(prefix).removesuffix(_TEMPLATE_SUFFIX)
            for word, replacement in (names or {}).items():
                path = path.replace(word, replacement)
            if text.strip():
                self.create(path, text, private=path == ".env")  # it holds secrets

    def change(
        self,
        path: str,
        edit: Callable[[str], str],
        *,
        where: str,
        code: str,
        optional: bool = False,
    ) -> None:
        """Add a change of a file, on top of its content and of earlier changes.

        Args:
            path: Its path in the folder.
            edit: Takes the content and returns the new one.
            where: The place of the change in words, for a user who has to make it.
            code: The code to add there.
            optional: Whether a missing file is ignored.
        """
        try:
            text = self._texts[path] if path in self._texts else self._read(path)
            # An edit parses the code, and a byte order mark is not part of it.
            mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
            self._texts[path] = mark + edit(text.removeprefix(mark))
        except FileNotFoundError:
            if not optional:
                self.todos.append(Todo(path, "the file does not exist", where, code))
        except UnicodeDecodeError:
            self.todos.append(Todo(path, "it is not UTF-8 text", where, code))
        except NoPlaceError as error:
            self.todos.append(Todo(path, str(error), where, code))

    def apply(self, *, force: bool, dry_run: bool) -> list[tuple[str, str]]:
        """Write the files; return for each what was done and its path.

        What was done is ``create``, ``change``, ``overwrite`` or ``same``.

        Args:
            force: Whether existing files may be overwritten.
            dry_run: Whether to write nothing.

        Raises:
            UsageError: A file would be overwritten, or is outside the folder.
        """
        actions = [(self._action(path, force), path) for path in self._texts]
        for action, path in actions:
            if action == "same" or dry_run:
                continue
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if path in self._private:
                # Before the content: nobody else may read the file in between.
                target.touch(mode=_PRIVATE_MODE)
            with target.open("w", encoding="utf-8", newline="") as file:
                file.write(self._texts[path])
        return actions

    def _action(self, path: str, force: bool) -> str:
        target = self.folder / path
        # A symbolic link in the folder must not lead a write out of it.
        if not target.resolve().is_relative_to(self.folder.resolve()):
            raise UsageError(f"{path} is outside of {self.folder}; nothing was written")
        if not target.exists():
            return "create"
        if self._read(path) == self._texts[path]:
            return "same"
        if path not in self._created:
            return "change"
        if force:
            return "overwrite"
        raise UsageError(f"{path} exists already; nothing was written. --force overwrites it")

    def _read(self, path: str) -> str:
        # No translation: the line ends of the user's files stay as they are.
        with (self.folder / path).open(encoding="utf-8", newline="") as file:
            return file.read()


def carry_out(plan: Plan, *, force: bool, dry_run: bool) -> None:
    """Write the files of a plan, and print what was done and what is left to do.

    Raises:
        UsageError: A file would be overwritten.
        typer.Exit: With 1 if a change is left to the user.
    """
    width = max(map(len, _COLORS))
    for action, path in plan.apply(force=force, dry_run=dry_run):
        print_result(f"{style(f'{action:>{width}}', fg=_COLORS[action])}  {path}")
    if dry_run:
        print_result("Nothing was written: this was a dry run.")
    for todo in plan.todos:
        print_error(
            f"{todo.path} was not changed: {todo.reason}. Add {todo.where}:\n\n{todo.code}\n"
        )
    if plan.todos:
        raise typer.Exit(EXIT_FAILURE)
