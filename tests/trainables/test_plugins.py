"""Plug-ins: what a file must hold, what a broken one is told, and whose trials its content names.

Here nothing is added to the registries of this process; tests/sweeper/test_plugins.py drives commands.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainables import plugins
from trainables.plugins import Part, Plugin, PluginError
from trainables.spec import TrialSpec
from trainables.template import CHAT

TOY = """
from trainables.weightings.base import Needs, Weighting, Weights

WEIGHTING = Weighting(
    name="toy",
    formula="(1, 1)",
    needs=Needs.LOSSES,
    weigh=lambda losses, gramian, state, options: (Weights(1.0, 1.0), state),
    citation="Toy 2026",
)
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return path


def test_a_file_is_read_with_its_parts_and_where_they_are(written: Path) -> None:
    plugin = plugins.read(written)
    assert (plugin.name, plugin.place, plugin.source) == ("toy.py", str(written), TOY)
    assert [(part.kind, part.name, part.line) for part in plugin.parts] == [("weighting", "toy", 4)]


def test_several_parts_of_a_kind_are_a_tuple(written: Path) -> None:
    written.write_text(TOY.replace("WEIGHTING =", "ONE =") + "WEIGHTING = (ONE,)\n")
    assert [part.name for part in plugins.read(written).parts] == ["toy"]


def test_a_jinja_file_is_a_template_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("Q {{ question }}\nA {{ answer }}\n")
    (part,) = plugins.read(path).parts
    assert (part.kind, part.name, part.entry.text) == ("template", "mine", "Q {{ question }}\nA {{ answer }}")


BROKEN = {
    "x = 1\nWEIGHTING = (\n": "line 2: '(' was never closed",
    "x = 1\nimport nowhere_at_all\n": "line 2: ModuleNotFoundError: No module named 'nowhere_at_all'",
    "def f():\n    return 1 / 0\n\n\nf()\n": "line 2: ZeroDivisionError: division by zero",
    "import sys\nsys.exit(3)\n": "line 2: SystemExit: 3",
    "METRIC = 1\n": "there is no part in it: expected WEIGHTING, OBJECTIVE, METRICS, DATASETS, MODELS or "
    "TEMPLATES (docs/extend.md); did you mean 'METRICS'?",
    "\nWEIGHTING = max\n": "line 2: WEIGHTING holds a builtin_function_or_method, expected a Weighting",
    TOY.replace('"toy"', '"a+b"'): "line 4: the name 'a+b' is none",
    "MODELS = __import__('dataclasses').replace("
    "__import__('trainables.models.registry').models.registry.local_model('own'), make=None)\n": "neither hub_id",
}


@pytest.mark.parametrize(("text", "told"), BROKEN.items(), ids=range(len(BROKEN)))
def test_what_is_broken_is_told_with_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(PluginError) as caught:
        plugins.read(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Q: {question}", "there is no {answer} in it"),
        ("{question} {answer} {answer}", "says the answer more than once"),
        ("A: {answer} Q: {question}", "the question must come before the answer"),
        ("{{ question }}", "says the answer 0 times"),
        ("{{ answer }}{{ question }}", "the question must come before the answer"),
        ("one\n{{ question }} {{ anser }}", "'anser' is undefined"),
        ("one\n{{ question }\n{{ answer }}", "line 2: "),
    ],
)
def test_a_template_that_cannot_be_one_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(text)
    with pytest.raises(PluginError) as caught:
        plugins.read(path)
    assert told in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"no such file; expected a \.py file with WEIGHTING"):
        plugins.read(tmp_path / "none.py")


def test_what_comes_after_the_registries_were_looked_at_is_refused(written: Path) -> None:
    from trainables.weightings import WEIGHTINGS

    assert "gdiff" in WEIGHTINGS
    with pytest.raises(PluginError, match="comes too late, or has changed"):
        plugins.use([plugins.read(written)])


def of(kind: str, name: str, digest: str) -> Plugin:
    """A plug-in that is taken to have brought a part of the project's own."""
    return Plugin(f"{name}.py", f"{name}.py", "", digest, (Part(kind, name, None, 1),))


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("weighting", "ngdiff", {"method": "npo+ngdiff"}),
        ("objective", "npo", {"method": "npo+ngdiff"}),
        ("metric", "mia_loss", {"metrics": ("mia_loss",)}),
        ("metric", "verbmem", {}),
        ("data set", "jsonl", {"dataset": "jsonl"}),
        ("model", "phi-1.5", {"model": "phi-1.5"}),
        ("template", CHAT, {"template": CHAT}),
    ],
)
def test_a_plugins_content_is_in_the_hash_of_trials_that_use_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, change: dict[str, object]
) -> None:
    used = replace(TrialSpec(), **change)  # type: ignore[arg-type]
    other = TrialSpec(method="gdiff", dataset="tofu", metrics=("forget_probability",))
    monkeypatch.setattr(plugins, "_active", [])
    before, kept = used.spec_hash, other.spec_hash
    hashes = []
    for digest in ("one", "two"):
        monkeypatch.setattr(plugins, "_active", [of(kind, name, digest)])
        hashes.append(used.spec_hash)
        assert other.spec_hash == kept, "a trial that uses no plug-in keeps its hash"
    assert len({before, *hashes}) == 3


def test_a_worker_reads_what_the_sweep_began_with_and_refuses_anything_else(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_active", [plugins.read(written)])
    told = plugins.to_environment({"toy.py": written})
    monkeypatch.setenv(plugins.VARIABLE, told[plugins.VARIABLE])
    monkeypatch.setattr(plugins, "_active", None)
    assert [plugin.name for plugin in plugins.active()] == ["toy.py"]
    written.write_text(TOY + "# changed\n")
    monkeypatch.setattr(plugins, "_active", None)
    with pytest.raises(PluginError, match=r"toy\.py: what this node has is not what the sweep began with"):
        plugins.active()


def test_without_plugins_a_worker_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_active", [])
    assert plugins.to_environment({}) == {}
