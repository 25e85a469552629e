"""Parse YAML to nodes with line numbers. Scalars follow the core schema of YAML 1.2.

PyYAML follows YAML 1.1, which reads ``off`` as false, ``1e-5`` as text and ``010`` as eight. This module reads them as
the text ``off`` and the numbers 0.00001 and 10. Only ``true`` and ``false`` are booleans.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    """The text is not valid YAML or uses a feature that is not supported; ``line`` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Marks scalars that are neither quoted nor tagged as plain, instead of giving them a YAML 1.1 type."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: object) -> str:
        if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0]:
            return _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


def compose(text: str) -> yaml.Node | None:
    """Return the document's root node; None if the document is empty.

    Raises:
        YamlError: the text is not valid YAML. The error has the line and the parser's message.
    """
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(what, mark.line + 1 if mark else 1) from None
    except ReaderError as error:
        raise YamlError("a control character is not allowed", text.count("\n", 0, error.position) + 1) from None
    except RecursionError:
        raise YamlError("nested too deeply", 1) from None
    return node


def line_of(node: yaml.Node) -> int:
    """Return the line where the node starts, counted from 1."""
    return int(node.start_mark.line) + 1


def scalar(node: yaml.ScalarNode) -> Value:
    """Return the value of a scalar: text if it is quoted; otherwise None, a boolean, a number or text.

    Raises:
        YamlError: the scalar has a tag such as ``!!binary``.
    """
    text = str(node.value)
    if node.tag == _TEXT:
        return text
    if node.tag != _PLAIN:
        raise YamlError(f"tags such as {node.tag} are not supported", line_of(node))
    return plain_scalar(text)


def plain_scalar(text: str) -> Value:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
