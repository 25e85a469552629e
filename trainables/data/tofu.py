"""TOFU (Maini et al. 2024, arXiv:2401.06121): fictitious authors, from the hub or from a folder with the same files."""

from __future__ import annotations

from pathlib import Path

from trainables.data.dataset import DataSet
from trainables.data.examples import UnlearningData, limit_retain
from trainables.data.files import load_tables
from trainables.data.rows import question, read_rows, rephrased

HUB_ID = "locuslab/TOFU"
RETAIN_OF = {"forget01": "retain99", "forget05": "retain95", "forget10": "retain90"}
QUESTIONS_PER_AUTHOR = 20
FILES = "TOFU's files with their original names"


def tofu_files(forget_split: str) -> dict[str, str]:
    """Return a mapping from each set, such as ``retain_eval``, to the name of its table."""
    return {
        "forget": forget_split,
        "retain": RETAIN_OF[forget_split],
        "forget_eval": f"{forget_split}_perturbed",
        "retain_eval": "retain_perturbed",
        "real_authors": "real_authors_perturbed",
        "world_facts": "world_facts_perturbed",
        "holdout": forget_split.replace("forget", "holdout"),
    }


def load_tofu(
    *, forget_split: str = "forget10", data_dir: Path | None = None, limit: int | None = None
) -> UnlearningData:
    """Load TOFU with a forget split and the matching retain split.

    At most ``limit`` retain examples are kept. The 20 questions about an author are either all kept or all dropped.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or ``limit`` is below 20.
    """
    table_by_set = tofu_files(forget_split)
    tables = load_tables(HUB_ID, list(table_by_set.values()), folder=data_dir, expected=FILES)
    examples = read_rows(tables, dict.fromkeys(tables, question))
    sets = {set_name: examples[name] for set_name, name in table_by_set.items()}
    data = UnlearningData(
        name=f"tofu/{forget_split}",
        forget=sets["forget"],
        retain=sets["retain"],
        full=(*sets["retain"], *sets["forget"]),
        forget_eval=sets["forget_eval"],
        retain_eval=sets["retain_eval"],
        extra_eval={"real_authors": sets["real_authors"], "world_facts": sets["world_facts"]},
        holdout=sets["holdout"],
    )
    data = limit_retain(data, limit, per_author=QUESTIONS_PER_AUTHOR)
    return data.with_sets(
        forget_rephrased=rephrased(tables[table_by_set["forget_eval"]], data.forget_eval),
        retain_rephrased=rephrased(tables[table_by_set["retain_eval"]], data.retain_eval),
    )


DATASETS = DataSet(
    name="tofu",
    modality="language",
    description="TOFU (locuslab/TOFU): 4,000 questions about 200 fictitious authors; the forget split is forget01, "
    "forget05 or forget10",
    citation="Maini et al., TOFU: A Task of Fictitious Unlearning for LLMs, COLM 2024 (arXiv:2401.06121)",
    hub_id=HUB_ID,
    files=FILES,
    forget_splits=tuple(RETAIN_OF),
    forget_split="forget10",
    sizes={"forget01": (40, 3960), "forget05": (200, 3800), "forget10": (400, 3600)},
    unit=QUESTIONS_PER_AUTHOR,
    loader=load_tofu,
)
