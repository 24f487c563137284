"""The plots of the benchmarks."""

from __future__ import annotations

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="only `scripts/setup bench` installs it")
from benchmarks.contenders import Contender, Contest, Row  # noqa: E402  # needs matplotlib
from benchmarks.plot import write_plot  # noqa: E402  # as above
from benchmarks.wrk import Figure  # noqa: E402  # as above


def test_a_title_with_filters_is_no_formula(tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")  # texts, not their shapes
    row = Row("GET /memory?$limit=10&$sort[createdAt]=-1", "/memory")
    contest = Contest("REST", (Contender("Alula", ("true",), (row,)),), ())
    write_plot(contest, {("Alula", row): [Figure(10.0, 1.0)]}, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert "GET /memory?$limit=10&amp;$sort[createdAt]=-1" in text
