"""Folders that worker processes share are filled once."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from tests.shared_folders import fill_once, shared_root


def add_a_line(folder: Path) -> None:
    with folder.joinpath("lines").open("a") as lines:
        lines.write(f"{os.getpid()}\n")


def test_one_process_fills_a_folder(tmp_path):
    folder = tmp_path / "shared"
    processes = [
        multiprocessing.get_context("fork").Process(target=fill_once, args=(folder, add_a_line))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len((folder / "lines").read_text().splitlines()) == 1


def test_a_folder_that_could_not_be_filled_is_filled_by_the_next_process(tmp_path):
    def fail(folder: Path) -> None:
        add_a_line(folder)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        fill_once(tmp_path / "shared", fail)
    folder = fill_once(tmp_path / "shared", add_a_line)
    assert (folder / "lines").read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize(("worker", "levels"), [("gw1", 1), (None, 0)])
def test_workers_share_the_folder_above_their_own(worker, levels, tmp_path_factory, monkeypatch):
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    else:
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    base = tmp_path_factory.getbasetemp()
    assert shared_root(tmp_path_factory) == [base, base.parent][levels]
