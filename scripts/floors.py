"""Draws the floors of the architecture as docs/floors.svg: ``python -m scripts.floors``.

The rooms come from the table in ``tests/test_floors.py``, which checks the imports against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from tests.test_floors import FLOOR_OF, SRC

PICTURE = SRC.parent / "docs" / "floors.svg"

WIDTH = 620
MARGIN = 16
LEFT = 56  # of the rooms, to the right of the number of the floor
ROOM = 34  # the height of a room
GAP = 8
LETTER = 8.4  # the approximate width of a letter

STYLE = """
text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.ground { fill: #ffffff; }
.floor { fill: #f3f7fa; }
.module { fill: #ffffff; stroke: #9db8cb; }
.package { fill: #1f5f8b; }
.name { font-size: 14px; fill: #1d2730; text-anchor: middle; }
.package + .name { fill: #ffffff; font-weight: 600; }
.number { font-size: 18px; fill: #1f5f8b; font-weight: 600; text-anchor: middle; }
.note { font-size: 12px; fill: #4c5a66; }
"""
NOTE = "Every import points downwards. Filled: packages. Outlined: single modules."


def rooms_of(floors: Mapping[str, int], floor: int) -> list[str]:
    """Return the names of the rooms on a floor."""
    return [room for room, number in floors.items() if number == floor]


def rows_of(rooms: list[str]) -> list[list[tuple[str, int, int]]]:
    """Break the rooms of a floor into rows; return each room with its position and its width."""
    rows: list[list[tuple[str, int, int]]] = [[]]
    x = LEFT
    for room in rooms:
        width = round(len(label_of(room)) * LETTER) + 22
        if x + width > WIDTH - MARGIN and rows[-1]:
            rows.append([])
            x = LEFT
        rows[-1].append((room, x, width))
        x += width + GAP
    return rows


def label_of(room: str) -> str:
    """Return the text in the box of a room."""
    return "alula" if room == "__init__" else room


def is_package(room: str) -> bool:
    """Tell a package from a single module."""
    return any((SRC / "alula" / name).is_dir() for name in (room, f"_{room}"))


def floor_of(number: int, rooms: list[str], top: int) -> tuple[list[str], int]:
    """Return the SVG of a floor and the top of the next one."""
    rows = rows_of(rooms)
    height = len(rows) * (ROOM + GAP) + GAP
    lines = [
        f'<rect class="floor" x="{MARGIN // 2}" y="{top}" width="{WIDTH - MARGIN}"'
        f' height="{height}" rx="6"/>',
        f'<text class="number" x="{LEFT // 2 + 4}" y="{top + height // 2 + 6}">{number}</text>',
    ]
    for row, places in enumerate(rows):
        y = top + GAP + row * (ROOM + GAP)
        lines.extend(line for place in places for line in box(*place, y))
    return lines, top + height + GAP


def box(room: str, x: int, width: int, y: int) -> Iterator[str]:
    """Yield the SVG of a room."""
    kind = "package" if is_package(room) else "module"
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{ROOM}" rx="4"/>'
    middle = x + width // 2
    yield f'<text class="name" x="{middle}" y="{y + ROOM // 2 + 5}">{escape(label_of(room))}</text>'


def picture() -> str:
    """Return the SVG of all floors, the highest at the top."""
    lines: list[str] = []
    top = GAP
    for number in sorted(set(FLOOR_OF.values()), reverse=True):
        drawn, top = floor_of(number, rooms_of(FLOOR_OF, number), top)
        lines.extend(drawn)
    lines.append(f'<text class="note" x="{MARGIN}" y="{top + 14}">{escape(NOTE)}</text>')
    height = top + 28
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" role="img" aria-label="The floors of Alula">'
    )
    ground = f'<rect class="ground" width="{WIDTH}" height="{height}"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
