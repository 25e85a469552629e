"""``--config FILE``: a command's options in a YAML file; what is given on the command line wins.

Values are read as they would be typed, so that ``auto-lr: on`` and ``lr: 1e-3`` are what they look like.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from search_spaces.messages import did_you_mean

PROBLEMS = "sweeper.problems"
"""In a context's meta: what of the command line cannot be read."""
FROM_FILE = "sweeper.from_file"
"""In a context's meta: by parameter what would be typed for what the file says."""
NOT_IN_A_FILE = ("as_json", "help", "config", "profile", "dry_run", "measure")
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


def parameters(command: click.Command) -> dict[str, click.Parameter]:
    """What a file may say, by its names with ``_``: that of the option, and where it differs that of the parameter."""
    found: dict[str, click.Parameter] = {}
    for item in command.params:
        if isinstance(item, click.Option) and item.name not in NOT_IN_A_FILE:
            found[str(item.name)] = item
            found |= {flag.removeprefix("--").replace("-", "_"): item for flag in item.opts}
    return found


def words(item: click.Parameter, value: object) -> list[str]:
    """What is typed for a value: text, several of them, or whether a flag is set."""
    if isinstance(value, bool):
        return (item.opts if value else item.secondary_opts)[:1]
    return [part for text in ([value] if isinstance(value, str) else _list(value)) for part in (item.opts[0], text)]


def typed(arguments: Sequence[str] | None = None) -> list[str]:
    """The words of the command line, those of the process unless given, with the file's own in place of its name."""
    given = iter(sys.argv[1:] if arguments is None else arguments)
    context = click.get_current_context(silent=True)
    from_file = context.meta.get(FROM_FILE) if context is not None else None
    if context is None or from_file is None:
        return [*given]
    kept = [word for word in given if not word.startswith("--config=") and (word != "--config" or not next(given))]
    return kept + [
        word
        for name, instead in from_file.items()
        if context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP
        for word in instead
    ]


def _list(value: object) -> list[str]:
    return [str(part) for part in value] if isinstance(value, Sequence) else []


def _take(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    problems = ctx.meta.setdefault(PROBLEMS, [])
    known = parameters(ctx.command)
    found: dict[str, Any] = {}
    for key, line, value in _entries(Path(path), problems):
        at = f"--config {path}, line {line}"
        item = known.get(key.replace("-", "_"))
        if item is None:
            near = did_you_mean(key.replace("_", "-"), {name.replace("_", "-") for name in known})
            expected = near or f"see 'python -m sweeper {ctx.command.name} --help'"
            problems.append(f"{at}: unknown option '{key}': {expected}")
        elif item.name in found:
            problems.append(f"{at}: {key} is given twice")
        elif value not in (None, []):
            fitting = _fitting(item, value)
            if isinstance(fitting, str | bool | list):
                found[str(item.name)] = fitting
            else:
                problems.append(f"{at}: {key} {fitting.args[0]}")
    ctx.default_map = {**(ctx.default_map or {}), **found}
    ctx.meta[FROM_FILE] = {name: words(known[name], value) for name, value in found.items()}


def _fitting(item: click.Parameter, value: str | list[str]) -> str | bool | list[str] | ValueError:
    """The value as the option takes it, or why it cannot."""
    if getattr(item, "is_flag", False):
        if isinstance(value, str) and value.lower() in _BOOLEANS:
            return _BOOLEANS[value.lower()]
        return ValueError(f"must be true or false, got {value}")
    if item.multiple:
        return [value] if isinstance(value, str) else value
    if isinstance(value, str):
        return value
    if item.name in ("metrics", "objectives"):
        return ",".join(value)
    return ValueError(f"takes one value, got {', '.join(value)}") if len(value) > 1 else value[0]


def _entries(path: Path, problems: list[str]) -> Iterator[tuple[str, int, Any]]:
    """Key, line and value (a text, a list of texts, None) of each entry; what cannot be read becomes a problem."""
    import yaml

    from search_spaces.yaml_nodes import YamlError, compose, line_of

    try:
        root = compose(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"--config {path}: {getattr(error, 'strerror', None) or error}; expected a YAML file")
        return
    except YamlError as error:
        problems.append(f"--config {path}, line {error.line}: {error}")
        return
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        problems.append(f"--config {path}: expected one option a line, such as 'trials: 32'")
        return

    def text(node: yaml.Node) -> str | None:
        return str(node.value) if isinstance(node, yaml.ScalarNode) else None

    for key, node in root.value:
        parts: list[str | None]
        if isinstance(node, yaml.ScalarNode):
            empty = node.style is None and str(node.value) in ("", "~", "null")
            yield str(key.value), line_of(key), None if empty else str(node.value)
            continue
        if isinstance(node, yaml.MappingNode):  # option: {beta: [0.1, 0.2]}
            pairs = [
                (text(name), one)
                for name, many in node.value
                for one in (many.value if isinstance(many, yaml.SequenceNode) else [many])
            ]
            parts = [f"{name}={value}" if (value := text(one)) is not None else None for name, one in pairs]
        else:
            parts = [text(one) for one in node.value]
        if None in parts:
            problems.append(f"--config {path}, line {line_of(node)}: {key.value} is nested too deeply")
            continue
        yield str(key.value), line_of(key), parts


CONFIG = click.option(
    "--config",
    type=click.Path(),
    is_eager=True,
    expose_value=False,
    callback=_take,
    metavar="FILE.yaml",
    help="Options from a file, 'trials: 32' a line; those given here win ('config DIR' writes one).",
)
