"""Whether the hub has what is asked for, against servers on this machine that answer, refuse, or keep silent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sweeper.hub import hub_problems

PHI = ("model", "microsoft/phi-1_5")
TOFU = ("dataset", "locuslab/TOFU")

ANSWERS: dict[str, tuple[int, dict[str, str], dict[str, object]]] = {
    "there": (200, {}, {"id": "microsoft/phi-1_5", "siblings": []}),
    "gated": (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access restricted"}, {"error": "gated"}),
    "absent": (404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Not found"}, {"error": "no"}),
    "broken": (500, {}, {"error": "sorry"}),
}


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub that gives one of ANSWERS to everything."""
    status, headers, content = ANSWERS[request.param]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        use_hub(monkeypatch, f"http://127.0.0.1:{server.server_address[1]}")
        yield request.param
        server.shutdown()


def use_hub(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", address, raising=False)


@pytest.mark.parametrize("hub", ["there"], indirect=True)
def test_a_hub_that_has_it_is_no_problem(hub: str) -> None:
    assert hub_problems([PHI, TOFU]) == []


@pytest.mark.parametrize(
    ("hub", "reason"),
    [("gated", "restricted"), ("absent", "does not exist"), ("broken", "cannot be reached")],
    indirect=["hub"],
)
def test_a_hub_that_refuses_is_quoted_with_what_can_be_done(hub: str, reason: str) -> None:
    (model,) = hub_problems([PHI])
    (dataset,) = hub_problems([TOFU])
    for text in (model, dataset):
        assert reason in text
        assert "tiny-phi" in text
    assert "microsoft/phi-1_5" in model
    assert "--model-path" in model
    assert "locuslab/TOFU" in dataset
    assert "--data-dir" in dataset


def test_a_closed_port_is_reported_at_once(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch, closed)
    begin = time.monotonic()
    (problem,) = hub_problems([PHI])
    assert time.monotonic() - begin < 5
    assert "cannot be reached" in problem
    assert "\n" not in problem


def test_a_hub_that_never_answers_is_given_up_for_all_repositories_together(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(monkeypatch, silent)
    begin = time.monotonic()
    problems = hub_problems([PHI, TOFU])
    assert time.monotonic() - begin < 8
    assert len(problems) == 2


def test_what_is_in_the_cache_needs_no_hub(closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch, closed)
    repository = tmp_path / "hub" / "models--microsoft--phi-1_5"
    revision = "0123456789abcdef0123456789abcdef01234567"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(revision)
    (repository / "snapshots" / revision).mkdir(parents=True)
    (repository / "snapshots" / revision / "config.json").write_text("{}")
    (repository / "snapshots" / revision / "model.safetensors").write_bytes(b"")
    assert hub_problems([PHI]) == []
    assert len(hub_problems([PHI, TOFU])) == 1


CHILD = """
import sys
from sweeper.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, sorted({"ray", "torch", "transformers"} & set(sys.modules)))
"""


@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_without_the_hub_a_sweep_says_the_ways_on_within_ten_seconds_and_exits(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The whole process: a request that hangs must not keep it alive."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": request.getfixturevalue(kind),
        "HF_HOME": str(tmp_path / "hf"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("HF_HUB_OFFLINE", None)
    arguments = ["pareto", "--method", "gdiff", "--model", "phi-1.5", "--out", str(tmp_path / "out")]
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments, "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert time.monotonic() - begin < 10
    assert done.stdout.strip() == "2 []"
    for way in ("--model-path", "--data-dir", "tiny-phi", "microsoft/phi-1_5", "locuslab/TOFU"):
        assert way in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_the_hub_the_way_on_with_images_is_a_data_set_of_images(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(monkeypatch, closed)
    (sentence,) = hub_problems([("dataset", "uoft-cs/cifar10")])
    assert "use --dataset digits with --model tiny-resnet, which needs no network" in sentence
