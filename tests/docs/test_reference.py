"""Every name of the interface is found in the built reference, and on the page for newcomers.

``interface.txt`` lists them.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from alula.errors import FrameworkError

ROOT = Path(__file__).parents[2]
NEWCOMERS = ROOT / "docs" / "from-feathersjs.md"


class Name(NamedTuple):
    """A name of the interface, and where it is documented."""

    feathers: str
    reference: str
    word: str


def names_in(text: str) -> list[Name]:
    """Return the names of a list."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Name(*(part.strip() for part in line.split("|"))) for line in lines]


NAMES = names_in(Path(__file__).with_name("interface.txt").read_text())


def inventory_of(site: Path) -> set[str]:
    """Return every name that the reference of a built site explains."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(packed).decode().splitlines()
    return {line.split(" ", 1)[0] for line in lines}


def object_of(name: str) -> Any:
    """Return what a full name means."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise LookupError(name)


def description_of(name: str) -> str:
    """Return what the reference says of a name: its signature and its docstring."""
    value = object_of(name)
    signature = str(inspect.signature(value)) if callable(value) else ""
    return f"{name} {signature} {inspect.getdoc(value)}"


def has_word(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(word)}(?!\w)", text) is not None


@pytest.fixture(scope="module")
def inventory(site) -> set[str]:
    return inventory_of(site)


def test_the_list_is_whole():
    assert len(NAMES) > 200
    assert len({name.feathers for name in NAMES}) == len(NAMES)


def test_every_name_of_the_interface_is_in_the_reference(inventory):
    assert [name for name in NAMES if name.reference not in inventory] == []


def test_the_reference_says_what_it_is_called():
    missing = [
        name
        for name in NAMES
        if name.word and not has_word(name.word, description_of(name.reference))
    ]
    assert missing == []


def test_the_page_for_newcomers_has_every_name():
    code = set(re.findall(r"`([^`\n]+)`", NEWCOMERS.read_text()))
    assert [name.feathers for name in NAMES if name.feathers not in code] == []


def test_the_page_for_newcomers_says_what_each_is_called_here():
    text = NEWCOMERS.read_text()
    here = {name.word or name.reference.rpartition(".")[2] for name in NAMES}
    assert sorted(word for word in here if not has_word(word, text)) == []


def test_a_word_does_not_match_within_another():
    assert has_word("$in", "`$in`, `$nin`")
    assert not has_word("in", "`$in` or inner")


# Where users import from, beside the packages of the first floor.
PUBLIC_MODULES = [
    "alula",
    "alula.configuration",
    "alula.errors",
    "alula.types",
    "alula.adapters.base",
    "alula.adapters.memory",
    "alula.adapters.mongodb",
    "alula.local_mongodb",
    "alula.outgoing",
    "alula.watchdog",
]
PUBLIC_PACKAGES = [
    f"alula.{path.parent.name}"
    for path in sorted((ROOT / "src" / "alula").glob("*/__init__.py"))
    if path.parent.name != "adapters" and not path.parent.name.startswith("_")  # one is empty
]


@pytest.mark.parametrize("module", [*PUBLIC_MODULES, *PUBLIC_PACKAGES])
def test_everything_that_a_room_offers_is_in_the_reference(module, inventory):
    offered = importlib.import_module(module).__all__
    places = {name: {f"{module}.{name}", f"alula.{name}"} for name in offered}
    assert [name for name in offered if not places[name] & inventory] == []


def test_the_overview_links_to_every_name_of_the_reference():
    docs = ROOT / "docs"
    linked = set(re.findall(r"\]\[([\w.]+)\]", (docs / "reference.md").read_text()))
    explained = {
        name
        for page in docs.glob("reference-*.md")
        for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
    }
    assert linked == {name for name in explained if not is_module(name)}


def is_module(name: str) -> bool:
    """Tell whether a name is that of a module, whatever was imported before."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what is left of the last dot is no package
        return False


def test_the_table_of_errors_is_right():
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| `([\w-]+)` \|",
        (ROOT / "docs" / "errors.md").read_text(),
        re.MULTILINE,
    )
    classes = FrameworkError.__subclasses__()
    ours = [
        error_class
        for error_class in classes
        if error_class.__module__ == FrameworkError.__module__
    ]
    documented = {(name, int(code), class_name) for name, code, class_name in rows}
    assert documented == {
        (error_class.__name__, error_class.code, error_class.class_name) for error_class in ours
    }


# Names of loggers and in traces.
NOT_IMPORTED = {
    "alula.access",
    "alula.events",
    "alula.health",
    "alula.mongodb",
    "alula.serve",
    "alula.provider",
    "alula.service.active_calls",
    "alula.service.stream_errors",
    "alula.live",
    "alula.live.lists",
    "alula.live.groups",
    "alula.live.reads",
    "alula.live.dismissed",
    "alula.realtime.connections",
    "alula.realtime.queued_messages",
    "alula.realtime.channels",
    "alula.realtime.events",
    "alula.realtime.messages",
}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_every_name_of_a_page_can_be_imported(page):
    names = set(re.findall(r"`(alula(?:\.\w+)+)`", page.read_text(encoding="utf-8")))
    wrong = [name for name in names - NOT_IMPORTED if "._" in name or not is_there(name)]
    assert sorted(wrong) == []


def is_there(name: str) -> bool:
    try:
        object_of(name)
    except (LookupError, AttributeError):
        return False
    return True
