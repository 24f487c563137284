"""Plans write all of their files or none."""

from __future__ import annotations

import stat

import pytest

from alula._cli.generator.insertion import NoPlaceError
from alula._cli.generator.plan import Plan, Todo
from alula._cli.terminal import UsageError


@pytest.fixture
def plan(tmp_path):
    return Plan(tmp_path)


def apply(plan, *, force=False, dry_run=False):
    return plan.apply(force=force, dry_run=dry_run)


def refuse(_):
    raise NoPlaceError("there is none")


def test_files_are_made_with_their_folders(plan):
    plan.create("a/b/c.py", "x = 1\r\n")
    plan.create("d", "")
    assert apply(plan) == [("create", "a/b/c.py"), ("create", "d")]
    assert (plan.folder / "a/b/c.py").read_bytes() == b"x = 1\r\n"


def test_only_the_owner_can_read_a_private_file(plan):
    plan.create(".env", "KEY=x", private=True)
    apply(plan)
    assert stat.S_IMODE((plan.folder / ".env").stat().st_mode) == 0o600


def test_an_equal_file_stays(plan):
    (plan.folder / "a").write_text("one")
    plan.create("a", "one")
    plan.change("a", str, where="", code="")
    assert apply(plan) == [("same", "a")]


def test_an_existing_file_keeps_all_files_from_being_written(plan):
    (plan.folder / "b").write_text("mine")
    plan.create("a", "new")
    plan.create("b", "new")
    with pytest.raises(UsageError, match=r"^b exists already; .* --force"):
        apply(plan)
    assert not (plan.folder / "a").exists()
    assert apply(plan, force=True) == [("create", "a"), ("overwrite", "b")]
    assert (plan.folder / "b").read_text() == "new"


def test_a_dry_run_writes_no_file(plan):
    (plan.folder / "b").write_text("old")
    plan.create("a", "new")
    plan.change("b", lambda text: f"{text} and new", where="", code="")
    assert apply(plan, dry_run=True) == [("create", "a"), ("change", "b")]
    assert not (plan.folder / "a").exists()
    assert (plan.folder / "b").read_text() == "old"


def test_changes_build_on_each_other(plan):
    (plan.folder / "a").write_text("1")
    for _ in range(2):
        plan.change("a", lambda text: text + "2", where="", code="")
    apply(plan)
    assert (plan.folder / "a").read_text() == "122"


def test_a_byte_order_mark_is_kept_but_not_edited(plan):
    (plan.folder / "a").write_text("1", encoding="utf-8-sig")
    for _ in range(2):
        plan.change("a", lambda text: f"0{text}", where="", code="")
    apply(plan)
    assert (plan.folder / "a").read_text() == "\ufeff001"


def test_a_change_that_fails_becomes_a_todo(plan):
    (plan.folder / "a").write_text("1")
    plan.change("a", refuse, where="at the end", code="x = 1")
    plan.change("b", str, where="at the end", code="y = 2")
    plan.change("c", str, where="at the end", code="z = 3", optional=True)
    (plan.folder / "d").write_bytes(b"\xff")
    plan.change("d", str, where="at the end", code="u = 4")
    assert apply(plan) == []
    assert plan.todos == [
        Todo("a", "there is none", "at the end", "x = 1"),
        Todo("b", "the file does not exist", "at the end", "y = 2"),
        Todo("d", "it is not UTF-8 text", "at the end", "u = 4"),
    ]


@pytest.mark.parametrize("path", ["../a", "/tmp/a", "link/a"])
def test_files_outside_of_the_folder_are_refused(plan, tmp_path_factory, path):
    (plan.folder / "link").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    plan.create(path, "new")
    with pytest.raises(UsageError, match="is outside of"):
        apply(plan, force=True)
