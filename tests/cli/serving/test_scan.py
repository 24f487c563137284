"""Which files the reloader watches, and what counts as a change."""

from __future__ import annotations

import os

import pytest

from alula._cli.serving.reloader import changed_files, scan


@pytest.fixture
def project(tmp_path):
    for name in (
        "app.py",
        "settings.toml",
        ".env",
        "deep/er/hooks.py",
        "config.yaml",
        "more.yml",
        "notes.txt",
        "data.json",
        "deep/__pycache__/a.py",
        ".git/hook.py",
        "node_modules/x.py",
        "migrations/0001_first.py",
        "venv/pyvenv.cfg",
        "venv/lib/a.py",
        "lib/site-packages/a.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    return tmp_path


def names(seen, folder):
    return sorted(os.path.relpath(name, folder) for name in seen)


def test_the_files_of_a_project(project):
    assert names(scan([project]), project) == [
        ".env",
        "app.py",
        "config.yaml",
        "deep/er/hooks.py",
        "more.yml",
        "settings.toml",
    ]


def test_a_file_that_is_named_counts_whatever_it_is(project):
    data = project / "data.json"
    assert names(scan([project / "deep", data]), project) == ["data.json", "deep/er/hooks.py"]


def test_missing_paths_are_ignored(project):
    assert scan([project / "gone", project / "gone.py"]) == {}


def test_a_folder_that_leads_to_itself_is_looked_into_once(project):
    (project / "deep" / "again").symlink_to(project)
    assert len(scan([project])) == 6


def test_a_folder_that_is_deleted_during_the_scan(project, monkeypatch):
    def gone(_):
        raise FileNotFoundError

    monkeypatch.setattr(os, "scandir", gone)
    assert scan([project]) == {}


def test_changed_files(project):
    before = scan([project])
    assert changed_files(before, scan([project])) == []
    (project / "app.py").write_text("1, 2")
    (project / "new.py").write_text("")
    (project / ".env").unlink()
    expected = [str(project / name) for name in (".env", "app.py", "new.py")]
    assert changed_files(before, scan([project])) == expected


def test_a_change_that_keeps_the_size(project):
    before = scan([project])
    os.utime(project / "app.py", ns=(1, 1))
    assert changed_files(before, scan([project])) == [str(project / "app.py")]
