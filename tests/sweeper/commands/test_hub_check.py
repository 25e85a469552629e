"""Whether the hub has what is asked for, against servers on this machine that answer, refuse, or keep silent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweeper.commands.hub_check import hub_problems

UseHub = Callable[[str], None]
LocalHub = Any  # tests/conftest.py has the class

PHI = ("model", "microsoft/phi-1_5")
TOFU = ("dataset", "locuslab/TOFU")

ANSWERS: dict[str, tuple[int, dict[str, str], dict[str, object]]] = {
    "gated": (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access restricted"}, {"error": "gated"}),
    "absent": (404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Not found"}, {"error": "no"}),
    "no hub": (404, {}, {}),
    "broken": (500, {}, {"error": "sorry"}),
}


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
def hub(request: pytest.FixtureRequest, use_hub: UseHub) -> Iterator[str]:
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
        use_hub(f"http://127.0.0.1:{server.server_address[1]}")
        yield request.param
        server.shutdown()


@pytest.mark.parametrize(
    ("hub", "reason"),
    [
        ("gated", "restricted"),
        ("absent", "does not exist"),
        ("broken", "the hub answered 500"),
        ("no hub", "the hub answered 404"),
    ],
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


def test_a_closed_port_is_reported_at_once(closed: str, use_hub: UseHub) -> None:
    use_hub(closed)
    begin = time.monotonic()
    (problem,) = hub_problems([PHI])
    assert time.monotonic() - begin < 5
    assert "cannot be reached" in problem
    assert "\n" not in problem


def test_a_hub_that_never_answers_is_given_up_for_all_repositories_together(silent: str, use_hub: UseHub) -> None:
    use_hub(silent)
    begin = time.monotonic()
    problems = hub_problems([PHI, TOFU])
    assert time.monotonic() - begin < 8
    assert len(problems) == 2


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def safetensors(*, cut: int = 0) -> bytes:
    """A file of one float32 tensor of four zeros, less its last ``cut`` bytes."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(16)
    return content[: len(content) - cut]


def model_files(*names: str) -> dict[str, bytes]:
    """A model's files by name; what ends in .safetensors is whole."""
    files = {name: safetensors() if name.endswith(".safetensors") else b"{}" for name in names}
    if shards := [name for name in names if "-of-" in name]:
        total = int(shards[0].partition("-of-")[2].removesuffix(".safetensors"))
        everything = [f"model-{number:05}-of-{total:05}.safetensors" for number in range(1, total + 1)]
        files["model.safetensors.index.json"] = json.dumps({"weight_map": dict(enumerate(everything))}).encode()
    return files


WHOLE = model_files("config.json", "tokenizer.json", "model.safetensors")
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.fixture
def cache(tmp_path: Path) -> Callable[[dict[str, bytes]], Path]:
    """Puts files into the local cache as the main commit of microsoft/phi-1_5."""

    def fill(files: dict[str, bytes]) -> Path:
        repository = tmp_path / "hub" / "models--microsoft--phi-1_5"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text(COMMIT)
        write(repository / "snapshots" / COMMIT, files)
        return repository / "snapshots" / COMMIT

    return fill


def test_a_hub_that_has_it_is_no_problem(local_hub: LocalHub) -> None:
    local_hub.add("models", PHI[1], WHOLE)
    local_hub.add("datasets", TOFU[1], {"README.md": b""})
    assert hub_problems([PHI, TOFU]) == []


def test_what_is_in_the_cache_needs_no_hub(
    closed: str, cache: Callable[[dict[str, bytes]], Path], use_hub: UseHub
) -> None:
    use_hub(closed)
    cache(WHOLE)
    assert hub_problems([PHI]) == []
    assert len(hub_problems([PHI, TOFU])) == 1


def test_a_model_that_is_not_there_is_told_in_one_sentence(local_hub: LocalHub) -> None:
    (problem,) = hub_problems([PHI])
    assert problem.startswith("cannot get the model microsoft/phi-1_5 from the hub: it does not exist there")


