"""The figures of one contest beside what is wanted."""

from __future__ import annotations

import statistics

from benchmarks.contenders import Contest, Row, Target
from benchmarks.wrk import Figure

Figures = dict[tuple[str, Row], list[Figure]]
Medians = dict[tuple[str, Row], Figure]


def medians_of(figures: Figures) -> Medians:
    """Return the median rate and the median p99 of each server and row."""
    return {
        key: Figure(
            statistics.median(each.rate for each in found),
            statistics.median(each.p99 for each in found),
        )
        for key, found in figures.items()
    }


def table(contest: Contest, medians: Medians) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        f"| request | server | {contest.unit} | p99 in ms | Alula is | wanted |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (name, row), median in sorted(medians.items(), key=lambda item: _place(contest, item[0])):
        ratio = wanted = ""
        for target in contest.targets:
            if target.row == row and name == _shown_at(contest, medians, target):
                ratio = f"{_ratio(contest, medians, target):.2f}x"
                wanted = f"{target.least:g}x"
        measured = f"{median.rate:,.0f} | {median.p99:.1f}"
        lines.append(f"| `{row.name}` | {name} | {measured} | {ratio} | {wanted} |")
    return "\n".join(lines)


def verdicts(contest: Contest, medians: Medians) -> list[str]:
    """Return a line for each ratio that is wanted and was measured."""
    lines = []
    for target in contest.targets:
        other = _other(contest, medians, target)
        if other is None or (target.alula, target.row) not in medians:
            continue
        ratio = _ratio(contest, medians, target)
        what = "p99, the other's by its own" if target.p99 else "rate"
        state = "reached" if ratio >= target.least else "MISSED"
        lines.append(
            f"{state}: {target.row.name}, {what}: {target.alula} is {ratio:.2f}x {other}"
            f" (wanted {target.least:g}x)"
        )
    return lines


def _place(contest: Contest, key: tuple[str, Row]) -> tuple[int, int]:
    names = [contender.name for contender in contest.contenders]
    rows = list(dict.fromkeys(row for each in contest.contenders for row in each.rows))
    return rows.index(key[1]), names.index(key[0])


def _other(contest: Contest, medians: Medians, target: Target) -> str | None:
    """Return the name of whom Alula is compared with, None where it was not measured."""
    if target.other is not None:
        return target.other if (target.other, target.row) in medians else None
    peers = [
        name
        for name, row in medians
        if row == target.row and name != target.alula and name not in contest.bounds
    ]
    if target.p99:
        return min(peers, key=lambda name: medians[name, target.row].p99, default=None)
    return max(peers, key=lambda name: medians[name, target.row].rate, default=None)


def _ratio(contest: Contest, medians: Medians, target: Target) -> float:
    other = medians[_other(contest, medians, target) or "", target.row]
    own = medians[target.alula, target.row]
    return other.p99 / (own.p99 or 1) if target.p99 else own.rate / (other.rate or 1)


def _shown_at(contest: Contest, medians: Medians, target: Target) -> str | None:
    """Return the line of the table that shows a ratio."""
    if target.p99 or (target.alula, target.row) not in medians:
        return None
    return target.alula if target.alula != "Alula" else _other(contest, medians, target)
