"""Read the rows of a table from the hub or from files (JSON Lines, a JSON array, parquet or CSV).

The file of the table ``forget`` is ``forget.jsonl``, or has the extension of another format. The file of the table
``a/b`` is ``a/b.jsonl`` or ``a-b.jsonl``. A parquet table may have several files, as on the hub
(``NAME-00000-of-00002.parquet``).
"""

from __future__ import annotations

import codecs
import io
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from search_spaces.common.lfs import LFS_POINTER, is_lfs_pointer
from search_spaces.common.messages import first_line
from trainables.data.errors import DataError

ENDINGS = (".json", ".jsonl", ".parquet", ".csv")
_SUPPORTED = tuple(ending.removeprefix(".") for ending in ENDINGS)
_GZIP_MARK = b"\x1f\x8b"
_MARKS = {codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}
"""The byte order marks of other encodings. The mark of UTF-32 begins with the mark of UTF-16, so it comes first."""
_PARTS = ("{}-[0-9]*-of-[0-9]*.parquet", "{}/train-[0-9]*-of-[0-9]*.parquet", "{}/train/[0-9]*.parquet")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        location: the file, and the line or row number in this file, for error messages.
        value: the content of the row, usually a dictionary from column to value.
        problem: the reason why the row could not be read; empty if the row was read.
    """

    location: str
    value: object
    problem: str = ""


def find_files(folder: Path, name: str) -> tuple[Path, ...]:
    """Return the files of the table ``name`` in a folder; an empty tuple if no file exists."""
    for stem in (name, name.replace("/", "-")):
        # Look for parquet parts first, because repositories on the hub also have outdated JSON files.
        for pattern in _PARTS:
            if parquet_files := sorted(folder.glob(pattern.format(stem))):
                return tuple(parquet_files)
        for ending in ENDINGS:
            if (path := folder / f"{stem}{ending}").is_file():
                return (path,)
    return ()


def _copies(path: Path) -> list[Path]:
    """Return the files with the same name and another supported ending."""
    others = (path.with_suffix(ending) for ending in ENDINGS)
    return [other for other in others if other != path and other.is_file()]


def similar_files(folder: Path, name: str) -> list[Path]:
    """Return the files of the table ``name`` whose format is not supported, such as ``NAME.jsonl.gz``."""
    paths = [*folder.glob(f"{name}.*"), *folder.glob(f"{name.replace('/', '-')}.*")]
    return sorted({path for path in paths if path.is_file() and path.name.partition(".")[2] not in _SUPPORTED})


def read_tables(folder: Path, names: Sequence[str], *, expected: str) -> dict[str, list[Row]]:
    """Return the rows of each table. The list has a row with a ``problem`` for a missing table or an unreadable file.

    A table in two formats, such as an old NAME.csv beside NAME.jsonl, is a problem, too.

    ``expected`` describes the files in error messages.

    Raises:
        DataError: the folder does not exist.
    """
    if not folder.is_dir():
        raise DataError(f"--data-dir {folder}: no such folder; expected a folder with {expected}")
    tables: dict[str, list[Row]] = {}
    for name in names:
        tables[name] = []
        paths = find_files(folder, name)
        for path in paths:
            try:
                tables[name] += read_file(path)
            except DataError as error:
                tables[name] += [Row(str(path), value=None, problem=problem) for problem in error.problems]
        if copies := [copy for path in paths[:1] for copy in _copies(path)]:
            files = " and ".join(path.name for path in (paths[0], *copies))
            problem = f"{folder} has {files}, so it is unclear which file is the table {name}: keep one of them"
            tables[name].append(Row(str(paths[0]), value=None, problem=problem))
        if not paths:
            endings = f"{', '.join(ENDINGS[1:-1])} or {ENDINGS[-1]}"
            similar_names = ", ".join(path.name for path in similar_files(folder, name))
            found = f" (found {similar_names}: decompress or convert it)" if similar_names else ""
            problem = (
                f"cannot read {folder / name}.json: neither this file nor a file with the ending {endings} exists"
                f"{found}; --data-dir needs {expected}"
            )
            tables[name].append(Row(str(folder / name), value=None, problem=problem))
    return tables


def read_file(path: Path) -> list[Row]:
    """Return all rows of a file. The file's extension determines the format.

    If a line is not JSON, or a cell is not a JSON array, the row has a ``problem``.

    Raises:
        DataError: the file cannot be read, is a Git LFS pointer, is not in UTF-8, has no rows, or has JSON objects over
            several lines.
    """
    try:
        if is_lfs_pointer(path):
            raise DataError(f"cannot read {path}: it {LFS_POINTER}")
        if path.suffix == ".parquet":
            rows = _parquet(path)
        elif path.suffix == ".csv":
            rows = _csv(path)
        else:
            rows = _json(path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    if not rows:
        raise DataError(f"{path}: no rows; expected at least one")
    return rows


def load_tables(
    repository: str, names: Sequence[str], *, folder: Path | None, expected: str, alternative: str = "authors"
) -> dict[str, list[Row]]:
    """Return the rows of each table from the files in ``folder``, or from the hub if ``folder`` is None.

    On the hub, the table ``a/b`` is the split ``b`` of the configuration ``a``. A name without a slash, ``a``, means
    the split ``train`` of the configuration ``a``.

    Raises:
        DataError: the folder does not exist, or a table cannot be loaded from the hub. If the hub is the reason, the
            message suggests the data set named ``alternative``.
    """
    if folder is not None:
        return read_tables(folder, names, expected=expected)
    from datasets import load_dataset

    tables: dict[str, list[Row]] = {}
    for table in names:
        name, _, split = table.partition("/")
        try:
            rows = load_dataset(repository, name, split=split or "train")
        except Exception as error:
            raise DataError(
                f"cannot load {repository} ({table}) from the hub: {first_line(error)[:200]}; "
                f"download the files and use --data-dir DIR, or use --dataset {alternative}"
            ) from error
        tables[table] = [Row(f"{repository}/{table}, row {number}", row) for number, row in enumerate(rows, start=1)]
    return tables


def _text(path: Path) -> str:
    """Return the content of a file in UTF-8, without a byte order mark."""
    content = path.read_bytes()
    if content.startswith(_GZIP_MARK):
        raise DataError(
            f"cannot read {path}: the file is compressed with gzip; decompress it first, "
            f"for example with 'gunzip < {path.name}'"
        )
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            raise DataError(_not_utf8(path, f"the file is in {name}", encoding=name))
    if b"\0" in content[:4]:  # JSON and CSV tables do not begin with a null character
        raise DataError(_not_utf8(path, "the file is in UTF-16 or UTF-32", encoding="UTF-16LE"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        reason = f"line {line} has the byte 0x{content[error.start]:02x}, which is not valid in UTF-8"
        raise DataError(_not_utf8(path, reason, encoding="WINDOWS-1252")) from None


def _not_utf8(path: Path, reason: str, *, encoding: str) -> str:
    return f"cannot read {path}: {reason}; save the file in UTF-8, for example with 'iconv -f {encoding} -t UTF-8'"


def _json(path: Path) -> list[Row]:
    content = _text(path)
    if content.lstrip().startswith("["):
        try:
            values = json.loads(content)
        except ValueError as error:
            raise DataError(f"cannot read {path}: the file is not a JSON array ({error})") from None
        return [Row(f"{path}, row {number}", value) for number, value in enumerate(values, start=1)]
    rows: list[Row] = []
    errors: list[str] = []
    # Split only at newlines, because splitlines() also splits at U+2028, which JSON texts may contain.
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        try:
            rows.append(Row(location, json.loads(line)))
        except ValueError as error:
            rows.append(Row(location, value=None, problem=f"{location}: the line is not a JSON object ({error})"))
            errors.append(f"line {number}: {error}")
    if errors and _is_json_over_lines(content):
        raise DataError(
            f"cannot read {path}: its JSON objects extend over several lines; expected one object per line, or one "
            f"array of objects ('jq -c . {path.name}' writes one object per line)"
        )
    if len(rows) > 1 and len(errors) == len(rows):
        raise DataError(f"cannot read {path}: no line is a JSON object; {errors[0]}")
    return rows


def _is_json_over_lines(content: str) -> bool:
    """Return whether the content is a sequence of JSON objects."""
    decoder = json.JSONDecoder()
    spaces = re.compile(r"[\s,]*")
    end = 0
    try:
        while (start := spaces.match(content, end).end()) < len(content):  # type: ignore[union-attr]  # always matches
            value, end = decoder.raw_decode(content, start)
            if not isinstance(value, dict):
                return False
    except ValueError:
        return False
    return True


def _csv(path: Path) -> list[Row]:
    """Return the rows of a CSV table. In the column perturbed_answer, each cell holds a JSON array of texts."""
    import pandas
    from pandas.errors import ParserWarning

    content = _text(path)
    try:
        with warnings.catch_warnings():
            # If the rows are longer than the header, pandas drops the last column and warns. Without index_col=False,
            # pandas would silently use the first column as the labels of the rows.
            warnings.simplefilter("error", ParserWarning)
            table = pandas.read_csv(io.StringIO(content), dtype=str, keep_default_na=False, index_col=False)
    except (ValueError, ParserWarning) as error:
        raise DataError(f"cannot read {path}: the file is not a CSV table ({first_line(error)[:120]})") from None
    rows: list[Row] = []
    for number, value in enumerate(table.to_dict("records"), start=1):
        location = f"{path}, row {number}"
        problem = ""
        cell = str(value.get("perturbed_answer"))
        if cell.startswith("["):
            try:
                value["perturbed_answer"] = json.loads(cell)
            except ValueError as error:
                problem = f"{location}: column 'perturbed_answer' is not a JSON array ({error})"
        rows.append(Row(location, value, problem))
    return rows


def _parquet(path: Path) -> list[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        values = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowException as error:
        raise DataError(f"cannot read {path}: the file is not a parquet file ({first_line(error)[:120]})") from None
    return [Row(f"{path}, row {number}", value) for number, value in enumerate(values, start=1)]
