"""How much memory does a trial need? Compares measurements on a CPU with the formula in docs/howto.md.

    python benchmarks/memory.py [--width 512] [--layers 12]

Each trial trains a Phi with random weights for two steps of AdamW on eight forget and eight retain questions, and
evaluates it. Trials use gdiff (one gradient) or ngdiff (two gradients), with all weights or with LoRA of rank 8. Each
trial runs in its own process with one thread. The script measures the peak growth of the resident memory after the
weights were loaded. The formula counts 4 bytes per trained parameter for gradients and 8 bytes for the state of AdamW.
The rest is activations, logits, imports and temporaries. Before the trials, the script prints the private memory of a
worker, with memory-mapped weights and with copied weights. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from trainables.data.examples import Example, UnlearningData
from trainables.target.target import Target
from trainables.template import QUESTION_ANSWER

CASES = tuple((method, rank) for rank in (0, 8) for method in ("gdiff", "ngdiff"))
GRADIENTS = {"gdiff": 1, "ngdiff": 2}
NAMES = ("Ada", "Bo", "Cleo", "Dov", "Esme", "Finn", "Gus", "Hana")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--kept", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.kept:
        measure_worker(Path(given.model), copied=given.kept == "copied")
        return
    if given.case:
        method, _, rank = given.case.partition(",")
        measure(Path(given.model), method, int(rank))
        return
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), width=given.width, layers=given.layers)
        os.sync()  # until it is on the disk what is mapped of it counts as a process's own
        for kept in ("mapped", "copied"):
            command = [sys.executable, __file__, "--model", folder, "--kept", kept]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            weights, own = map(int, done.stdout.split()[-2:])
            print(f"weights {kept}: {weights / 1e6:.1f} MB, a worker's own memory {own / 1e6:.1f} MB")
        print(f"{'':8} {'trained':>10} {'gradients':>10} {'AdamW':>10} {'formula':>10} {'measured':>10}")
        for method, rank in CASES:
            command = [sys.executable, __file__, "--model", folder, "--case", f"{method},{rank}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            trained, grown = map(int, done.stdout.split()[-2:])
            parts = [4 * trained * GRADIENTS[method], 8 * trained]
            shown = " ".join(f"{part / 1e6:7.1f} MB" for part in (*parts, sum(parts), grown))
            print(f"{method:8} {trained / 1e6:8.1f} M {shown}  {f'LoRA {rank}' if rank else 'all weights'}", flush=True)


def make_model(folder: Path, *, width: int, layers: int) -> None:
    """Write a random Phi with a tokenizer for the data into the folder."""
    import torch
    from transformers import PhiConfig, PhiForCausalLM

    from trainables.models.checkpoints import save_model
    from trainables.models.tiny import train_tokenizer

    tokenizer = train_tokenizer(problem().full)
    torch.manual_seed(0)
    config = PhiConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=8,
        max_position_embeddings=128,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    save_model(PhiForCausalLM(config), tokenizer, folder)


def problem() -> UnlearningData:
    """Return a problem in which the model forgets where eight people live and keeps what they eat."""

    def asked(verb: str, things: str) -> tuple[Example, ...]:
        return tuple(
            Example(f"{verb} does {name}?", f"{name}: {thing}", f"It is {thing}", (f"It is not {thing}",))
            for name, thing in zip(NAMES, things.split(), strict=True)
        )

    forget = asked("Where lives", "Oslo Lima Quito Riga Bonn Nice Kyoto Turin")
    retain = asked("What eats", "plums rice soup figs cheese bread cake nuts")
    return UnlearningData("people", forget, retain, (*retain, *forget), forget, retain)


def measure_worker(folder: Path, *, copied: bool) -> None:
    """Print the bytes of the weights, and the private bytes of a process that is ready for a trial."""
    import torch

    from trainables.modality import modality_of
    from trainables.models import stored_weights
    from trainables.run.workspace import Workspace

    if copied:
        vars(stored_weights)["_is_equal"] = lambda stored, now: False
    torch.set_num_threads(1)
    modality_of(problem(), QUESTION_ANSWER).load_model(folder)  # imports what it needs
    before = status("Private_Dirty", "smaps_rollup")
    ready = Workspace(target_of(folder), device="cpu")
    weights = sum(4 * parameter.numel() for parameter in ready.model_for().parameters())
    print(weights, status("Private_Dirty", "smaps_rollup") - before)


def target_of(folder: Path) -> Target:
    """Return the model in the folder as the target of the problem."""
    data = problem()
    classes = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    return Target("0" * 16, str(folder), data, classes, {}, (0.0,) * len(data.forget))


def measure(folder: Path, method: str, rank: int) -> None:
    """Print the number of trained parameters, and the peak growth of this process in bytes during a trial."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.run.workspace import Workspace
    from trainables.spec import TrialSpec

    torch.set_num_threads(1)
    workspace = Workspace(target_of(folder), device="cpu")
    spec = TrialSpec(method=method, lora_rank=rank or None, epochs=1, batch_size=4, max_length=64, eval_batch_size=4)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    run = UnlearningRun(spec, workspace)
    for _ in run:
        pass
    trained = sum(parameter.numel() for parameter in run.model.parameters() if parameter.requires_grad)
    print(trained, status("VmHWM") - before)


def status(name: str, file: str = "status") -> int:
    """Return the number of bytes that the line ``name`` of this process's status file gives."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/self/{file}").read_text(), re.MULTILINE)
    assert found is not None, "this needs Linux"
    return 1024 * int(found[1])


if __name__ == "__main__":
    main()
