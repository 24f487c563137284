"""The templates: files of this package, whose folders are those of an application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

__all__ = ["rendered"]

_FOLDER: Final = Path(__file__).parent / "templates"
_ENDING: Final = ".jinja"


def rendered(
    kind: str, values: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the content of each file of a kind; empty ones are left out.

    Args:
        kind: A folder of templates.
        values: What the templates ask for.
        names: What words in capitals in the paths stand for.
    """
    # Nothing is escaped: what is made is code, from names that were checked.
    environment = Environment(
        autoescape=False,  # noqa: S701  # as above
        loader=FileSystemLoader(_FOLDER / kind),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in sorted(environment.list_templates(extensions=[_ENDING[1:]])):
        text = environment.get_template(name).render(values)
        path = name.removesuffix(_ENDING)
        for word, instead in names.items():
            path = path.replace(word, instead)
        if text.strip():
            yield path, text
