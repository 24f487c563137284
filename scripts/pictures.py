"""Draws the pictures of the guides: ``python -m scripts.pictures``.

Every picture is narrow, so that its words can be read on a phone, and has colours of its own for
light and for dark screens. ``tests/docs/test_pictures.py`` checks that the files are current and
that every word fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"

WIDTH = 480
LINE = 19  # from one line of words to the next
TITLE_LETTER = 8.6  # the approximate widths of letters
LETTER = 7.3

STYLE = """
text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.ground { fill: #ffffff; }
.box { fill: #eef4f8; stroke: #9db8cb; }
.main { fill: #1f5f8b; }
.frame { fill: none; stroke: #9db8cb; stroke-dasharray: 5 4; }
.title { font-size: 15px; font-weight: 600; fill: #1d2730; text-anchor: middle; }
.words { font-size: 14px; fill: #4c5a66; text-anchor: middle; }
.on-main { fill: #ffffff; }
.start { text-anchor: start; }
.way { stroke: #5f8199; stroke-width: 2; fill: none; marker-end: url(#tip); }
.tip { fill: #5f8199; }
.lane { stroke: #9db8cb; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
.ground { fill: #17202a; }
.box { fill: #223140; stroke: #4d6b81; }
.main { fill: #2f7db3; }
.frame, .lane { stroke: #4d6b81; }
.title { fill: #eef4f8; }
.words { fill: #b9c8d3; }
.on-main { fill: #ffffff; }
.way { stroke: #8fb3cb; }
.tip { fill: #8fb3cb; }
}
"""
TIP = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6"'
    ' orient="auto-start-reverse"><path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>'
)


@dataclass(frozen=True)
class Words:
    """Words beside what they explain; they begin at ``x`` if ``start`` is set."""

    x: int
    y: int
    text: str
    kind: str = "words"
    start: bool = False

    def svg(self) -> Iterator[str]:
        """Yield the SVG of the words."""
        kind = f"{self.kind} start" if self.start else self.kind
        yield f'<text class="{kind}" x="{self.x}" y="{self.y}">{escape(self.text)}</text>'


@dataclass(frozen=True)
class Box:
    """A thing with a name: a box, a main box in the colour of the project, or a dashed frame."""

    x: int
    y: int
    width: int
    title: str
    words: tuple[str, ...] = ()
    kind: str = "box"
    height: int = 0  # of a frame; other boxes are as high as their words

    def svg(self) -> Iterator[str]:
        """Yield the SVG of the box and its words."""
        height = self.height or 34 + LINE * len(self.words)
        yield (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}"'
            f' height="{height}" rx="6"/>'
        )
        middle = self.x + self.width // 2
        also = " on-main" if self.kind == "main" else ""
        yield from Words(middle, self.y + 22, self.title, f"title{also}").svg()
        for number, text in enumerate(self.words, 1):
            yield from Words(middle, self.y + 22 + number * LINE, text, f"words{also}").svg()


@dataclass(frozen=True)
class Way:
    """An arrow through points; with ``both``, it has a tip at each end."""

    points: tuple[tuple[int, int], ...]
    both: bool = False

    def svg(self) -> Iterator[str]:
        """Yield the SVG of the arrow."""
        path = " L".join(f"{x} {y}" for x, y in self.points)
        also = ' marker-start="url(#tip)"' if self.both else ""
        yield f'<path class="way" d="M{path}"{also}/>'


@dataclass(frozen=True)
class Lane:
    """A vertical line below somebody who takes part."""

    x: int
    top: int
    bottom: int

    def svg(self) -> Iterator[str]:
        """Yield the SVG of the line."""
        ends = f'x1="{self.x}" y1="{self.top}" x2="{self.x}" y2="{self.bottom}"'
        yield f'<line class="lane" {ends}/>'


@dataclass(frozen=True)
class Picture:
    """A picture of a guide.

    Attributes:
        name: Of its file.
        page: The guide that shows it.
        title: What it shows, for people who do not see it.
        height: In pixels.
        shapes: What is drawn, from back to front.
    """

    name: str
    page: str
    title: str
    height: int
    shapes: tuple[Box | Way | Words | Lane, ...] = field(repr=False)

    @property
    def file(self) -> Path:
        """The file of the picture."""
        return DOCS / "images" / f"{self.name}.svg"

    def svg(self) -> str:
        """Return the SVG of the picture."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}"'
            f' width="{WIDTH}" height="{self.height}" role="img" aria-label="{escape(self.title)}">'
        )
        ground = f'<rect class="ground" width="{WIDTH}" height="{self.height}"/>'
        lines = [line for shape in self.shapes for line in shape.svg()]
        return "\n".join([head, f"<style>{STYLE}</style>", TIP, ground, *lines, "</svg>", ""])


def down(x: int, top: int, bottom: int) -> Way:
    """Return an arrow straight down."""
    return Way(((x, top), (x, bottom)))


CALL = Picture(
    "call",
    "hooks.md",
    "A call passes middleware and hooks, and ends with a response and an event",
    590,
    (
        Box(100, 16, 280, "A client calls", ("REST, or a socket",)),
        down(240, 69, 92),
        Box(40, 94, 400, "Middleware", ("for HTTP: bodies, cookies, headers",)),
        down(240, 147, 170),
        Box(16, 172, 448, "around hooks: sign-in, transactions", kind="frame", height=296),
        Box(60, 208, 360, "before hooks", ("check and complete the data",)),
        down(240, 261, 284),
        Box(
            60,
            286,
            360,
            "The method of the service",
            ("an adapter checks the query", "and asks the database"),
            "main",
        ),
        down(240, 358, 381),
        Box(60, 383, 360, "after hooks", ("change the result",)),
        Words(240, 456, "error hooks run if one of these raises an error"),
        down(130, 468, 510),
        down(350, 468, 510),
        Box(16, 512, 220, "Response", ("to the caller, no secrets",), "main"),
        Box(252, 512, 212, "Event", ("to the publisher",), "main"),
    ),
)
EVENT = Picture(
    "event",
    "realtime.md",
    "An event goes through the publisher and channels to connections",
    486,
    (
        Box(90, 16, 300, "A call has ended", ("create, update, patch or remove",)),
        down(240, 69, 92),
        Box(
            40,
            94,
            400,
            "The publisher of the event",
            ("returns channels, or None for nobody;", "without a publisher, nobody gets it"),
            "main",
        ),
        Way(((150, 166), (150, 200))),
        Way(((330, 166), (330, 200))),
        Box(40, 202, 190, "Channel", ("rooms/a",)),
        Box(250, 202, 190, "Channel", ("admins",)),
        Way(((100, 255), (80, 306))),
        Way(((180, 255), (222, 306))),
        Way(((300, 255), (258, 306))),
        Way(((380, 255), (400, 306))),
        Box(16, 308, 140, "Ann", ("socket.io",)),
        Box(170, 308, 140, "Bob", ("socket.io",)),
        Box(324, 308, 140, "Eve", ("event stream",)),
        Words(240, 388, "Bob is in both channels, and gets the event once."),
        Box(
            40,
            406,
            400,
            "Other workers and machines",
            ("get it from the bus, and do the same", "for their own connections"),
            "frame",
            72,
        ),
    ),
)
SESSIONS = Picture(
    "session",
    "sessions.md",
    "A session begins with a sign-in, goes on by refresh tokens, and can be ended",
    516,
    (
        Lane(90, 50, 446),
        Lane(390, 50, 446),
        Box(16, 16, 148, "Client", kind="main"),
        Box(316, 16, 148, "Server", kind="main"),
        Words(240, 84, "name and password"),
        Way(((92, 94), (388, 94))),
        Words(240, 120, "access token, refresh token 1"),
        Way(((388, 130), (92, 130))),
        Words(240, 170, "a call with the access token"),
        Way(((92, 180), (388, 180))),
        Words(240, 206, "result"),
        Way(((388, 216), (92, 216))),
        Words(240, 256, "the access token has expired: 401"),
        Way(((388, 266), (92, 266))),
        Words(240, 292, "refresh token 1"),
        Way(((92, 302), (388, 302))),
        Words(240, 328, "new access token, refresh token 2"),
        Way(((388, 338), (92, 338))),
        Words(240, 378, "somebody sends token 1 again"),
        Way(((92, 388), (388, 388))),
        Words(240, 414, "401: the session has ended"),
        Way(((388, 424), (92, 424))),
        Box(
            190,
            446,
            274,
            "The session service",
            ("has one record for each session",),
        ),
    ),
)
MACHINES = Picture(
    "machines",
    "scaling.md",
    "Workers share a hub on a machine; machines share a bus and the database",
    422,
    (
        Box(110, 16, 260, "Proxy", ("a client stays at its machine",)),
        Way(((170, 69), (118, 100))),
        Way(((310, 69), (362, 100))),
        Box(16, 102, 216, "Machine A", kind="frame", height=176),
        Box(248, 102, 216, "Machine B", kind="frame", height=176),
        Box(28, 140, 92, "Worker", kind="main"),
        Box(128, 140, 92, "Worker", kind="main"),
        Box(260, 140, 92, "Worker", kind="main"),
        Box(360, 140, 92, "Worker", kind="main"),
        Words(124, 204, "On one machine,"),
        Words(124, 223, "alula serve connects"),
        Words(124, 242, "the workers by a hub."),
        Words(356, 204, "With several,"),
        Words(356, 223, "each worker connects"),
        Words(356, 242, "to the bus."),
        Way(((124, 278), (124, 318)), both=True),
        Way(((356, 278), (356, 318)), both=True),
        Box(16, 320, 216, "Bus: events", ("Redis, PostgreSQL", "or MongoDB")),
        Box(248, 320, 216, "Database: records", ("of all workers,", "also of their sessions")),
        Way(((200, 278), (286, 318)), both=True),
        Way(((280, 278), (194, 318)), both=True),
    ),
)
FILES = Picture(
    "files",
    "files.md",
    "The bytes of an upload go to a store, and its record to the database",
    470,
    (
        Box(90, 16, 300, "A form with a file", ("POST /uploads",)),
        down(240, 69, 92),
        Box(
            40,
            94,
            400,
            "Hooks",
            ("Who may upload? They run before", "the first byte of the body is read."),
        ),
        down(240, 166, 189),
        Box(
            40,
            191,
            400,
            "UploadService",
            ("checks size and type", "while the bytes arrive"),
            "main",
        ),
        down(130, 263, 298),
        down(350, 263, 298),
        Words(104, 287, "first"),
        Words(374, 287, "then"),
        Box(16, 300, 216, "Store: bytes", ("a folder or a bucket",)),
        Box(248, 300, 216, "Adapter: record", ("name, type, size, key",)),
        Way(((130, 353), (180, 398))),
        Way(((350, 353), (300, 398))),
        Box(40, 400, 400, "GET /uploads/1/content", ("hooks of get, or a signed URL",), "main"),
    ),
)
PICTURES = (CALL, EVENT, SESSIONS, MACHINES, FILES)


if __name__ == "__main__":
    for picture in PICTURES:
        picture.file.write_text(picture.svg(), encoding="utf-8")
