"""The figures of one contest beside what is wanted."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from benchmarks.contenders import Contest, Measure, Row, Target
from benchmarks.wrk import Figure

Figures = dict[tuple[str, Row], list[Figure]]
Summaries = dict[tuple[str, Row], Figure]

_WORDS: Mapping[Measure, str] = {
    "rate": "rate",
    "processor": "processor time, the other's by its own",
    "p99": "p99, the other's by its own",
}


def summaries_of(figures: Figures) -> Summaries:
    """Return one figure of all rounds, of each server and row.

    It has the medians of rate and p99, and the least processor time: what else a machine does, such
    as other virtual machines on its caches, only adds to that.
    """
    summaries = {}
    for key, found in figures.items():
        spent = [each.processor for each in found if each.processor is not None]
        summaries[key] = Figure(
            statistics.median(each.rate for each in found),
            statistics.median(each.p99 for each in found),
            min(spent, default=None),
        )
    return summaries


def worth(figure: Figure, measure: Measure) -> float:
    """Return a figure as a number of which more is better.

    Raises:
        ValueError: The processor time is compared, and was not measured.
    """
    if measure == "rate":
        return figure.rate
    time = figure.p99 if measure == "p99" else figure.processor
    if time is None:
        raise ValueError(f"no processor time in {figure}; compare the rate, or measure a server")
    return 1 / (time or 1)


def table(contest: Contest, summaries: Summaries) -> str:
    """Return the figures as a Markdown table; processor time is a column where it was measured."""
    has_processor = any(summary.processor is not None for summary in summaries.values())
    column, line = (" processor in µs |", "---:|") if has_processor else ("", "")
    lines = [
        f"| request | server | {contest.unit} |{column} p99 in ms | Alula is | wanted |",
        f"|---|---|---:|{line}---:|---:|---:|",
    ]
    for (name, row), summary in sorted(
        summaries.items(), key=lambda item: _place(contest, item[0])
    ):
        ratio = wanted = ""
        for target in contest.targets:
            if target.row == row and name == _shown_at(contest, summaries, target):
                ratio = f"{_ratio(contest, summaries, target):.2f}x"
                wanted = f"{target.least:g}x"
        spent = "" if summary.processor is None else f"{summary.processor:,.1f}"
        measured = (
            f"{summary.rate:,.0f} |{f' {spent} |' if has_processor else ''} {summary.p99:.1f}"
        )
        lines.append(f"| `{row.name}` | {name} | {measured} | {ratio} | {wanted} |")
    return "\n".join(lines)


def verdicts(contest: Contest, summaries: Summaries) -> list[str]:
    """Return a line for each ratio that is wanted and was measured."""
    lines = []
    for target in contest.targets:
        other = _other(contest, summaries, target)
        if other is None or (target.alula, target.row) not in summaries:
            continue
        ratio = _ratio(contest, summaries, target)
        what = _WORDS[contest.measure_of(target)]
        state = "reached" if ratio >= target.least else "MISSED"
        at = "" if target.other_row is None else f" at {target.other_row.name}"
        lines.append(
            f"{state}: {target.row.name}, {what}: {target.alula} is {ratio:.2f}x {other}{at}"
            f" (wanted {target.least:g}x)"
        )
    return lines


def _place(contest: Contest, key: tuple[str, Row]) -> tuple[int, int]:
    names = [contender.name for contender in contest.contenders]
    rows = list(dict.fromkeys(row for each in contest.contenders for row in each.rows))
    return rows.index(key[1]), names.index(key[0])


def _other(contest: Contest, summaries: Summaries, target: Target) -> str | None:
    """Return the name of whom Alula is compared with, None where it was not measured."""
    compared = target.other_row or target.row
    if target.other is not None:
        return target.other if (target.other, compared) in summaries else None
    peers = [
        name
        for name, row in summaries
        if row == compared and name != target.alula and name not in contest.bounds
    ]
    measure = contest.measure_of(target)
    return max(peers, key=lambda name: worth(summaries[name, compared], measure), default=None)


def _ratio(contest: Contest, summaries: Summaries, target: Target) -> float:
    measure = contest.measure_of(target)
    other = summaries[_other(contest, summaries, target) or "", target.other_row or target.row]
    return worth(summaries[target.alula, target.row], measure) / (worth(other, measure) or 1)


def _shown_at(contest: Contest, summaries: Summaries, target: Target) -> str | None:
    """Return the line of the table that shows a ratio."""
    if target.by == "p99" or (target.alula, target.row) not in summaries:
        return None
    other = _other(contest, summaries, target)
    # Two of Alula's own are compared: the ratio is about the one that the target names.
    return target.alula if other is not None and other.startswith("Alula") else other
