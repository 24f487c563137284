"""Draws the walks through the code for docs/architecture.md: ``python -m scripts.walks``.

A walk is what happens in order: which function of which file runs, and what it does there.
``tests/docs/test_walks_picture.py`` makes the request, the event and the sign-in, records which
functions run, and fails if a step is missing or comes at another place.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"

WIDTH = 760
MARGIN = 16
ROW = 46
BOX = 34  # the height of a box
INDENT = 24  # for each room that a walk has entered before
LETTER = 8.3  # the approximate width of a letter in a box

STYLE = """
text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.ground { fill: #ffffff; }
.box { fill: #1f5f8b; }
.file { font-size: 13px; fill: #ffffff; font-weight: 600; }
.words { font-size: 13px; fill: #1d2730; }
.title { font-size: 15px; fill: #1d2730; font-weight: 600; }
.way { stroke: #9db8cb; stroke-width: 2; fill: none; }
"""


@dataclass(frozen=True)
class Step:
    """One place that a walk passes.

    Attributes:
        file: Its path below ``src/alula``.
        function: The qualified name of the function that runs.
        words: What it does.
    """

    file: str
    function: str
    words: str


@dataclass(frozen=True)
class Walk:
    """What happens in order when something is done.

    Attributes:
        name: Of the picture.
        title: What is done.
        steps: The places that it passes.
    """

    name: str
    title: str
    steps: tuple[Step, ...]

    @property
    def picture(self) -> Path:
        """The file of the picture."""
        return DOCS / f"walk-{self.name}.svg"


REQUEST = Walk(
    "request",
    "GET /messages?$limit=2",
    (
        Step("express/_http1/protocol.py", "HTTPProtocol.data_received", "bytes become a request"),
        Step("express/_http1/protocol.py", "Exchange.run", "the application is called"),
        Step("express/_chain.py", "run_steps", "middleware runs, one step after the other"),
        Step("express/_rest.py", "call_service", "path and method name a service and its method"),
        Step("query/_parse.py", "parse", "the query string becomes a mapping"),
        Step("_service/_handle.py", "ServiceHandle.run", "hooks run around the method"),
        Step("adapters/base.py", "AdapterService.find", "options of the service hold"),
        Step("query/_grammar.py", "Grammar.read", "the query is checked and read, once"),
        Step("adapters/memory.py", "MemoryService._find", "the store looks"),
        Step("_http.py", "response_for", "the result has a status and headers"),
        Step("_json_encoding.py", "dumps", "it becomes JSON, without what is hidden"),
        Step("express/_response.py", "Response.finish", "the response is sent at the end"),
        Step("express/_http1/protocol.py", "Exchange.respond", "head and body become bytes"),
    ),
)
EVENT = Walk(
    "event",
    "create over socket.io, and its event",
    (
        Step("express/_http1/websocket.py", "WebSocketProtocol.data_received", "a frame is read"),
        Step("realtime/_engine.py", "EngineSession.receive", "the session takes the packet"),
        Step("realtime/_calls.py", "ClientCalls.begin", "the packet is a call of a service"),
        Step("_service/_handle.py", "ServiceHandle.run", "hooks run around the method"),
        Step("_service/_handle.py", "ServiceHandle.emit_event", "the call has ended: an event"),
        Step("_channels/_channels.py", "Channels.publish", "the publisher is asked"),
        Step("realtime/_sockets.py", "SocketLink.deliver", "each connection gets the event once"),
        Step(
            "realtime/_engine.py", "EngineSession.send", "the frame, encoded once, is sent or waits"
        ),
        Step("realtime/_calls.py", "_encode_result", "the caller gets the acknowledgement"),
    ),
)
SIGN_IN = Walk(
    "sign-in",
    "create of authentication, with a password",
    (
        Step("authentication/_service.py", "AuthenticationService.create", "one attempt begins"),
        Step("authentication/_throttle.py", "Throttle.before_attempt", "it costs a try"),
        Step(
            "authentication/_local_strategy.py", "LocalStrategy.authenticate", "a strategy is asked"
        ),
        Step("authentication/_entities.py", "Entities.find_one", "the user is found"),
        Step("authentication/_passwords.py", "Passwords.check", "a thread checks the password"),
        Step("authentication/_throttle.py", "Throttle.after_success", "the try is given back"),
        Step("authentication/_access_tokens.py", "Tokens.create", "the token is signed"),
    ),
)
LIVE_LIST = Walk(
    "live-list",
    "patch, and a live list that the record leaves",
    (
        Step("_service/_handle.py", "ServiceHandle.run", "hooks run around the method"),
        Step("_live/_notices.py", "notice_of", "the call has ended: a notice"),
        Step("_live/_lists.py", "LiveLists._hear", "each process hears it"),
        Step("_live/_groups.py", "Store.near", "which lists may have changed?"),
        Step("_live/_lists.py", "LiveLists._read", "one of them is read again"),
        Step("_service/_handle.py", "ServiceHandle.run", "that is `find` of its caller"),
        Step("adapters/memory.py", "MemoryService._find", "the store looks"),
        Step("_live/_difference.py", "differences", "what differs from the page before?"),
        Step("realtime/_live_stream.py", "LiveStream.take", "`left` waits for the client"),
        Step("realtime/_event_stream.py", "send_part", "and is sent"),
    ),
)
WALKS = (REQUEST, EVENT, SIGN_IN, LIVE_LIST)


def picture(walk: Walk) -> str:
    """Return the SVG of a walk, from top to bottom."""
    rooms: list[str] = []
    lines: list[str] = []
    before: tuple[int, int] | None = None
    top = 44
    for step in walk.steps:
        room = step.file.rpartition("/")[0] or step.file
        if room not in rooms:
            rooms.append(room)
        left = MARGIN + rooms.index(room) * INDENT
        width = round(len(step.file) * LETTER) + 20
        middle = top + BOX // 2
        if before is not None:
            x, y = before
            lines.append(f'<path class="way" d="M{x} {y} V{top - 6} H{left + 12} V{top}"/>')
        lines += [
            f'<rect class="box" x="{left}" y="{top}" width="{width}" height="{BOX}" rx="4"/>',
            f'<text class="file" x="{left + 10}" y="{middle + 5}">{escape(step.file)}</text>',
            f'<text class="words" x="{left + width + 12}" y="{middle + 5}">'
            f"{escape(step.words)}</text>",
        ]
        before = left + 12, top + BOX
        top += ROW
    height = top + MARGIN - (ROW - BOX)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
        f' height="{height}" role="img" aria-label="{escape(walk.title)}">'
    )
    title = f'<text class="title" x="{MARGIN}" y="28">{escape(walk.title)}</text>'
    ground = f'<rect class="ground" width="{WIDTH}" height="{height}"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, title, *lines, "</svg>", ""])


if __name__ == "__main__":
    for walk in WALKS:
        walk.picture.write_text(picture(walk), encoding="utf-8")
