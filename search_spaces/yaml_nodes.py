"""Parse YAML to nodes with line numbers. Scalars follow the core schema of YAML 1.2.

PyYAML follows YAML 1.1, which reads ``off`` as false, ``1e-5`` as text and ``010`` as eight. This module reads these
scalars as the text ``off`` and the numbers 0.00001 and 10. Only ``true`` and ``false`` are booleans.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml
from yaml.reader import ReaderError

from search_spaces.values import Value

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN = "plain"
_TEXT = "tag:yaml.org,2002:str"


class YamlError(ValueError):
    """A file cannot be read, is not valid YAML, or uses an unsupported feature."""


class _Loader(yaml.SafeLoader):
    """Gives the tag ``_PLAIN`` to each scalar that has neither quotes nor a tag."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: object) -> str:
        if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0]:
            return _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


def load(path: Path) -> yaml.Node | None:
    """Return the root node of a YAML file; None for an empty file.

    Raises:
        YamlError: the file cannot be read or is not valid YAML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except UnicodeDecodeError:
        raise YamlError(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise YamlError(f"{path}: cannot be read: {error.strerror or error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, reason = mark.line + 1 if mark else 1, ", ".join(filter(None, (error.context, error.problem)))
    except ReaderError as error:
        line, reason = text.count("\n", 0, error.position) + 1, "a control character is not allowed"
    except RecursionError:
        line, reason = 1, "nested too deeply"
    else:
        return node
    raise YamlError(f"{path}:{line}: not valid YAML: {reason}")


def line_of(node: yaml.Node) -> int:
    """Return the first line of a node, counted from 1."""
    return int(node.start_mark.line) + 1


def scalar(node: yaml.ScalarNode) -> Value:
    """Return the value of a scalar. A quoted scalar is a text.

    Raises:
        YamlError: the scalar has a tag such as ``!!binary``.
    """
    text = str(node.value)
    if node.tag == _TEXT:
        return text
    if node.tag != _PLAIN:
        raise YamlError(f"tags such as {node.tag} are not supported")
    return plain_scalar(text)


def plain_scalar(text: str) -> Value:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
