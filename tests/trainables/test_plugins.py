"""Plug-ins: their entries, errors in broken files, and the trials whose hash contains the plug-in's digest.

These tests add nothing to the registries of this process. tests/sweeper/store/test_plugins.py tests commands.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import assert_names
from trainables import plugins, weightings
from trainables.plugins import Part, Plugin, PluginError
from trainables.registry import entries
from trainables.spec import TrialSpec
from trainables.template import CHAT
from trainables.weightings import WEIGHTINGS, ga, gd

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

ATTACK = """
from trainables.attacks.attack import Attack

ATTACK = Attack(name="{name}", formula="-", citation="-", cost="-", endings={{"mine": "after it"}}, run=lambda _: {{}})
"""

METRIC = """
from trainables.metrics.metric import Cost, Metric

METRICS = Metric(
    name="toy", label="-", direction="min", of="forget", cost=Cost.FORWARD, formula="0", citation="-", measure=len
)
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return path


def test_a_file_is_read_with_its_parts(written: Path, tmp_path: Path) -> None:
    plugin = plugins.read(written)
    assert (plugin.name, plugin.path, plugin.source) == ("toy.py", str(written), TOY)
    assert [(part.kind, part.name) for part in plugin.parts] == [("weighting", "toy")]
    written.write_text(TOY.replace("WEIGHTING =", "ONE =") + "WEIGHTING = (ONE,)\n")
    assert [part.name for part in plugins.read(written).parts] == ["toy"], "several parts are a tuple"
    path = tmp_path / "mine.jinja"
    path.write_text("Q {{ question }}\nA {{ answer }}\n", encoding="utf-8-sig")
    (part,) = plugins.read(path).parts
    assert (part.kind, part.name, part.entry.text) == ("template", "mine", "Q {{ question }}\nA {{ answer }}")


BROKEN = {
    "x = 1\nWEIGHTING = (\n": "line 2: SyntaxError: '('",
    "x = 1\nimport nowhere_at_all\n": "line 2: ModuleNotFoundError: No module named 'nowhere_at_all'",
    "import sys\nsys.exit(3)\n": "line 2: SystemExit: 3",
    "METRIC = 1\n": "METRICS, ",
    "\nWEIGHTING = max\n": ": WEIGHTING holds an object of type builtin",
    TOY.replace('"toy"', '"a+b"'): "WEIGHTING: the name 'a+b'",
    TOY.replace(
        "Needs.LOSSES", '"losses"'
    ): "weighting toy: needs must be a Needs, such as Needs.GRAMIAN, got 'losses'",
    METRIC.replace('"forget"', '"forgot"'): "metric toy: of must be forget, retain or None, got 'forgot'",
    METRIC.replace("Cost.FORWARD", '"forward"'): "metric toy: cost must be a Cost, such as Cost.FORWARD, got 'forward'",
    "MODELS = __import__('dataclasses').replace("
    "__import__('trainables.models.registry').models.registry.local_model('own'), make=None)\n": "hub_id",
    "from trainables.template import Template\n"
    "TEMPLATES = Template(name='mine', text='Q: {question}', description='')\n": "'mine': the template must contain",
    "Q: {question}": "{answer}",
    "A: {answer} Q: {question}": "before the answer",
    "one\n{{ question }} {{ anser }}": "'anser'",
    "one\n{{ question }\n{{ answer }}": "line 2: ",
}


@pytest.mark.parametrize(("text", "fact"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_broken_file_or_template_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str, fact: str) -> None:
    path = tmp_path / ("broken.jinja" if "{" in text and "=" not in text else "broken.py")
    path.write_text(text)
    with pytest.raises(PluginError) as caught:
        plugins.read(path)
    assert_names(caught.value, path, fact)


def test_a_plugin_after_the_registries_were_read_is_refused(written: Path) -> None:
    assert "gdiff" in WEIGHTINGS
    with pytest.raises(PluginError, match=str(written)):
        plugins.use([plugins.read(written)])


def plugin_with(kind: str, name: str, source: str) -> Plugin:
    return Plugin(f"{name}.py", f"{name}.py", source, (Part(kind, name, None),))


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
    for source in ("one", "two"):
        monkeypatch.setattr(plugins, "_active", [plugin_with(kind, name, source)])
        hashes.append(used.spec_hash)
        assert other.spec_hash == kept, "a trial that uses no plug-in keeps its hash"
    assert len({before, *hashes}) == 3


def test_a_worker_reads_the_plugins_of_the_sweep_and_refuses_changed_ones(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_active", [])
    assert plugins.to_environment(written.parent) == {}
    monkeypatch.setattr(plugins, "_active", [plugins.read(written)])
    environment = plugins.to_environment(written.parent)
    monkeypatch.setenv(plugins.VARIABLE, environment[plugins.VARIABLE])
    monkeypatch.setattr(plugins, "_active", None)
    assert [plugin.name for plugin in plugins.active()] == ["toy.py"]
    written.write_text(TOY + "# changed\n")
    monkeypatch.setattr(plugins, "_active", None)
    with pytest.raises(PluginError, match=r"toy\.py"):
        plugins.active()


@pytest.mark.parametrize("name", ["default", "muse", "all", "none", "verbmem"])
def test_an_attack_with_the_name_of_a_metric_or_of_a_set_is_refused(name: str, tmp_path: Path) -> None:
    """An attack named default would replace the metrics that every sweep measures."""
    path = tmp_path / "mine.py"
    path.write_text(ATTACK.format(name=name))
    command = [sys.executable, "-m", "sweeper", "list", "attacks", "--plugin", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert_names(result.stderr, path, f"'{name}'", "rename this attack")


def test_two_entries_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ga, "WEIGHTING", gd.WEIGHTING)
    with pytest.raises(ValueError, match="gd"):
        entries(weightings.__name__, weightings.__path__, "WEIGHTING", first=["gd"])
