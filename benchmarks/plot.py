"""The figures as bars, with the span from the slowest to the fastest round."""

from __future__ import annotations

import statistics
from pathlib import Path

from matplotlib import rcParams
from matplotlib.figure import Figure

rcParams["svg.hashsalt"] = "alula"


def write_plot(figures: dict[tuple[str, str], list[float]], file: Path) -> None:
    """Write one panel per request, servers from slow to fast."""
    paths = list(dict.fromkeys(path for _, path in figures))
    heights = [sum(path == other for _, other in figures) for path in paths]
    figure = Figure(figsize=(8, 0.5 * sum(heights) + 1.5), layout="tight")
    panels = figure.subplots(len(paths), 1, height_ratios=heights, squeeze=False)
    for panel, path in zip(panels[:, 0], paths, strict=True):
        rows = sorted(
            (
                (statistics.median(v), v, name)
                for (name, other), v in figures.items()
                if other == path
            )
        )
        medians = [median for median, _, _ in rows]
        spans = [
            [median - min(values) for median, values, _ in rows],
            [max(values) - median for median, values, _ in rows],
        ]
        colors = ["#0b7285" if name.startswith("Alula") else "#adb5bd" for _, _, name in rows]
        names = [name for _, _, name in rows]
        panel.barh(names, medians, xerr=spans, color=colors, ecolor="#495057")
        panel.set_title(f"GET {path}", loc="left", fontsize=10)
        panel.set_xlabel("requests per second (more is better)", fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})