@pytest.mark.parametrize("status", [b"401", b"403"])
def test_a_model_whose_listing_is_open_and_whose_files_are_not_is_told_to_be_gated(
    local_hub: LocalHub, status: bytes
) -> None:
    """As the hub answers for Llama-2: whoever asks sees that there is such a model, and may not read it."""
    local_hub.add("models", PHI[1], {**WHOLE, ".gated": status})
    (problem,) = hub_problems([PHI])
    assert "accept its terms" in problem
    assert "hf auth login" in problem


REPOSITORIES = {
    "no config": (model_files("tokenizer.json", "model.safetensors"), "no config.json"),
    "no weights": (model_files("config.json", "tokenizer.json", "pytorch_model.bin"), "no *.safetensors weights"),
    "no tokenizer": (model_files("config.json", "model.safetensors"), "no tokenizer"),
    "a shard missing": (
        model_files("config.json", "tokenizer.json", SHARDS[0]),
        f"{SHARDS[1]} is missing (1 of 2 weight files)",
    ),
}


@pytest.mark.parametrize("case", REPOSITORIES)
def test_a_half_filled_repository_is_told_before_anything_is_fetched(
    local_hub: LocalHub, case: str, tmp_path: Path
) -> None:
    files, reason = REPOSITORIES[case]
    local_hub.add("models", PHI[1], files)
    (problem,) = hub_problems([PHI])
    assert reason in problem
    assert not (tmp_path / "hub").exists()


def test_a_half_filled_cache_is_completed_where_the_hub_answers(
    local_hub: LocalHub, cache: Callable[[dict[str, bytes]], Path]
) -> None:
    cache(model_files("config.json"))
    local_hub.add("models", PHI[1], WHOLE)
    assert hub_problems([PHI]) == []


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (model_files("config.json", "tokenizer.json"), "no *.safetensors weights"),
        (model_files("config.json", "tokenizer.json", SHARDS[0]), f"{SHARDS[1]} is missing"),
    ],
)
def test_a_half_filled_cache_without_the_hub_is_told_with_what_is_missing(
    closed: str,
    cache: Callable[[dict[str, bytes]], Path],
    use_hub: UseHub,
    files: dict[str, bytes],
    reason: str,
) -> None:
    use_hub(closed)
    cache(files)
    (problem,) = hub_problems([PHI])
    assert "only a part of it is in the local cache" in problem
    assert reason in problem
    assert "cannot be reached" in problem


@pytest.mark.parametrize("cut", [1, 16, 60])
def test_a_torn_file_in_the_cache_is_told_with_where_it_lies(
    local_hub: LocalHub, cache: Callable[[dict[str, bytes]], Path], cut: int
) -> None:
    """Also with the hub at hand, whose client would take the torn file for the whole one."""
    local_hub.add("models", PHI[1], WHOLE)
    folder = cache({**WHOLE, "model.safetensors": safetensors(cut=cut)})
    (problem,) = hub_problems([PHI])
    assert "model.safetensors is not whole" in problem
    assert str(folder) in problem


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
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]),
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


def test_without_the_hub_the_way_on_with_images_is_a_data_set_of_images(closed: str, use_hub: UseHub) -> None:
    use_hub(closed)
    (sentence,) = hub_problems([("dataset", "uoft-cs/cifar10")])
    assert "use --dataset digits with --model tiny-resnet, which needs no network" in sentence


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "it does not exist there"),
        ({**WHOLE, ".gated": b"403"}, "access to it is restricted"),
        (REPOSITORIES["a shard missing"][0], "is missing (1 of 2 weight files)"),
    ],
    ids=["missing", "gated", "half uploaded"],
)
def test_a_repository_that_cannot_be_had_ends_a_sweep_before_it_begins(
    local_hub: LocalHub, tmp_path: Path, files: dict[str, bytes], reason: str
) -> None:
    local_hub.add("models", "meta-llama/Llama-2-7b-hf", files)
    environment = {
        **os.environ,
        "HF_ENDPOINT": local_hub.address,
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("HF_HUB_OFFLINE", None)
    begin = time.monotonic()
    arguments = ["pareto", "--model", "llama2-7b", "--dataset", "authors", "--out", str(tmp_path / "out")]
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
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: cannot get the model meta-llama/Llama-2-7b-hf from the hub: ")
    assert reason in line
    assert not (tmp_path / "out").exists()
