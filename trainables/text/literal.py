"""Encode data as text: a control token such as ``</s>`` in a question or an answer is text, and ends nothing.

Only the control tokens of the prompt template keep their meaning. A tokenizer cannot tell them from those in the data,
because both are in one string. So data with such texts are encoded by a copy of the tokenizer in which each control
token has another name, a single private-use character. Other data are encoded by the tokenizer itself.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from trainables.data.errors import DataError
from trainables.template import QUESTION_ANSWER, is_chat, is_plain, text_around_answer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

_NAMES = 0x100000
"""The first of the private-use characters that are the new names of control tokens."""
_TEXTS = 0xF0000
"""The first of the private-use characters that stand for control tokens in the data while a template is rendered."""


class LiteralEncoder:
    """Encodes texts that consist of data and of the template's text.

    ``template_text`` is the text of the template. An added token that occurs in this text is a control token, even if
    the tokenizer does not mark it as special.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template_text: str = "") -> None:
        added = tokenizer.added_tokens_decoder.values()
        special = {token.content for token in added if token.special} | set(tokenizer.all_special_tokens)
        used = {token.content for token in added if token.content.strip() and token.content in template_text}
        self.tokenizer = tokenizer
        # The longest token comes first, as in the tokenizer.
        self._controls = sorted(filter(str.strip, special | used), key=lambda content: (-len(content), content))
        self._search = _alternatives(self._controls)
        # A tokenizer may change letters to lower case, or wide characters to ASCII, and then find a control token.
        self._search_folded = _alternatives(_folded(content) for content in self._controls)
        self._copy: Tokenizer | None = None

    def protect(self, text: str) -> str:
        """Return data with each control token replaced by one character, so that a template can be filled in."""
        return self._replaced(text, _TEXTS)

    def encode(self, text: str, *, add_special_tokens: bool, data: Iterable[str]) -> tuple[list[int], list[int], str]:
        """Encode a text that contains protected data.

        Args:
            data: the data in ``text``, not protected.

        Returns:
            The token ids, the end of each token, and the text to which the ends refer (:meth:`form`).
        """
        if not any(self._search_folded.search(_folded(item)) for item in data):
            encoding = self.tokenizer(
                text, return_offsets_mapping=True, add_special_tokens=add_special_tokens, verbose=False
            )
            return list(encoding["input_ids"]), [end for _, end in encoding["offset_mapping"]], text
        form = self.form(text)
        encoded = self._renamed().encode(form, add_special_tokens=add_special_tokens)
        return list(encoded.ids), [end for _, end in encoded.offsets], form

    def form(self, text: str) -> str:
        """Return the text with the new names of the template's control tokens, and with the data's own characters."""
        renamed = self._replaced(text, _NAMES)
        for number, content in enumerate(self._controls):
            renamed = renamed.replace(chr(_TEXTS + number), content)
        return renamed

    def _replaced(self, text: str, first: int) -> str:
        return self._search.sub(lambda match: chr(first + self._controls.index(match[0])), text)

    def _renamed(self) -> Tokenizer:
        """Return the copy of the tokenizer in which the control tokens have new names.

        Raises:
            DataError: the tokenizer's format is unknown.
        """
        if self._copy is None:
            from tokenizers import Tokenizer

            names = {content: chr(_NAMES + number) for number, content in enumerate(self._controls)}
            backend: Any = self.tokenizer.backend_tokenizer
            try:
                copy = Tokenizer.from_str(json.dumps(_renamed_tokens(json.loads(backend.to_str()), names)))
                copy.no_padding()
                copy.no_truncation()
                wrong = [text for text, name in names.items() if copy.token_to_id(name) != backend.token_to_id(text)]
            except Exception as error:  # the library raises Exception itself
                wrong = [str(error)]
            if wrong:
                raise DataError(
                    f"the data contain control tokens of the tokenizer, such as {self._controls[0]}, and this kind of "
                    f"tokenizer cannot encode them as text ({wrong[0]}); remove them from the data"
                )
            self._copy = copy
        return self._copy


def literal_encoder(tokenizer: PreTrainedTokenizerBase, template: str = QUESTION_ANSWER) -> LiteralEncoder:
    """Return the encoder for a tokenizer and a template. Encoders are cached."""
    chat_template = str(tokenizer.chat_template) if is_chat(template) else ""
    return _encoder(tokenizer, len(tokenizer), tuple(tokenizer.all_special_tokens), template, chat_template)


@lru_cache(maxsize=8)
def _encoder(
    tokenizer: PreTrainedTokenizerBase, size: int, special: tuple[str, ...], template: str, chat_template: str
) -> LiteralEncoder:
    """The arguments after the first identify the state of the tokenizer, which can be changed."""
    template_text = "" if is_plain(template) else "".join(text_around_answer(template, "?", tokenizer))
    return LiteralEncoder(tokenizer, template_text)


def encode_literally(tokenizer: PreTrainedTokenizerBase, text: str, *, add_special_tokens: bool) -> list[int]:
    """Return the token ids of data without a template. Control tokens in the data are text."""
    encoder = literal_encoder(tokenizer)
    return encoder.encode(encoder.protect(text), add_special_tokens=add_special_tokens, data=[text])[0]


def _renamed_tokens(content: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of a tokenizer.json in which the tokens ``names`` have new names and the same ids."""
    for token in content["added_tokens"]:
        if token["content"] in names:
            token.update(content=names[token["content"]], normalized=False)
    model = content["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(token, token): number for token, number in vocabulary.items()}
    else:  # Unigram: pairs of token and score
        model["vocab"] = [[names.get(token, token), score] for token, score in vocabulary]
    if "merges" in model:  # no merge may produce a control token
        pairs = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model["merges"]]
        model["merges"] = [pair for pair in pairs if not names.keys() & {*pair, "".join(pair)}]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    return content


def _alternatives(texts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, texts)) or r"(?!)")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
