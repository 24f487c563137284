"""The picture and the table of the floors show the house as it is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from scripts import floors
from tests.test_floors import FLOOR_OF, SRC

PAGE = SRC.parent / "docs" / "architecture.md"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> ET.Element:
    return ET.fromstring(floors.picture())


def test_the_picture_is_that_of_the_floors():
    hint = "draw docs/floors.svg anew: python -m scripts.floors"
    assert floors.PICTURE.read_text(encoding="utf-8") == floors.picture(), hint


def test_every_room_is_in_the_picture_once(drawn):
    names = [element.text for element in drawn.iter(f"{SVG}text") if element.get("class") == "name"]
    assert sorted(names) == sorted(map(floors.label_of, FLOOR_OF))


def test_higher_floors_stand_higher(drawn):
    numbers = [element for element in drawn.iter(f"{SVG}text") if element.get("class") == "number"]
    places = {int(element.text): int(element.get("y")) for element in numbers}
    assert sorted(places, key=places.get) == sorted(set(FLOOR_OF.values()), reverse=True)


def test_nothing_is_beside_the_picture(drawn):
    boxes = [element for element in drawn.iter(f"{SVG}rect") if element.get("x")]
    assert all(int(box.get("x")) + int(box.get("width")) <= floors.WIDTH for box in boxes)
    assert len(boxes) == len(FLOOR_OF) + len(set(FLOOR_OF.values()))


def test_many_rooms_take_several_rows():
    rows = floors.rows_of([f"room_number_{number}" for number in range(7)])
    assert [len(row) for row in rows] == [4, 3]


def test_the_table_has_every_room_on_its_floor():
    rows = re.findall(r"^\| (\d) \| (`.*?`) \|", PAGE.read_text(), re.MULTILINE)
    listed = {room: int(floor) for floor, rooms in rows for room in re.findall(r"`(\w+)`", rooms)}
    assert listed == {room: floor for room, floor in FLOOR_OF.items() if room != "__init__"}


def test_the_page_shows_the_picture():
    assert f"]({Path(floors.PICTURE).name})" in PAGE.read_text()
