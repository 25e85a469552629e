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

import pytest

from sweeper.checks.hub import hub_problems
from tests.sweeper.cli.conftest import names

Files = dict[str, bytes]

PHI = ("model", "microsoft/phi-1_5")
TOFU = ("dataset", "locuslab/TOFU")
WAYS = {
    PHI: ["--model-path DIR ('hf download microsoft/phi-1_5 --local-dir DIR'", "tiny-phi"],
    TOFU: ["--data-dir DIR ('hf download locuslab/TOFU --repo-type dataset --local-dir DIR'", "tiny-phi"],
}
"""The words that a message must contain: the repository, and the options that replace it."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_status_of_a_hub_that_refuses_is_reported_with_the_ways_on(use_hub: Callable[[str], None]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # answers 501 to every request
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use_hub(f"http://127.0.0.1:{server.server_address[1]}")
        problems = hub_problems([*WAYS])
        server.shutdown()
    assert all(names(problem, ["501", *ways]) for problem, ways in zip(problems, WAYS.values(), strict=True))


HEADER = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(16)
"""A safetensors file with four zeros."""
SHARDS = [f"model-{number:05}-of-00002.safetensors" for number in (1, 2)]
INDEX = json.dumps({"weight_map": dict(enumerate(SHARDS))}).encode()


CONFIG, TOKENIZER, MODEL = {"config.json": b"{}"}, {"tokenizer.json": b"{}"}, {"model.safetensors": WEIGHTS}
WHOLE = CONFIG | TOKENIZER | MODEL
SHARD_MISSING = CONFIG | TOKENIZER | {SHARDS[0]: WEIGHTS, "model.safetensors.index.json": INDEX}
REPOSITORIES: dict[str, tuple[Files | None, Files, str | None]] = {
    "whole": (WHOLE, {}, None),
    "absent": ({}, {}, "exist"),
    # The hub's answer for Llama-2: the listing is public, but the files are not.
    "gated, not logged in": ({**WHOLE, ".gated": b"401"}, {}, "hf auth login"),
    "no config": (TOKENIZER | MODEL, {}, "config.json"),
    "no weights": (CONFIG | TOKENIZER | {"pytorch_model.bin": b""}, {}, "*.safetensors"),
    "no tokenizer": (CONFIG | MODEL, {}, "tokenizer"),
    "the cache is completed": (WHOLE, CONFIG, None),
    # Even if the hub answers, its client would accept the torn file.
    "torn in the cache": (WHOLE, WHOLE | {"model.safetensors": WEIGHTS[:-16]}, f"model.safetensors {COMMIT}"),
    "no hub": (None, {}, "reached --model-path tiny-phi"),
    "no hub, but cached": (None, WHOLE, None),
    "no hub, no weights cached": (None, CONFIG | TOKENIZER, "*.safetensors cache reached"),
    "no hub, a shard not cached": (None, SHARD_MISSING, f"{SHARDS[1]} cache reached"),
}
"""The files of microsoft/phi-1_5 on the hub (None: no hub) and in the cache, and words of the problem."""


@pytest.mark.parametrize(("on_hub", "cached", "named"), REPOSITORIES.values(), ids=REPOSITORIES)
def test_a_model_that_can_be_neither_loaded_nor_downloaded_is_named(
    request: pytest.FixtureRequest, tmp_path: Path, on_hub: Files | None, cached: Files, named: str | None
) -> None:
    if on_hub is None:
        request.getfixturevalue("use_hub")(request.getfixturevalue("dead_uri"))
    elif hub := request.getfixturevalue("local_hub"):
        hub.add("datasets", TOFU[1], {"README.md": b""})
        if on_hub:
            hub.add("models", PHI[1], on_hub)
        assert hub_problems([TOFU]) == []
    repository = tmp_path / "hub" / "models--microsoft--phi-1_5"
    contents = {f"snapshots/{COMMIT}/{name}": content for name, content in cached.items()}
    for name, content in (contents | {"refs/main": COMMIT.encode()} if cached else {}).items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(content)
    problems = hub_problems([PHI])
    assert len(problems) == (named is not None)
    assert all(names(problem, [PHI[1], *str(named).split()]) for problem in problems)


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
    assert done.stdout.strip() == "2 []", "exit code 2, without heavy imports"
    assert names(done.stderr, [*WAYS[PHI], *WAYS[TOFU]])
    assert "Traceback" not in done.stderr
    assert not out.exists()
