"""The figures as bars, with the span from the slowest to the fastest round."""

from __future__ import annotations

import statistics
from pathlib import Path

from matplotlib import rcParams
from matplotlib.figure import Figure

from benchmarks.contenders import Contest, Measure
from benchmarks.table import Figures, worth

rcParams["svg.hashsalt"] = "alula"


def write_plot(contest: Contest, figures: Figures, file: Path) -> None:
    """Write one panel per request, servers from slow to fast, by what their targets compare."""
    measure: Measure = "processor" if contest.by_processor else "rate"
    unit = "requests per second of the server's processor" if contest.by_processor else contest.unit
    scale = 1e6 if contest.by_processor else 1  # of microseconds
    rates = {
        key: [scale * worth(each, measure) for each in found] for key, found in figures.items()
    }
    rows = list(dict.fromkeys(row for _, row in rates))
    heights = [sum(row == other for _, other in rates) for row in rows]
    figure = Figure(figsize=(8, 0.5 * sum(heights) + 1.5), layout="tight")
    panels = figure.subplots(len(rows), 1, height_ratios=heights, squeeze=False)
    for panel, row in zip(panels[:, 0], rows, strict=True):
        bars = sorted(
            (statistics.median(v), v, name) for (name, other), v in rates.items() if other == row
        )
        medians = [median for median, _, _ in bars]
        spans = [
            [median - min(values) for median, values, _ in bars],
            [max(values) - median for median, values, _ in bars],
        ]
        colors = ["#0b7285" if name.startswith("Alula") else "#adb5bd" for _, _, name in bars]
        names = [name for _, _, name in bars]
        panel.barh(names, medians, xerr=spans, color=colors, ecolor="#495057")
        # Between two of them, a text would be a formula.
        panel.set_title(row.name.replace("$", r"\$"), loc="left", fontsize=10)
        panel.set_xlabel(f"{unit} (more is better)", fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})
