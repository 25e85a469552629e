"""The page of ``report --watch``: which requests are served, and when the page is rebuilt."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from sweeper.cli import page_server
from sweeper.cli.page_server import follow, serving, table_stamps
from sweeper.store.folder import UsageError
from tests.sweeper.cli.conftest import names, refused
from tests.sweeper.cli.test_report_command import small_sweep
from tests.sweeper.conftest import hear_signals, wait_until

ROOT = Path(__file__).parents[3]
POLICY = "default-src 'none'; script-src &#39;sha256-abc=&#39;; base-uri 'none'"
PAGE = f"""<html><meta content="{POLICY}"><body>all</body></html>"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(PAGE)
    (tmp_path / "trials.csv").write_text("secret")
    return path


def get(address: str, path: str = "/", host: str | None = None) -> tuple[int, str]:
    where = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(where, timeout=20)
    connection.request("GET", path, headers={"Host": host or where})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_is_served_with_what_reloads_it(page: Path) -> None:
    with serving(page, port=0) as address:
        assert address.startswith("http://127.0.0.1:")
        status, text = get(address)
        made = get(address, "/made")
        os.utime(page, ns=(1, 1))
        assert get(address, "/made") == (200, "1")
    assert status == 200
    assert made[0] == 200
    assert "location.reload()" in text
    policy = re.search(r'content="([^"]*)"', text)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; connect-src 'self'; script-src 'sha256-\S+=' &#39;sha256-abc=&#39;; base-uri 'none'",
        policy[1],
    )
    assert page.read_text() == PAGE, "the file itself is unchanged"


def test_no_other_file_is_served_and_no_other_host_name_or_second_server_is_accepted(page: Path) -> None:
    with serving(page, port=0) as address:
        for path in ("/trials.csv", "/../trials.csv", "/checkpoints/"):
            assert get(address, path)[0] == 404
        assert get(address, host="evil.example:80")[0] == 403
        assert get(address, host="localhost:1")[0] == 200
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(UsageError, match=f"--port {port}"), serving(page, port=port):
            pass


def test_a_page_is_rebuilt_when_a_table_changes_and_survives_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "CHECK_SECONDS", 0.01)
    (tmp_path / "trials.csv").write_text("one")
    made, messages = 0, []

    class Enough(Exception):
        pass

    def make() -> None:
        nonlocal made
        made += 1
        if made == 1:
            (tmp_path / "trials.csv").write_text("one and a half")
            raise AnalysisError("half a row")
        raise Enough

    table = tmp_path / "theirs.csv"  # a CSV file as a source
    table.write_text("a")
    before = table_stamps([table])
    table.write_text("ab")
    assert table_stamps([table]) != before

    start = table_stamps([tmp_path])
    timer = threading.Timer(0.2, lambda: (tmp_path / "history.csv").write_text("two"))
    timer.start()
    with pytest.raises(Enough):
        follow([tmp_path], make, made=start, say=messages.append)
    assert len(messages) == 1
    assert "half a row" in messages[0]
    assert made == 2


def test_options_that_do_not_go_with_watch_are_refused(golden: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.json").write_text("{}")
    assert names(refused("report", run, "--watch")[0], ["--watch", str(run)])
    port, json = refused("report", golden, "--watch", "--json", "--port", "70000")
    assert names(port, ["--port", "70000"])
    assert names(json, ["--watch", "--json"])
    assert names(refused("report", golden, "--port", "8000")[0], ["--port", "--watch"])


def test_the_command_follows_the_tables_until_ctrl_c(tmp_path: Path) -> None:
    out = small_sweep(tmp_path / "out", 5.0)
    command = [sys.executable, "-m", "sweeper", "report", str(out), "--watch"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://\S+", line)
            assert address is not None, line
            made = get(address[0], "/made")[1]
            table = (out / "trials.csv").read_text()
            (out / "trials.csv").write_text(table + table.splitlines()[-1].replace("00000", "00001") + "\n")
            wait_until(lambda: get(address[0], "/made")[1] != made)
            assert "00001" in get(address[0])[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 130
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
