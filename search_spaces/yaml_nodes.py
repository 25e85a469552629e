"""Parse YAML, and find the lines of its keys. Scalars follow the core schema of YAML 1.2.

PyYAML follows YAML 1.1, which reads ``off`` as false, ``1e-5`` as text and ``010`` as eight. This module reads these
scalars as the text ``off`` and the numbers 0.00001 and 10. Only ``true`` and ``false`` are booleans.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from search_spaces.common.values import Value

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_PLAIN = "plain"
_TEXT = "tag:yaml.org,2002:str"


class YamlError(ValueError):
    """A file cannot be read, is not valid YAML, or uses an unsupported feature. The message starts with the file."""


class _Loader(yaml.SafeLoader):
    """Gives the tag ``_PLAIN`` to each scalar that has neither quotes nor a tag."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: object) -> str:
        if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0]:
            return _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


def plain_scalar(text: str) -> Value:
    """Convert the text of an unquoted YAML scalar to a value, such as ``1e-5`` to 0.00001."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def load(path: Path, scalar: Callable[[str], Value] = plain_scalar) -> tuple[Any, dict[Any, int]]:
    """Return the content of a YAML file (None if empty), and the line number of each key or item at the top level.

    Args:
        scalar: function that converts an unquoted YAML scalar (text) to a value. A quoted scalar remains a text.

    Raises:
        YamlError: the file cannot be read, is not valid YAML, has a key twice, or has a tag such as ``!!binary``.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
        if root is None:
            return None, {}
        content = _content(root, scalar)
    except UnicodeDecodeError:
        raise YamlError(f"{path}: not a text file in UTF-8") from None
    except OSError as error:
        raise YamlError(f"{path}: cannot be read: {error.strerror or error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        reason = ", ".join(filter(None, (error.context, error.problem)))
    except ReaderError as error:
        line, reason = text.count("\n", 0, error.position) + 1, "a control character is not allowed"
    except RecursionError:
        line, reason = 1, "nested too deeply"
    else:
        if isinstance(root, yaml.MappingNode):
            return content, {key.value: key.start_mark.line + 1 for key, _ in root.value}
        items = root.value if isinstance(root, yaml.SequenceNode) else []
        return content, {index: item.start_mark.line + 1 for index, item in enumerate(items)}
    raise YamlError(f"{path}:{line}: not valid YAML: {reason}")


def _content(node: yaml.Node, scalar: Callable[[str], Value]) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_content(item, scalar) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a name cannot be a list or a mapping", problem_mark=key.start_mark)
            if key.value in mapping:
                raise yaml.MarkedYAMLError(problem=f"{key.value} appears twice", problem_mark=key.start_mark)
            mapping[key.value] = _content(value, scalar)
        return mapping
    if node.tag not in (_PLAIN, _TEXT):
        raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not supported", problem_mark=node.start_mark)
    return scalar(node.value) if node.tag == _PLAIN else node.value
