"""Check models and data on the hub, with local servers that answer, refuse, or do not respond."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweeper.checks.hub import hub_problems
from tests.sweeper.cli.conftest import invoke, names, problems_of

UseHub = Callable[[str], None]
Fill = Callable[[dict[str, bytes]], Path]
LocalHub = Any  # tests/conftest.py has the class

PHI = ("model", "microsoft/phi-1_5")
TOFU = ("dataset", "locuslab/TOFU")
WAYS = {PHI: ["microsoft/phi-1_5", "--model-path", "tiny-phi"], TOFU: ["locuslab/TOFU", "--data-dir", "tiny-phi"]}
"""The words that a message must contain: the repository, and the options that replace it."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"

Answer = tuple[int, dict[str, str], dict[str, object]]
ANSWERS: dict[str, tuple[Answer, str]] = {
    "no hub": ((404, {}, {}), "404"),
    "broken": ((500, {}, {"error": "sorry"}), "500"),
}
"""The answer of a server to every request, and a word of it that the message must contain."""


@pytest.mark.parametrize(("answer", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_the_answer_of_a_hub_that_refuses_is_reported(answer: Answer, reason: str, use_hub: UseHub) -> None:
    status, headers, content = answer

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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use_hub(f"http://127.0.0.1:{server.server_address[1]}")
        for repository, ways in WAYS.items():
            (problem,) = hub_problems([repository])
            assert names(problem, [reason, *ways])
        server.shutdown()


def test_a_closed_port_is_one_message_with_the_ways_that_need_no_network(
    dead_uri: str, cache: Fill, use_hub: UseHub
) -> None:
    use_hub(dead_uri)
    (model,) = hub_problems([PHI])
    assert names(model, WAYS[PHI])
    assert "\n" not in model
    cache(WHOLE)
    assert hub_problems([PHI]) == []
    (images,) = hub_problems([("dataset", "uoft-cs/cifar10")])
    assert names(images, ["--dataset digits", "--model tiny-resnet"])


def safetensors(*, cut: int = 0) -> bytes:
    """Return a file with one float32 tensor of four zeros, without its last ``cut`` bytes."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(16)
    return content[: len(content) - cut]


def model_files(*names: str) -> dict[str, bytes]:
    """Return the contents of a model's files by name. Files ending in .safetensors are complete."""
    files = {name: safetensors() if name.endswith(".safetensors") else b"{}" for name in names}
    if shards := [name for name in names if "-of-" in name]:
        total = int(shards[0].partition("-of-")[2].removesuffix(".safetensors"))
        everything = [f"model-{number:05}-of-{total:05}.safetensors" for number in range(1, total + 1)]
        files["model.safetensors.index.json"] = json.dumps({"weight_map": dict(enumerate(everything))}).encode()
    return files


WHOLE = model_files("config.json", "tokenizer.json", "model.safetensors")
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
REPOSITORIES = {
    "absent": ({}, "exist"),
    # The hub's answer for Llama-2: the listing is public, but the files are not.
    "gated, not logged in": ({**WHOLE, ".gated": b"401"}, "hf auth login"),
    "gated": ({**WHOLE, ".gated": b"403"}, "hf auth login"),
    "no config": (model_files("tokenizer.json", "model.safetensors"), "config.json"),
    "no weights": (model_files("config.json", "tokenizer.json", "pytorch_model.bin"), "*.safetensors"),
    "no tokenizer": (model_files("config.json", "model.safetensors"), "tokenizer"),
    "a shard missing": (model_files("config.json", "tokenizer.json", SHARDS[0]), SHARDS[1]),
}


@pytest.fixture
def cache(tmp_path: Path) -> Fill:
    """Put files into the local cache as the main commit of microsoft/phi-1_5."""

    def fill(files: dict[str, bytes]) -> Path:
        repository = tmp_path / "hub" / "models--microsoft--phi-1_5"
        folder = repository / "snapshots" / COMMIT
        for path, content in (
            (repository / "refs" / "main", COMMIT.encode()),
            *((folder / n, files[n]) for n in files),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder

    return fill


@pytest.mark.parametrize(("files", "reason"), REPOSITORIES.values(), ids=REPOSITORIES)
def test_a_repository_that_cannot_be_used_ends_a_sweep_before_anything_is_fetched(
    local_hub: LocalHub, tmp_path: Path, out: Path, files: dict[str, bytes], reason: str
) -> None:
    if files:
        local_hub.add("models", PHI[1], files)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    (problem,) = problems_of(
        invoke("pareto", "--model", "phi-1.5", "--dataset", "authors", "--out", out, "--tracking-uri", uri)
    )
    assert names(problem, [PHI[1], reason])
    assert not (tmp_path / "hub").exists()
    assert not out.exists()


def test_what_the_hub_has_is_no_problem_and_completes_a_half_filled_cache(local_hub: LocalHub, cache: Fill) -> None:
    local_hub.add("models", PHI[1], WHOLE)
    local_hub.add("datasets", TOFU[1], {"README.md": b""})
    assert hub_problems([PHI, TOFU]) == []
    cache(model_files("config.json"))
    assert hub_problems([PHI]) == []


@pytest.mark.parametrize("case", ["no weights", "a shard missing"])
def test_without_the_hub_the_files_that_a_half_filled_cache_lacks_are_named(
    dead_uri: str, cache: Fill, use_hub: UseHub, case: str
) -> None:
    use_hub(dead_uri)
    files, lacking = REPOSITORIES[case]
    cache(files)
    (problem,) = hub_problems([PHI])
    assert names(problem, [lacking, "cache", "reached"])


def test_a_torn_file_in_the_cache_is_named_with_its_place(local_hub: LocalHub, cache: Fill) -> None:
    """Even if the hub responds, because its client would accept the torn file."""
    local_hub.add("models", PHI[1], WHOLE)
    folder = cache({**WHOLE, "model.safetensors": safetensors(cut=16)})
    (problem,) = hub_problems([PHI])
    assert names(problem, ["model.safetensors", str(folder)])


CHILD = """
import sys
from sweeper.cli.main import main
from sweeper.checks import hub as hub_check
hub_check.TIMEOUT_SECONDS = 2.0
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, sorted({"ray", "torch", "transformers"} & set(sys.modules)))
"""


def test_a_silent_hub_does_not_keep_the_process_alive(hung_uri: str, tmp_path: Path, out: Path) -> None:
    environment = {
        **os.environ,
        "HF_ENDPOINT": hung_uri,
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("HF_HUB_OFFLINE", None)
    arguments = ["pareto", "--method", "gdiff", "--model", "phi-1.5", "--out", str(out)]
    command = [sys.executable, "-c", CHILD, *arguments, "--tracking-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "2 []"
    assert names(done.stderr, [*WAYS[PHI], *WAYS[TOFU]])
    assert "Traceback" not in done.stderr
    assert not out.exists()
