"""The table of starts and memory, and what reads its figures."""

from __future__ import annotations

import os

import pytest
from benchmarks.processes import resident_bytes
from benchmarks.start import (
    LIBRARIES,
    README,
    REST,
    application_of_readme,
    processor_of,
    start_table,
    start_verdicts,
)


def test_the_table_has_units_and_targets():
    assert start_table({README: 149.6, LIBRARIES: 90, REST: 19.96}).splitlines() == [
        "| what | measured | wanted |",
        "|---|---:|---:|",
        f"| {README.name} | 150 ms | 150 ms |",
        f"| {LIBRARIES.name} | 90.0 ms |  |",
        f"| {REST.name} | 20.0 MiB | 45 MiB |",
    ]


def test_less_is_better():
    assert start_verdicts({README: 150, LIBRARIES: 500, REST: 45.1}) == [
        f"reached: {README.name} is 150 ms (wanted 150 ms)",
        f"MISSED: {REST.name} is 45.1 MiB (wanted 45 MiB)",
    ]


def test_the_first_application_of_the_readme_is_found():
    assert "app.run(3030)" in application_of_readme()


def test_processor_time_is_that_of_the_program_alone(tmp_path):
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    assert processor_of("import time; time.sleep(0.2)", tmp_path) < processor_of(busy, tmp_path)


def test_a_program_that_fails_ends_the_run(tmp_path):
    with pytest.raises(SystemExit, match="'import nothing_like_it' failed"):
        processor_of("import nothing_like_it", tmp_path)


def test_the_memory_of_a_process_is_in_bytes():
    assert 5 * 2**20 < resident_bytes(os.getpid()) < 2**40
