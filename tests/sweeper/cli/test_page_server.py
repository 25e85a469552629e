"""``report``: the figures of a run, and the page of ``--watch``: which requests are served, when it is rebuilt."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from analysis.errors import AnalysisError
from sweeper.cli import page_server
from sweeper.cli.page_server import serving, table_stamps, watch
from sweeper.store.folder import UsageError
from tests.sweeper.cli.conftest import invoke, json_of

POLICY = "default-src 'none'; script-src &#39;sha256-abc=&#39;; base-uri 'none'"
PAGE = f"""<html><meta content="{POLICY}"><body>all</body></html>"""


def get(address: str, path: str = "/", host: str | None = None) -> tuple[int, str]:
    where = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(where, timeout=20)
    connection.request("GET", path, headers={"Host": host or where})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_is_served_with_what_reloads_it_and_no_other_file_host_or_second_server(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(PAGE)
    (tmp_path / "trials.csv").write_text("secret")
    with serving(page, port=0) as address:
        assert address.startswith("http://127.0.0.1:")
        status, text = get(address)
        assert (status, "location.reload()" in text) == (200, True)
        (policy,) = re.findall(r'content="([^"]*)"', text)
        added = r"connect-src 'self'; script-src 'sha256-\S+=' &#39;sha256-abc=&#39;"
        assert re.fullmatch(rf"default-src 'none'; {added}; base-uri 'none'", policy)
        assert page.read_text() == PAGE, "the file itself is unchanged"
        os.utime(page, ns=(1, 1))
        assert get(address, "/made") == (200, "1")
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
    table = tmp_path / "theirs.csv"
    table.write_text("one")
    errors, messages = [ZeroDivisionError("a bug"), AnalysisError("half a row")], list[str]()

    def make() -> None:
        table.write_text("one and a half")
        raise errors.pop()

    with pytest.raises(ZeroDivisionError):
        watch([table], make, stamps=(), say=messages.append)
    assert ["half a row" in message for message in messages] == [True]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["no file is written", "the files are written to --out"])
def test_the_command_serves_the_report_and_rebuilds_it_until_ctrl_c(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    header, first, *_ = (golden / "trials.csv").read_text().splitlines(keepends=True)
    (golden / "trials.csv").write_text(header + first)
    (golden / "history.csv").unlink()
    changed = header + first + first.replace("00000", "00099")
    served: list[tuple[str, Path]] = []

    @contextlib.contextmanager
    def serve(page: Path, *, port: int) -> Iterator[str]:
        with serving(page, port=port) as address:
            served.append((address, page))
            yield address

    def change(sources: Sequence[Path], make: Callable[[], None], *, stamps: object, say: object) -> None:
        assert table_stamps(sources) == stamps
        (golden / "trials.csv").write_text(changed)
        assert table_stamps(sources) != stamps
        assert "00099" not in get(served[0][0])[1]
        make()
        assert "00099" in get(served[0][0])[1]
        raise KeyboardInterrupt

    before = {path: path.read_bytes() for path in golden.rglob("*") if path.is_file()}
    monkeypatch.setattr(page_server, "serving", serve)
    monkeypatch.setattr(page_server, "watch", change)
    result = invoke("report", golden, "--watch", *(["--out", tmp_path / "out"] if elsewhere else []))
    assert (result.exit_code, "http://127.0.0.1:" in result.stdout) == (130, True)
    assert "error" not in f"{result.stdout}{result.stderr}".lower()
    before[golden / "trials.csv"] = changed.encode()
    assert {path: path.read_bytes() for path in golden.rglob("*") if path.is_file()} == before
    assert served[0][1].is_file() == elsewhere
    assert (tmp_path / "out" / "report.html").is_file() == elsewhere


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
