"""The Dockerfile and the compose file of an application."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compose_spec import PyCompose
from tests.cli.generator.applications import alula
from tests.generator.journey import build_wheel

HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.fixture(params=["sqlite", "postgresql", "mongodb"])
def application(request, tmp_path, monkeypatch):
    options = [f"--database={request.param}", "--authentication"]
    alula(tmp_path, monkeypatch, "new", "shop", *options)
    return tmp_path / "shop"


def complaints_about_image(dockerfile: Path) -> str:
    """Return what hadolint says about a Dockerfile."""
    done = subprocess.run([HADOLINT, dockerfile], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def composition(folder: Path) -> dict:
    """Return the compose file, checked against its specification, with every variable set."""
    text = (folder / "compose.yaml").read_text()
    return PyCompose.from_yaml(re.sub(r"\$\{(\w+)[^}]*\}", r"value of \1", text)).to_dict()


def test_the_linter_accepts_the_dockerfile(application, tmp_path):
    assert complaints_about_image(application / "Dockerfile") == ""
    (bad := tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /tmp\n")
    assert "DL3006" in complaints_about_image(bad)


def test_the_image_runs_without_root_and_has_a_health_check(application):
    lines = (application / "Dockerfile").read_text().splitlines()
    (user,) = [line for line in lines if line.startswith("USER ")]
    assert user == "USER 10001:10001"
    assert lines.index(user) < lines.index('CMD ["alula", "serve", "--host", "0.0.0.0"]')
    assert "/health/ready" in "".join(lines)
    assert "ALULA_ENV=production" in "".join(lines)


def test_the_compose_file_is_valid(application):
    found = composition(application)
    app = found["services"]["app"]
    assert app["read_only"] is True
    assert app["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in app["security_opt"]
    secret = "SHOP_AUTHENTICATION_SECRET"
    assert app["environment"][secret] == f"value of {secret}"
    servers = {"mongodb", "postgresql"} & found["services"].keys()
    for server in servers:
        assert app["depends_on"][server]["condition"] == "service_healthy"
        assert found["services"][server]["healthcheck"]["test"]
        assert "ports" not in found["services"][server]  # nobody else gets at it
        assert server in found["volumes"]
    if "mongodb" not in servers:
        assert found["services"]["migrate"]["command"] == ["alula", "migrate"]
        condition = app["depends_on"]["migrate"]["condition"]
        assert condition == "service_completed_successfully"
        url = app["environment"]["SHOP_DATABASE_URL"]
        assert url == found["services"]["migrate"]["environment"]["SHOP_DATABASE_URL"]
    if not servers:
        assert app["volumes"] == ["data:/data"]


def test_an_invalid_compose_file_is_noticed(application):
    path = application / "compose.yaml"
    path.write_text(path.read_text().replace("read_only:", "readonly:"))
    with pytest.raises(ValueError, match="readonly"):
        composition(application)


def test_the_compose_file_requires_the_secret(application):
    text = (application / "compose.yaml").read_text()
    assert "${SHOP_AUTHENTICATION_SECRET:?" in text


def has_docker() -> bool:
    """Tell whether a Docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_the_image_can_be_built(tmp_path, monkeypatch):
    if not has_docker():
        pytest.skip("no Docker daemon answers: the image is linted and not built")
    alula(tmp_path, monkeypatch, "new", "shop")
    app = tmp_path / "shop"
    (source := tmp_path / "source").mkdir()
    shutil.copytree(build_wheel(source), app / "wheels")
    # The version that is tried here is not on the index yet, so the image gets its wheel.
    for name, old, new in (
        ("Dockerfile", "COPY pyproject.toml .", "COPY pyproject.toml wheels/*.whl ./"),
        ("Dockerfile", "--no-cache-dir .", "--no-cache-dir --find-links . ."),
        (".dockerignore", "!config/", "!config/\n!wheels/"),
    ):
        text = (app / name).read_text()
        assert old in text
        (app / name).write_text(text.replace(old, new))
    subprocess.run(["docker", "build", "--quiet", "."], cwd=app, check=True)
