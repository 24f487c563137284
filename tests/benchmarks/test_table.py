"""The tables of the benchmarks: which figures are compared, and what a reader sees of them."""

from __future__ import annotations

import pytest
from benchmarks.contenders import Contender, Contest, Row, Target
from benchmarks.table import summaries_of, table, verdicts, worth
from benchmarks.wrk import Figure, per_request

ONE = Row("one", "/one")
TWO = Row("two", "/two")


def contest(*targets: Target, by_processor: bool = True) -> Contest:
    """Return a contest of Alula with a fast limit, a quick and a slow peer."""
    names = ("Alula", "Alula bound", "limit", "quick", "slow")
    contenders = tuple(Contender(name, (), (ONE, TWO)) for name in names)
    bounds = frozenset({"Alula bound", "limit"})
    return Contest("A contest", contenders, targets, bounds, by_processor=by_processor)


# By the clock, the quick peer is faster than Alula; by processor time, Alula is.
SUMMARIES = {
    ("slow", ONE): Figure(1_000, 8.0, 400.0),
    ("quick", ONE): Figure(6_000, 1.0, 150.0),
    ("limit", ONE): Figure(20_000, 0.5, 50.0),
    ("Alula bound", ONE): Figure(4_500, 2.0, 200.0),
    ("Alula", ONE): Figure(5_000, 2.0, 100.0),
}


def test_rate_and_p99_are_medians_and_the_processor_time_is_the_least():
    figures = [Figure(1, 30, 200.0), Figure(2, 10, 300.0), Figure(3, 20, 100.0)]
    assert summaries_of({("Alula", ONE): figures}) == {("Alula", ONE): Figure(2, 20, 100.0)}


def test_summaries_of_clients_have_no_processor_time():
    summaries = summaries_of({("Alula", ONE): [Figure(1, 30), Figure(3, 10)]})
    assert summaries == {("Alula", ONE): Figure(2, 20, None)}


def test_of_times_less_is_worth_more():
    less, more = Figure(1, 10, 100.0), Figure(2, 20, 200.0)
    assert worth(less, "rate") < worth(more, "rate")
    assert worth(less, "p99") > worth(more, "p99")
    assert worth(less, "processor") > worth(more, "processor")


def test_a_p99_of_nothing_has_a_worth():
    assert worth(Figure(1, 0.0), "p99") == 1


def test_processor_time_that_was_not_measured_is_not_compared():
    with pytest.raises(ValueError, match="compare the rate, or measure a server"):
        worth(Figure(1, 10), "processor")


def test_shows_processor_time_beside_the_rate():
    shown = table(contest(Target(ONE, 1.4, "quick")), SUMMARIES)
    assert shown.splitlines() == [
        "| request | server | requests a second"
        " | processor in µs | p99 in ms | Alula is | wanted |",
        "|---|---|---:|---:|---:|---:|---:|",
        "| `one` | Alula | 5,000 | 100.0 | 2.0 |  |  |",
        "| `one` | Alula bound | 4,500 | 200.0 | 2.0 |  |  |",
        "| `one` | limit | 20,000 | 50.0 | 0.5 |  |  |",
        "| `one` | quick | 6,000 | 150.0 | 1.0 | 1.50x | 1.4x |",
        "| `one` | slow | 1,000 | 400.0 | 8.0 |  |  |",
    ]


def test_a_table_of_clients_has_no_column_for_it():
    summaries = {("Alula", ONE): Figure(5_000, 2.0)}
    assert table(contest(by_processor=False), summaries).splitlines() == [
        "| request | server | requests a second | p99 in ms | Alula is | wanted |",
        "|---|---|---:|---:|---:|---:|",
        "| `one` | Alula | 5,000 | 2.0 |  |  |",
    ]


def test_a_figure_without_it_leaves_the_column_empty():
    summaries = {("Alula", ONE): Figure(5_000, 2.0, 100.0), ("Alula", TWO): Figure(7, 0.0)}
    assert table(contest(), summaries).splitlines()[-1] == "| `two` | Alula | 7 |  | 0.0 |  |  |"


def test_compares_rates_of_the_clock_where_a_contest_says_so():
    shown = table(contest(Target(ONE, 1, "quick"), by_processor=False), SUMMARIES)
    assert "| quick | 6,000 | 150.0 | 1.0 | 0.83x | 1x |" in shown


def test_the_best_peer_is_neither_alula_nor_a_limit():
    shown = table(contest(Target(ONE, 1)), SUMMARIES)
    assert "| quick | 6,000 | 150.0 | 1.0 | 1.50x | 1x |" in shown


def test_a_ratio_of_two_of_alula_is_at_the_one_that_the_target_names():
    shown = table(contest(Target(ONE, 0.9, "Alula", alula="Alula bound")), SUMMARIES)
    assert "| Alula bound | 4,500 | 200.0 | 2.0 | 0.50x | 0.9x |" in shown


def test_two_ratios_of_a_bound_are_each_at_the_peer():
    targets = [Target(ONE, 1, name, alula="Alula bound") for name in ("quick", "slow")]
    shown = table(contest(*targets), SUMMARIES)
    assert "| quick | 6,000 | 150.0 | 1.0 | 0.75x | 1x |" in shown
    assert "| slow | 1,000 | 400.0 | 8.0 | 2.00x | 1x |" in shown


def test_a_request_is_compared_with_another_kind():
    summaries = {**SUMMARIES, ("Alula", TWO): Figure(9_000, 1.0, 80.0)}
    targets = (
        Target(TWO, 1.3, "Alula", other_row=ONE),
        Target(TWO, 2.0, other_row=ONE),
        Target(TWO, 1.0, "Alula bound", other_row=TWO),  # not measured
    )
    shown = table(contest(targets[0]), summaries)
    assert "| `two` | Alula | 9,000 | 80.0 | 1.0 | 1.25x | 1.3x |" in shown
    assert shown.count("x |") == 2
    assert verdicts(contest(*targets), summaries) == [
        "MISSED: two, processor time, the other's by its own: Alula is 1.25x Alula at one"
        " (wanted 1.3x)",
        "MISSED: two, processor time, the other's by its own: Alula is 1.88x quick at one"
        " (wanted 2x)",
    ]


def test_a_p99_is_no_ratio_of_the_table():
    assert "x |" not in table(contest(Target(ONE, 1, "slow", by="p99")), SUMMARIES)


def test_verdicts_say_what_is_compared():
    targets = (
        Target(ONE, 1.6, "quick"),
        Target(ONE, 1.0, by="p99"),
        Target(ONE, 4.0, "slow", by="p99"),
        Target(ONE, 1.0, "of whom nothing was measured"),
        Target(TWO, 1.0, "quick"),
    )
    assert verdicts(contest(*targets), SUMMARIES) == [
        "MISSED: one, processor time, the other's by its own: Alula is 1.50x quick (wanted 1.6x)",
        "MISSED: one, p99, the other's by its own: Alula is 0.50x quick (wanted 1x)",
        "reached: one, p99, the other's by its own: Alula is 4.00x slow (wanted 4x)",
    ]


def test_a_verdict_about_the_clock_names_the_rate():
    found = verdicts(contest(Target(ONE, 0.8, "quick"), by_processor=False), SUMMARIES)
    assert found == ["reached: one, rate: Alula is 0.83x quick (wanted 0.8x)"]


def test_processor_time_of_a_request_is_in_microseconds():
    assert per_request(2.0, 40_000) == 50
    assert per_request(0.0, 100) == 100  # the kernel counts hundredths of a second
    assert per_request(1.0, 0) == 1e6
