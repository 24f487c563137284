"""The code of each page runs with what that page tells to install, said before it is needed."""

from __future__ import annotations

import json
import re
import shlex
from typing import NamedTuple

import pytest
from tests.docs.test_code_blocks import PAGES, PROJECTS, blocks_of, write_files
from tests.docs.test_tutorial import PARTS, files_of
from tests.outside.environments import run, variables
from tests.requirements import require_mongod

CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"^[`$ ]*pip install ([^`\n]+)", re.MULTILINE)
WITH_CODE = [page for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))]

# Blocks run one after the other in one namespace, with the lines of their page in errors.
RUN_BLOCKS = """
import json, sys
page, blocks = json.load(sys.stdin)
namespace = {"__name__": "documentation"}
for line, code in blocks:
    exec(compile("\\n" * line + code, page, "exec"), namespace)
"""


class Part(NamedTuple):
    """What of a page runs in one environment: all blocks above the next line that installs."""

    requirements: list[str]
    blocks: list[tuple[int, str]]


def installed_by(text: str) -> list[tuple[int, list[str]]]:
    """Return each line that says `pip install`, with what it names but for folders."""
    found = []
    for code in CODE.finditer(text):
        for said in INSTALL.finditer(code[0]):
            line = text.count("\n", 0, code.start() + said.start())
            words = shlex.split(said[1], comments=True)
            named = [word for word in words if not word.startswith(("-", ".", "/"))]
            if named and "&&" not in words:
                found.append((line, named))
    return found


def parts_of(text: str) -> list[Part]:
    """Return what to run of a page, and where.

    A page may say later that more has to be installed; what stands above that runs without it.
    Since blocks go on from each other, a part begins with all blocks of those before it.

    Raises:
        AssertionError: There is code before anything was said about what it needs.
    """
    blocks = [(block.line, block.code) for block in blocks_of(text)]
    said = installed_by(text)
    parts = []
    for number, (line, code) in enumerate(blocks, 1):
        above = [name for at, names in said for name in names if at < line]
        assert above, f"line {line}: no `pip install` above says what this code needs:\n{code}"
        if parts and parts[-1].requirements == above:
            parts.pop()
        parts.append(Part(above, blocks[:number]))
    return parts


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_with_what_it_tells_to_install(page, environments, tmp_path):
    text = page.read_text(encoding="utf-8")
    if "LocalServer" in text:
        require_mongod()
    for number, part in enumerate(parts_of(text)):
        python = environments.python(part.requirements)
        (folder := tmp_path / str(number)).mkdir()
        given = json.dumps([str(page), part.blocks])
        command = [python, "-W", "error", "-c", RUN_BLOCKS]
        done = run(*command, cwd=folder, env=variables(python), text=given)
        assert done.returncode == 0, f"with {part.requirements}:\n{done.stdout}"


# What hangs ends, and shows the stack of each thread.
WATCHED = ("-o", "faulthandler_timeout=60", "-o", "faulthandler_exit_on_timeout=true")
HANGS = "Timeout (0:01:00)!"


@pytest.mark.parametrize("page", PROJECTS, ids=lambda page: page.name)
def test_the_project_of_a_page_passes_its_tests(page, environments, tmp_path):
    text = page.read_text(encoding="utf-8")
    if "LocalServer" in text:
        require_mongod()
    write_files(text, tmp_path)
    settings = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(settings[1], encoding="utf-8")
    _, requirements = installed_by(text)[0]
    python = environments.python(requirements)
    # The command of the page, not `python -m pytest`, which would find the files by itself.
    command = [python.parent / "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *WATCHED]
    ended = run(*command, cwd=tmp_path, env=variables(python))
    if HANGS in ended.stdout:
        # Now and then, on a busy machine, a queue of another project does. Twice is a defect.
        print(ended.stdout)
        ended = run(*command, cwd=tmp_path, env=variables(python))
    assert ended.returncode == 0, ended.stdout
    functions = len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE))
    assert int(re.search(r"(\d+) passed", ended.stdout)[1]) >= functions > 0


def test_there_is_a_page_that_is_a_project():
    assert "testing.md" in [page.name for page in PROJECTS]


PAGE = """
Needs `pip install 'alula[server]'`, or `pip install alula` alone.

```python
a = 1
```

```console
$ pip install pytest 'alula[cli]'   # for tests
$ pip install '.[dev]' && pytest
```

```python
b = a
```
"""


def test_what_a_page_says_is_read_with_its_line():
    assert installed_by(PAGE) == [
        (1, ["alula[server]"]),
        (1, ["alula"]),
        (8, ["pytest", "alula[cli]"]),
    ]


def test_code_runs_with_the_requirements_above_it():
    first, second = parts_of(PAGE)
    assert first == (["alula[server]", "alula"], [(4, "a = 1\n")])
    assert second.requirements == [*first.requirements, "pytest", "alula[cli]"]
    assert second.blocks == [(4, "a = 1\n"), (13, "b = a\n")]


def test_code_without_requirements_is_an_error():
    with pytest.raises(AssertionError, match="line 1: no `pip install` above"):
        parts_of("```python\na = 1\n```\n\n`pip install alula`\n")


def test_a_missing_extra_fails_a_page(environments, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`pip install alula`\n\n```python\nimport alula.express\n```\n")
    with pytest.raises(AssertionError, match=r"pip install 'alula\[server\]'"):
        test_the_code_of_a_page_runs_with_what_it_tells_to_install(page, environments, tmp_path)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.stem)
def test_the_program_of_a_part_of_the_tutorial_needs_what_it_tells_to_install(
    part, environments, tmp_path
):
    text = part.read_text(encoding="utf-8")
    for name, code in files_of(text).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    _, requirements = installed_by(text)[0]
    python = environments.python(requirements)
    secret = {"ALULA_SECRET": "a secret for this test, and 32 bytes"}
    command = [python, "-W", "error", "-c", "import app"]
    done = run(*command, cwd=tmp_path, env=variables(python, **secret))
    assert done.returncode == 0, done.stdout
