"""How `alula dev` and `alula serve` read their options."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from alula._cli import main
from alula._cli.serving import reloader, supervisor
from alula._cli.serving.worker_process import WorkerSettings
from alula._cli.terminal import UsageError

NAMES = ("PORT", "WEB_CONCURRENCY", "FORWARDED_ALLOW_IPS")


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Return what would be run, and the result of the command."""
    monkeypatch.chdir(tmp_path)
    seen = []

    def note(status):
        return lambda *given, **named: seen.append((given, named)) or status

    monkeypatch.setattr(supervisor, "serve_with_workers", note(5))
    monkeypatch.setattr(reloader, "serve_with_reload", note(6))

    def run(*arguments, **environment):
        env = {**dict.fromkeys(NAMES), **environment}
        result = CliRunner().invoke(main, arguments, env=env)
        return (*(seen[-1] if seen else ((), {})), result)

    return run


def test_serve_as_it_is(asked):
    (settings,), where, result = asked("serve")
    assert result.exit_code == 5
    assert settings == WorkerSettings("app:app", late_request_seconds=1, worker_timeout=30)
    assert settings.workers == 1
    assert where == {"host": "127.0.0.1", "port": 3030, "path": None}
    assert (settings.development, settings.announce) == (False, False)


def test_serve_with_options(asked, tmp_path):
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).touch()
    (settings,), where, _ = asked(
        "serve",
        "shop:app",
        "--host",
        "0.0.0.0",
        "-p",
        "80",
        "-w",
        "4",
        "--uds",
        "/run/s",
        "--graceful-timeout",
        "7.5",
        "--drain",
        "3",
        "--no-access-log",
        "--proxy-headers",
        "--forwarded-allow-ips",
        "10.0.0.5",
        "--ssl-certfile",
        "c.pem",
        "--ssl-keyfile",
        "k.pem",
        "--watch-loop",
        "0.5",
        "--worker-timeout",
        "9",
        "--keep-alive",
        "5",
        "--read-timeout",
        "2",
        "--write-timeout",
        "3",
        "--min-rate",
        "44",
        "--max-unread-bytes",
        "5000000",
    )
    assert settings == WorkerSettings(
        "shop:app",
        late_request_seconds=1,
        workers=4,
        graceful_timeout=7.5,
        drain=3,
        access_log=False,
        watch_loop=0.5,
        worker_timeout=9,
        keep_alive=5,
        read_timeout=2,
        write_timeout=3,
        min_rate=44,
        max_unread_bytes=5_000_000,
        proxy_headers=True,
        forwarded_allow_ips="10.0.0.5",
        ssl_certfile="c.pem",
        ssl_keyfile="k.pem",
    )
    assert where == {"host": "0.0.0.0", "port": 80, "path": "/run/s"}


def test_serve_by_its_environment(asked):
    (settings,), where, _ = asked("serve", PORT="81", WEB_CONCURRENCY="3", FORWARDED_ALLOW_IPS="*")
    assert (where["port"], settings.workers, settings.forwarded_allow_ips) == (81, 3, "*")


def test_dev(asked, tmp_path):
    (tmp_path / "more").mkdir()
    (settings, host, port, watched), _, result = asked("dev", "--watch", "more", "-p", "0")
    assert result.exit_code == 6
    assert (settings.development, settings.announce, settings.access_log) == (True, True, True)
    assert settings.late_request_seconds == 0  # nobody waits for a restart
    assert settings.watch_loop == 0.2
    assert (host, port, watched) == ("127.0.0.1", 0, [Path("more")])


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--port", "99999"),
        ("serve", "--workers", "0"),
        ("serve", "--drain", "-1"),
        ("serve", "--ssl-certfile", "nowhere.pem"),
        ("dev", "--watch", "nowhere"),
        ("dev", "--workers", "2"),
        ("dev", "--watch-loop", "-1"),
    ],
)
def test_invalid_options_exit_with_2(asked, arguments):
    *_, result = asked(*arguments)
    assert result.exit_code == 2


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_a_port_in_use_is_reported(monkeypatch, command):
    def fail(*_, **__):
        raise UsageError("cannot listen on here:80: Address already in use; choose another port")

    monkeypatch.setattr(supervisor, "serve_with_workers", fail)
    monkeypatch.setattr(reloader, "serve_with_reload", fail)
    result = CliRunner().invoke(main, [command])
    assert result.exit_code == 2
    assert "alula: cannot listen on here:80: Address already in use" in result.stderr
