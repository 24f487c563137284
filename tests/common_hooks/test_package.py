"""The package as a whole."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.common_hooks.conftest import ADA, app_of

from alula import App, FrameworkError, common_hooks
from alula.adapters.memory import MemoryService
from alula.hooks import factory_call

SRC = Path(__file__).parents[2] / "src"
FACTORIES = [
    name
    for name in common_hooks.__all__
    if inspect.isfunction(getattr(common_hooks, name))
    and name not in {"unix_milliseconds", "utc_now"}
]


def test_it_needs_no_package():
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import alula.common_hooks"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


@pytest.mark.parametrize("name", FACTORIES)
def test_a_hook_that_is_not_called_says_how(name):
    factory = getattr(common_hooks, name)
    assert factory_call(factory).startswith(f"{name}(")
    with pytest.raises(TypeError, match="makes a hook and is not one itself"):
        app_of(MemoryService(), around=[factory])


def test_all_are_there():
    assert len(FACTORIES) == 20


@pytest.mark.parametrize("data", [[], [{"text": "x"}], ({},), "x", None, 5, {"$set": 5}])
@pytest.mark.parametrize("method", ["update", "patch"])
async def test_data_that_is_no_change_is_the_mistake_of_the_client(notes, method, data):
    await notes.create({"id": 1})
    codes = []
    for hook in (
        common_hooks.set_owner(),
        common_hooks.timestamps(),
        common_hooks.soft_delete(),
        common_hooks.prevent_changes("userId"),
        common_hooks.keep("text"),
        common_hooks.discard("votes"),
        common_hooks.validate(lambda data: None),
    ):
        guarded = App().use("notes", notes.service).service("notes").hooks(before=[hook])
        await guarded.app.setup()
        try:
            await guarded.call(method, 1, data, ADA)
        except FrameworkError as error:
            codes.append(error.code)
        else:
            # The memory adapter keeps such names as data, and `keep` and `discard` remove them.
            assert data == {"$set": 5}
    assert set(codes) <= {400, 405}
