"""Blocks that are not Python are valid, as far as a program can check."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.requirements import require_node, require_node_modules

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def check_ini(text: str) -> None:
    configparser.ConfigParser(strict=False, interpolation=None).read_string(text)


def check_dockerfile(text: str) -> None:
    feed([str(Path(sys.executable).with_name("hadolint")), "-"], text)


def check_js(text: str) -> None:
    feed([require_node(), "--check", "--input-type=module", "-"], text)


def check_jsx(text: str) -> None:
    esbuild = require_node_modules("esbuild") / ".bin" / "esbuild"
    feed([str(esbuild), "--loader=jsx", "--log-level=error"], text)


def feed(command: list[str], text: str) -> None:
    """Fail if a program rejects a text."""
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


CHECKS = {
    "toml": tomllib.loads,
    "json": json.loads,
    "ini": check_ini,
    "dockerfile": check_dockerfile,
    "js": check_js,
    "jsx": check_jsx,
}

# What `test_code_blocks` runs, what `tests/interop/test_typescript.py` compiles, what a shell runs
# or shows, and what no program here reads.
ELSEWHERE = {"python", "ts", "console", "text", "nginx", "html"}

BLOCKS = [
    pytest.param(language, text, id=f"{page.name} {language} {number}")
    for page in PAGES
    for number, (language, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if language in CHECKS
]


@pytest.mark.parametrize(("language", "text"), BLOCKS)
def test_a_block_is_valid(language, text):
    CHECKS[language](text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_names_its_language(page):
    languages = {language for language, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    assert languages <= CHECKS.keys() | ELSEWHERE


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("toml", "a = "),
        ("json", "{'a': 1}"),
        ("ini", "a = 1"),
        ("dockerfile", "FRM python"),
        ("js", "const = 1"),
        ("jsx", "const page = <b>"),
    ],
)
def test_a_mistake_is_noticed(language, text):
    with pytest.raises((ValueError, configparser.Error, AssertionError)):
        CHECKS[language](text)
