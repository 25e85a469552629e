"""``report``: the figures of a run, and the page of ``--watch``: which requests are served, when it is rebuilt."""

from __future__ import annotations

import http.client
import json
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
from sweeper.store.columns import column_dictionary
from sweeper.store.folder import UsageError
from tests.sweeper.cli.conftest import json_of
from tests.sweeper.conftest import hear_signals, wait_until

ROOT = Path(__file__).parents[3]
POLICY = "default-src 'none'; script-src &#39;sha256-abc=&#39;; base-uri 'none'"
HEADER = "trial_id,spec_hash,model,dataset,method,lr,seed,status,forget_loss_capped,retain_loss,checkpoint,error\n"
BOUNDS = {"low": 0.0, "high": 8.0}
COLUMNS = column_dictionary(random_guess=8.0, unit="token")
PAGE = f"""<html><meta content="{POLICY}"><body>all</body></html>"""


def small_sweep(folder: Path) -> Path:
    folder.mkdir()
    forget_loss = {"name": "forget_loss", "column": "forget_loss_capped", "direction": "max", **BOUNDS}
    objectives = [forget_loss, {"name": "retain_loss", "direction": "min", **BOUNDS}]
    (folder / "sweep.json").write_text(json.dumps({"format": 2, "objectives": objectives, "columns": COLUMNS}))
    (folder / "trials.csv").write_text(f"{HEADER}00000,ab,tiny-phi,authors,ga,1e-4,0,finished,5.0,1.0,,\n")
    return folder


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


def test_the_command_follows_the_tables_until_ctrl_c(tmp_path: Path) -> None:
    out = small_sweep(tmp_path / "out")
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


def test_the_figures_of_a_single_run_are_written_where_asked(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    values = {"trial_id": "ab", "spec_hash": "ab", "model": "tiny-phi", "dataset": "authors", "method": "ga"}
    (run / "metrics.json").write_text(json.dumps(values | {"lr": 1e-4, "seed": 0, "status": "finished"}))
    history = "".join(f"ab,{step},{step},{step},1.0\n" for step in (1, 2, 3))
    (run / "history.csv").write_text(f"trial_id,step,epoch,forget_loss,retain_loss\n{history}")
    figures = [Path(figure) for figure in json_of("report", run, "--out", out)["figures"]]
    assert figures
    assert all(figure.parent == out / "figures" and figure.is_file() for figure in figures)
    assert not (run / "figures").exists()
