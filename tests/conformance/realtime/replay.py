"""Plays recorded real-time cases against a running server and says where its answers differ.

``python -m tests.conformance.realtime.replay BASE [--base2 URL] [--only AREAS] [--case TEXT]
[--quirks]`` prints the differences and a summary. The clients are the official ones, in Node.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.comparison import compare_header, differences
from tests.conformance.realtime.official_clients import ClientFailed, OfficialClients
from tests.conformance.replay import Bases, Case, bases_of, load, part_of, substitute
from tests.conformance.wire import Reply, body_of, send
from tests.requirements import find_node, node_modules

HERE = Path(__file__).parent
FOLDERS = (HERE / "vectors", HERE / "vectors-own")

MS_FOR_AN_EVENT = 8_000
MS_OF_SILENCE = 60
MS_WITHOUT_ANSWER = 300
MS_OF_HEAD_START = 30
SECONDS_BETWEEN_TRIES = 0.04
LONG_TEXT = 1000


def play(case: Case, bases: Bases, clients: OfficialClients) -> list[str]:
    """Return how a case differs from what was recorded; nothing where it does not."""
    reset = send(bases.main, "POST", "/__reset")
    if reset.status >= 300:
        return [f"POST /__reset answered {reset.status}"]
    with ThreadPoolExecutor() as threads:
        steps = Steps(bases, clients, threads)
        try:
            for number, step in enumerate(case.steps, 1):
                found = steps.play(step)
                if found:
                    return [f"step {number}: {json.dumps(step)[:160]}", *found]
        except ClientFailed as error:
            return [f"step {number}: {json.dumps(step)[:160]}", str(error)]
        finally:
            left = clients.do("end")
    return [f"{name} got what was not expected: {events}" for name, events in left.items()]


class Steps:
    """The steps of one case.

    Args:
        bases: The addresses of the servers.
        clients: Carries out what official clients do.
        threads: For requests that nobody waits for at first.
    """

    def __init__(self, bases: Bases, clients: OfficialClients, threads: ThreadPoolExecutor) -> None:
        self.bases = bases
        self.clients = clients
        self.threads = threads
        self.saved: dict[str, Any] = {}
        self.started: dict[str, Future[Any]] = {}

    def play(self, recorded: Mapping[str, Any]) -> list[str]:
        """Play a step and return how its outcome differs."""
        step = substitute(recorded, self.saved)
        expected, names = step.pop("expect", None), step.pop("save", {})
        verb = next(name for name in VERBS if name in step)
        until = time.monotonic() + step.pop("retry", 0) / 1000
        while True:
            outcome = VERBS[verb](self, step, expected)
            found = [] if expected is None else compare(expected, outcome)
            if not found or time.monotonic() >= until:
                break
            time.sleep(SECONDS_BETWEEN_TRIES)
        self.saved.update({name: part_of(outcome, path) for name, path in names.items()})
        return found

    def outcome(self, recorded: Mapping[str, Any]) -> Any:
        """Play a step once and return its outcome, whatever was recorded."""
        step = substitute(recorded, self.saved)
        expected, names = step.pop("expect", None), step.pop("save", {})
        step.pop("retry", None)
        verb = next(name for name in VERBS if name in step)
        outcome = VERBS[verb](self, step, expected)
        self.saved.update({name: part_of(outcome, path) for name, path in names.items()})
        return outcome

    def call(self, step: Mapping[str, Any], expected: Any) -> Any:
        """Emit with an acknowledgement; one that must not come is awaited for a moment only."""
        order = {"within": MS_WITHOUT_ANSWER} if expected == {"noAck": True} else {}
        return self.tell("call", {**order, **step})

    def burst(self, step: Mapping[str, Any], _: Any) -> Any:
        """Emit several calls at once."""
        return self.clients.do("burst", calls=step["burst"], order=step.get("order", False))

    def events(self, step: Mapping[str, Any], expected: Any) -> Any:
        """Take the events of some clients."""
        taken = self.take({name: len(expected[name]) for name in step["events"]}, step)
        if step.get("unordered"):
            taken = {name: in_one_order(events) for name, events in taken.items()}
        return taken

    def packets(self, step: Mapping[str, Any], expected: Any) -> Any:
        """Take the packets of a plain websocket."""
        name = step["packets"]
        taken = self.take({name: len(expected or ())}, step)[name]
        return in_one_order(taken) if step.get("unordered") else taken

    def take(self, counts: Mapping[str, int], step: Mapping[str, Any]) -> Any:
        """Return all that clients got, once it is as much as is expected."""
        return self.clients.do(
            "take",
            counts=counts,
            within=step.get("within", MS_FOR_AN_EVENT),
            quiet=step.get("quiet", MS_OF_SILENCE),
        )

    def http(self, step: Mapping[str, Any], _: Any) -> Any:
        """Send a plain request; with ``start`` a later step takes the answer."""
        answer = self.threads.submit(self.answered, step)
        if "start" not in step:
            return answer.result()
        self.started[step["start"]] = answer
        time.sleep(MS_OF_HEAD_START / 1000)  # it should be on its way before the next step
        return {}

    def answered(self, step: Mapping[str, Any]) -> Any:
        """Return the answer to a plain request."""
        request = {"method": "GET", "headers": {}, **step["http"]}
        headers = request["headers"]
        if "body" in request:
            headers = {**headers, "content-type": "application/json"}
        text = request.get("text")
        body = body_of(request) if text is None else expanded(text).encode()
        base = self.bases.second if step.get("app") == 2 else self.bases.main
        reply = send(base, request["method"], request["path"], headers, body)
        return {} if step.get("ignore") else outcome_of(reply, in_packets=step.get("packets"))

    def wait_for(self, step: Mapping[str, Any], _: Any) -> Any:
        """Return the answer to a request that was started before."""
        try:
            return self.started[step["await"]].result()
        except OSError as error:
            return {"failed": repr(error)}

    def wait(self, step: Mapping[str, Any], _: Any) -> Any:
        """Let time pass."""
        time.sleep(step["wait"] / 1000)
        return {}

    def tell(self, verb: str, step: Mapping[str, Any]) -> Any:
        """Have a client do what a step says."""
        order = {name: value for name, value in step.items() if name != verb}
        return self.clients.do(verb, client=step[verb], **order)


def _told(verb: str) -> Callable[[Steps, Mapping[str, Any], Any], Any]:
    return lambda steps, step, _: steps.tell(verb, step)


# The first name that a step has says what it does: `http` may come with `packets`, for one.
VERBS: dict[str, Callable[[Steps, Mapping[str, Any], Any], Any]] = {
    **{name: _told(name) for name in ("connect", "reconnect", "feathers", "listen", "disconnect")},
    **{name: _told(name) for name in ("closed", "ws", "send", "close", "terminate")},
    "call": Steps.call,
    "burst": Steps.burst,
    "events": Steps.events,
    "http": Steps.http,
    "await": Steps.wait_for,
    "packets": Steps.packets,
    "wait": Steps.wait,
}


def compare(expected: Any, outcome: Any) -> list[str]:
    """Return how an outcome differs; of the headers only those that are expected count."""
    if not isinstance(expected, dict) or "status" not in expected:
        return differences(expected, outcome, "got")
    if not isinstance(outcome, dict) or "status" not in outcome:
        return [f"no answer: {outcome}"]
    found = []
    for name, value in expected.get("headers", {}).items():
        found += compare_header(name, value, outcome["headers"].get(name))
    wanted, actual = (
        {name: part for name, part in each.items() if name in expected and name != "headers"}
        for each in (expected, outcome)
    )
    return found + differences(wanted, actual, "answer")


def outcome_of(reply: Reply, *, in_packets: Any) -> dict[str, Any]:
    """Return an answer as recorded ones are written."""
    outcome: dict[str, Any] = {"status": reply.status, "headers": reply.headers}
    if in_packets and reply.status == 200:
        packets = reply.text.split("\x1e") if reply.text else []
        return {**outcome, "packets": [framed(packet) for packet in packets]}
    if "json" in reply.headers.get("content-type", "") and reply.text:
        return {**outcome, "body": reply.json()}
    return {**outcome, "text": shortened("ok" if reply.text.lower() == "ok" else reply.text)}


def shortened(text: str) -> Any:
    """Return a text, or the length and the checksum of one that is long."""
    if len(text) <= LONG_TEXT:
        return text
    return {"$long": len(text), "sha1": hashlib.sha1(text.encode()).hexdigest()[:12]}


def framed(packet: str) -> Any:
    """Return a packet as its head and its JSON; one that holds no JSON stays as it is."""
    starts = [start for start in map(packet.find, '[{"') if start >= 0]
    if not starts:
        return packet
    try:
        return [packet[: min(starts)], json.loads(packet[min(starts) :])]
    except ValueError:
        return packet


def expanded(text: Any) -> str:
    """Return a text that is written short, such as ``{"$repeat": ["x", 1000]}``."""
    if isinstance(text, str):
        return text
    if "$repeat" in text:
        unit, count = text["$repeat"]
        return str(unit * count)
    return "".join(map(expanded, text["$concat"]))


def in_one_order(events: list[Any]) -> list[Any]:
    """Return events in the order of their JSON, for cases that promise none."""
    return sorted(events, key=lambda event: json.dumps(event, separators=(",", ":")))


# -- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Play all cases, or some, and print what differs; 1 where something does."""
    parser = argparse.ArgumentParser(description="Play recorded real-time cases.")
    parser.add_argument("base", help="address of the main app")
    parser.add_argument("--base2", help="address of the second app; else the next port")
    parser.add_argument("--only", metavar="AREAS", help="these areas only, with commas between")
    parser.add_argument("--case", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--quirks", action="store_true", help="count quirks, too")
    parser.add_argument("--folder", type=Path, action="append", help="where the vectors are")
    given = parser.parse_args()
    areas = given.only.split(",") if given.only else None
    count: Counter[str] = Counter()
    bases = bases_of(given.base, given.base2)
    with OfficialClients(find_node() or "node", node_modules(), bases) as clients:
        for case in load(given.folder or FOLDERS):
            if (areas and case.area not in areas) or given.case not in case.name:
                continue
            found = play(case, bases, clients)
            counts = case.quirk is None or given.quirks
            kind = "case" if counts else "quirk"
            count[f"{kind}s that differ" if found else f"{kind}s as recorded"] += 1
            if found and counts:
                print(f"{case.area} > {case.name}", *found, sep="\n    ")
    print(", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    return 1 if count["cases that differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
