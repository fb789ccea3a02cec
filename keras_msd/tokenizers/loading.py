"""Tokenizers from folders: of ours, and of published checkpoints.

Those of checkpoints have the ids of their own files, or are refused.
"""

import json
import logging
import random
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend

from keras_msd.checks import InputError, existing_file, existing_folder, one_of, placed
from keras_msd.files import parse_json, read_bytes, read_table, read_toml
from keras_msd.limits import VOCABULARY
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.sentencepiece import (
    BLANK,
    SentencePieceTokenizer,
    rebuild,
)
from keras_msd.tokenizers.tokenizer_json import (
    CHECKPOINT_NAMES,
    NORMALIZER_FIELDS,
    SIDE,
    BackendTokenizer,
    WordPieceTokenizer,
    add_declared,
    checkpoint_fields,
    read_backend,
    rust_errors,
    special_tokens,
    unknown_of,
)

logger = logging.getLogger(__name__)

FILE = "tokenizer.json"
# Classes that take a tokenizer.json as it stands, without fields that change it.
PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Classes, without "Tokenizer" and "Fast" at their end, whose ids are those of a
# tokenizer.json. Others split texts in Python: by MeCab, jieba, rules of their own.
JSON_CLASSES = frozenset(
    "Albert Bart Barthez Bert BigBird Camembert Deberta DebertaV2 DistilBert Electra "
    "Ernie Funnel GPT2 GPTNeoX Gemma Layoutlm Llama Longformer Lxmert MBart MPNet "
    "MobileBert Nllb Pegasus Qwen2 RemBert Roberta SqueezeBert T5 XLMRoberta XLNet "
    "CodeLlama MBart50 Nystromformer Retribert Splinter".split()
)
# Vocabularies that are read without a tokenizer.json, and the classes that read them as
# we do.
VOCABULARIES: dict[str, type[WordPieceTokenizer | SentencePieceTokenizer]] = {
    "vocab.txt": WordPieceTokenizer,
    "sentencepiece.bpe.model": SentencePieceTokenizer,
    "sentencepiece.model": SentencePieceTokenizer,
    "spiece.model": SentencePieceTokenizer,
}
FILE_CLASSES = {
    "wordpiece": ("Bert", "DistilBert", "Electra", "MobileBert"),
    "unigram": ("XLMRoberta",),
}
# Fields of tokenizer_config.json that change no ids, or are applied.
FILE_FIELDS = frozenset(
    "added additional_special_tokens bos_token clean_up_tokenization_spaces "
    "cls_token do_basic_tokenize do_lower_case eos_token errors extra_special_tokens "
    "is_local mask_token max_length max_len model_input_names model_max_length "
    "name_or_path never_split pad_to_multiple_of pad_token pad_token_type_id "
    "padding_side processor_class sep_token sp_model_kwargs special_tokens_map_file "
    "split_special_tokens stride strip_accents tokenize_chinese_chars tokenizer_class "
    "tokenizer_file transformers_version truncation_side truncation_strategy "
    "trim_offsets unk_token use_fast add_prefix_space backend local_files_only "
    "chat_template".split()
)
OTHER_FILES = ("bpe.codes", "spm.model")  # of tokenizers that are none of ours
CUT = 12  # ids, start and end included, of a probe that is over the limit
JOINED = 8  # pieces in a probe
MOST_PIECES = 2000

PROBES = read_toml(Path(__file__).with_name("probes.toml"))
# A class of your own goes under its `kind`.
TOKENIZERS: dict[str, type[Tokenizer]] = {
    "unigram": SentencePieceTokenizer,
    "wordpiece": WordPieceTokenizer,
    "tokenizer_json": BackendTokenizer,
}


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote.

    Raises:
        InputError: A file is missing or damaged, or the folder is a checkpoint's.

    Example:
        >>> msd.testing.tiny_tokenizer().save("tokenizer")
        >>> msd.tokenizers.load_tokenizer("tokenizer").encode([""])
        [[0, 2]]
    """
    folder = existing_folder(folder, "tokenizer folder")
    settings = read_table(folder / CONFIG)
    if "kind" not in settings:
        raise InputError(
            f"`{folder / CONFIG}` must name the `kind` of tokenizer and does not. "
            "Give a folder that `save` wrote; `read_checkpoint_tokenizer` reads those "
            "of published checkpoints."
        )
    kind = str(settings.pop("kind"))
    with placed(folder / CONFIG):
        one_of(TOKENIZERS, kind=kind)
    path = existing_file(folder / TOKENIZERS[kind].definition_file)
    content = read_bytes(path, VOCABULARY, "Save the tokenizer anew.")
    return make_tokenizer(kind, content, settings, f"`{path}`")


def make_tokenizer(
    kind: str, definition: bytes, settings: dict[str, Any], origin: str
) -> Tokenizer:
    """Make a tokenizer from its `kind`, `definition` and `settings`.

    Args:
        kind: Its name in `TOKENIZERS`.
        definition: As the tokenizer has it.
        settings: As the tokenizer has them.
        origin: Where they come from, for messages.

    Raises:
        InputError: The kind is unknown, or the definition is damaged.
    """
    one_of(TOKENIZERS, kind=kind)
    return TOKENIZERS[kind].from_definition(definition, settings, origin)


def read_checkpoint_tokenizer(
    folder: str | Path, family: str | None = None, strip: bool = False
) -> Tokenizer:
    """Read the tokenizer of a published checkpoint.

    The tokenizer's own files say what it is, not the model: multilingual MiniLM is a
    BERT body with the SentencePiece vocabulary of XLM-RoBERTa. A tokenizer.json counts
    where there is one. What is read is compared with it, through the `tokenizers`
    library, on many short texts and on pieces of the vocabulary; truncation and padding
    in it are ignored, but for the side that is cut.

    Two differences stay. Special tokens written in a text are text here. And a unigram
    vocabulary with a table of characters is run by SentencePiece, which it was made
    with: that composes letters of several code points ("e" and a combining accent,
    half-width katakana) where `tokenizers` may not, and takes U+0085 for no blank.
    Texts in NFKC have the same ids in both.

    Args:
        folder: Where the tokenizer's files lie.
        family: `model_type` of the model beside it, for messages.
        strip: Whether blanks around a text are taken away first.

    Raises:
        InputError: No tokenizer.json, vocab.txt or SentencePiece model is there, a file
            is damaged, or the ids would differ from those of transformers.

    Example:
        >>> from pathlib import Path
        >>> lines = "[PAD] [UNK] [CLS] [SEP] cat ##s".replace(" ", chr(10))
        >>> _ = Path("vocab.txt").write_text(lines)
        >>> msd.tokenizers.read_checkpoint_tokenizer(".").encode(["Cats"])
        [[2, 4, 5, 3]]
    """
    folder = existing_folder(folder, "checkpoint folder")
    fields = checkpoint_fields(folder)
    if (folder / FILE).is_file():
        return _from_json(folder / FILE, fields, strip)
    for name, kind in VOCABULARIES.items():
        if (folder / name).is_file():
            _check_fields(folder, kind.kind, fields)
            return kind.from_file(folder / name, fields)
    raise InputError(
        f"`{folder}` must hold the {FILE} of the {family or 'model'}. Received: none. "
        "Load its tokenizer with `transformers` and write it again with "
        f'`tokenizer.save_pretrained("{folder}")`, which makes {FILE}.'
    )


def _base_name(fields: dict[str, Any]) -> str | None:
    name = fields.get("tokenizer_class")
    return None if name is None else str(name).removesuffix("Fast")


def _check_fields(folder: Path, kind: str, fields: dict[str, Any]) -> None:
    """Raise `InputError` if files without a tokenizer.json are not read exactly."""
    name = _base_name(fields)
    known = [f"{base}Tokenizer" for base in FILE_CLASSES[kind]]
    if name is not None and name not in known:
        raise InputError(
            f"Without a {FILE} the `tokenizer_class` of `{folder}` must be one of "
            f"{', '.join(known)}. Received: {fields['tokenizer_class']!r:.80}, which "
            f"may split texts in another way. Put the checkpoint's {FILE} there, or "
            "give the model's encode function as a callable teacher."
        )
    odd = sorted(fields.keys() - FILE_FIELDS)
    odd += [it for it in ("do_basic_tokenize",) if not fields.get(it, True)]
    odd += [it for it in ("never_split", "sp_model_kwargs") if fields.get(it)]
    odd += [it for it in OTHER_FILES if (folder / it).is_file()]
    if odd:
        raise InputError(
            f"Without a {FILE} nothing in `{folder}` may change how texts are split "
            f"but what is known here. Received: {', '.join(odd[:5])}. Put the "
            f"checkpoint's {FILE} there, or give the model's encode function as a "
            "callable teacher."
        )


def _from_json(path: Path, fields: dict[str, Any], strip: bool) -> Tokenizer:
    origin = f"`{path}`"
    raw = read_bytes(path, VOCABULARY, "Take a checkpoint with a smaller one.")
    content = parse_json(raw, origin)
    cut = content.get("truncation") if isinstance(content, dict) else None
    _check_class(path, fields)
    backend = read_backend(_with_fields(content, fields, raw), origin)
    add_declared(backend, fields, origin)
    definition = backend.to_str()
    # What the library makes of a file is whole: older ones leave fields out.
    content = json.loads(definition)
    with rust_errors(f"{origin} cannot be run by `tokenizers`: {{}}. Copy it anew."):
        before, after = _frame(backend)
    _check_added(path, fields, before, after)
    tokens = _roles(backend, fields, before, after)
    side = fields.get(SIDE) or (cut or {}).get("direction", "right")
    tokens[SIDE] = str(side).lower()
    model = type(backend.model).__name__
    if model == "Unigram":
        fast = _by_sentencepiece(content, backend, tokens, origin, strip)
        if fast is not None:
            return fast
    kind = WordPieceTokenizer if model == "WordPiece" else BackendTokenizer
    # BERT's normalizer and SentencePiece take blanks away themselves.
    tokens["strip"] = strip and kind is BackendTokenizer
    tokenizer = kind(definition, origin=origin, **tokens)
    if difference := differing(tokenizer, backend, strip=strip):
        raise InputError(f"{origin} cannot be read exactly. {difference}")
    return tokenizer


def _check_class(path: Path, fields: dict[str, Any]) -> None:
    name = _base_name(fields)
    base = None if name is None else name.removesuffix("Tokenizer")
    plain = fields.get("tokenizer_class") in (None, *PLAIN_CLASSES)
    if not plain and base not in JSON_CLASSES:
        raise InputError(
            f"The `tokenizer_class` of `{path.parent}` must be one whose ids are those "
            f"of {FILE}. Received: {fields['tokenizer_class']!r:.80}. Give the model's "
            "encode function as a callable teacher."
        )
    if fields.get("auto_map"):
        raise InputError(
            f"`auto_map` in `{path.with_name(CONFIG)}` names code of the checkpoint's "
            "own, which is not run. Give the model's encode function as a callable "
            "teacher."
        )


def _with_fields(content: Any, fields: dict[str, Any], raw: bytes) -> bytes:
    """Return a tokenizer.json with what tokenizer_config.json sets, as transformers."""
    if not isinstance(content, dict) or fields.get("tokenizer_class") in PLAIN_CLASSES:
        return raw
    changes = {
        ("normalizer", "BertNormalizer", target): fields[name]
        for name, target in NORMALIZER_FIELDS.items()
        if name in fields
    }
    if "add_prefix_space" in fields:
        place = ("pre_tokenizer", "ByteLevel", "add_prefix_space")
        changes[place] = fields["add_prefix_space"]
    if not changes:
        return raw
    for (name, kind, target), value in changes.items():
        part = content.get(name)
        if isinstance(part, dict) and part.get("type") == kind:
            part[target] = bool(value)
    return json.dumps(content).encode()


def _frame(backend: Backend) -> tuple[list[str], list[str]]:
    """Return the tokens that a tokenizer puts before and after a text.

    They are read off a text. A post-processor that does something else is found by
    `differing`.
    """
    for text in PROBES["texts"]:
        row = backend.encode(text)
        mask = row.special_tokens_mask
        if 0 in mask:
            first, last = mask.index(0), mask[::-1].index(0)
            names = [str(backend.id_to_token(number)) for number in row.ids]
            return names[:first], names[len(names) - last :]
    return [], []


def _check_added(
    path: Path, fields: dict[str, Any], before: list[str], after: list[str]
) -> None:
    """Raise `InputError` if transformers would put other tokens around a text.

    Some of its classes, as Llama's, make the post-processor anew of these fields.
    """
    for key, names in (("bos", before), ("eos", after)):
        added, token = fields.get(f"add_{key}_token"), fields.get(f"{key}_token")
        name = token.get("content") if isinstance(token, dict) else token
        if added is not None and token is not None and added != (name in names):
            raise InputError(
                f"`add_{key}_token` in `{path.with_name(CONFIG)}` must say what the "
                f"post-processor of `{path}` does. Received: {added}, and the tokens "
                f"{', '.join(names) or 'none'}. Give the model's encode function as a "
                "callable teacher."
            )


def _roles(
    backend: Backend,
    fields: dict[str, Any],
    before: list[str],
    after: list[str],
) -> dict[str, Any]:
    """Return the special tokens of a tokenizer.json, by role."""
    table = backend.get_vocab(with_added_tokens=True)
    unknown = unknown_of(backend)
    if unknown in table:  # what the model does counts
        fields = fields | {CHECKPOINT_NAMES[-1]: unknown}
    pad = "<pad>" if "<pad>" in table and "[PAD]" not in table else "[PAD]"
    unknown = "<unk>" if "<unk>" in table and "[UNK]" not in table else "[UNK]"
    tokens: dict[str, Any] = special_tokens(fields, (pad, "", "", unknown))
    for role, names in (("start_token", before), ("end_token", after)):
        tokens[role] = names[0] if len(names) == 1 else names
    return tokens


def _by_sentencepiece(
    content: dict[str, Any],
    backend: Backend,
    tokens: dict[str, Any],
    origin: str,
    strip: bool,
) -> SentencePieceTokenizer | None:
    """Return a unigram tokenizer as SentencePiece, None where that gives other ids.

    Graphs and artefacts carry that kind, and it can be trimmed and extended.
    """
    reason = _not_sentencepiece(content, tokens)
    if reason is None:
        try:
            model = SentencePieceTokenizer(rebuild(content, origin), origin)
            reason = differing(model, backend, strip=strip)
        except InputError as error:
            reason = str(error)
    if reason is None:
        if found := differing(model, backend, PROBES["not_nfkc"]):
            logger.warning(
                "%s is run by SentencePiece, which its vocabulary was made with. Texts "
                "that are not in NFKC may have other ids than in the library "
                "`tokenizers`; normalize them first. %s",
                origin,
                found.partition(" Give")[0],
            )
        return model
    logger.info(
        "%s is run by the library `tokenizers`, and no format carries it: %s",
        origin,
        reason,
    )
    return None


def _not_sentencepiece(content: dict[str, Any], tokens: dict[str, Any]) -> str | None:
    """Return what a tokenizer.json has that SentencePiece does not do, if anything."""
    model = content["model"]
    if [*tokens.values()] != ["<pad>", "<s>", "</s>", "<unk>", "right"]:
        return "texts are not put between <s> and </s>, or are cut at the left"
    if model["byte_fallback"]:
        return "it spells unknown characters in bytes"
    scores = np.array([score for _, score in model["vocab"]])
    # The library's last digit is not that of the file.
    if not np.allclose(scores, scores.astype(np.float32), rtol=1e-14, atol=0):
        return "scores have more digits than SentencePiece keeps"
    splits = content["pre_tokenizer"] or {}
    splits = splits.get("pretokenizers", [splits])
    kinds = [split.get("type") for split in splits]
    if kinds not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"]):
        return "texts are split in another way"
    last = splits[-1]
    if last["replacement"] != BLANK:
        return f"{last['replacement']} stands for a blank"
    if last["prepend_scheme"] == "first" and len(kinds) == 2:
        return "a blank is put before the first word alone"
    within = any(BLANK in piece.lstrip(BLANK) for piece, _ in model["vocab"])
    if within and (last["split"] or len(kinds) == 2):
        return "pieces over several words are never taken"
    return None


def _probes(backend: Backend) -> Iterator[str]:
    """Yield texts on which tokenizers differ, and texts made of the vocabulary."""
    yield from PROBES["texts"]
    for token in backend.get_added_tokens_decoder().values():
        yield from (token.content, f"a {token.content} b", f"hello{token.content}there")
        yield token.content.upper()
    pieces = sorted(backend.get_vocab(with_added_tokens=False))
    texts = [piece.replace(BLANK, " ") for piece in pieces]
    yield from (text for text in texts if " " in text.strip())
    # In any order: neighbours in the alphabet are splits that are equally likely.
    random.Random(0).shuffle(texts)
    for start in range(0, min(len(texts), MOST_PIECES), JOINED):
        part = texts[start : start + JOINED]
        for text in ("".join(part), " ".join(part)):
            if unicodedata.is_normalized("NFKC", text):
                yield text


def differing(
    tokenizer: Tokenizer,
    backend: Backend,
    texts: Sequence[str] = (),
    strip: bool = False,
) -> str | None:
    """Return the first probe whose ids differ from those of a tokenizer.json, if any.

    This is the one place that decides how special tokens in a text are compared. They
    are text in this library, and so they are in `backend` (`encode_special_tokens`).
    Where its vocabulary spells one all the same, ours must give the unknown token in
    that place; SentencePiece may give any ids but those of special tokens.

    Args:
        tokenizer: What was read.
        backend: The checkpoint's tokenizer.json in the `tokenizers` library.
        texts: Other probes than those of every tokenizer.
        strip: Whether it must lose the blanks around a text first.
    """
    added = backend.get_added_tokens_decoder().items()
    special = {number for number, token in added if token.special}
    special |= {tokenizer.pad_id, *tokenizer.start_ids, *tokenizer.end_ids}
    pieces = tokenizer.pieces()
    names = [pieces[number] for number in special | {tokenizer.unknown_id}]
    control = special - {tokenizer.unknown_id}
    before, after = len(tokenizer.start_ids), len(tokenizer.end_ids)
    most = before + after + CUT
    texts = list(texts or dict.fromkeys(_probes(backend)))
    given = [text.strip() for text in texts] if strip else texts
    with rust_errors("The library `tokenizers` cannot split every text: {}."):
        steps = backend.normalizer
        # "<S>" is "<s>" where capitals are made small.
        prepared = [steps.normalize_str(text) if steps else text for text in given]
        whole = backend.encode_batch(given)
        backend.enable_truncation(most, direction=tokenizer.truncation_side)
        short = backend.encode_batch(given)
        backend.no_truncation()
    for limit, rows in ((None, whole), (most, short)):
        for text, read, ours, row in zip(
            texts, prepared, tokenizer.encode(texts, limit), rows, strict=True
        ):
            marked = zip(row.ids, row.special_tokens_mask, strict=True)
            theirs = [
                tokenizer.unknown_id if number in control and not mark else number
                for number, mark in marked
            ]
            plain = ours[before : len(ours) - after]
            if any(row.type_ids):
                return f"{text!r:.80} gets token types other than 0: {row.type_ids}."
            if not control.isdisjoint(plain):
                return f"{text!r:.80} gives ids of special tokens: {ours[:20]}."
            spelled = any(name in text or name in read for name in names)
            if ours != theirs and not (tokenizer.kind == "unigram" and spelled):
                return (
                    f"For {text!r:.80} the library `tokenizers` gives {theirs[:20]}. "
                    f"Received: {ours[:20]}. Give the model's encode function as a "
                    "callable teacher."
                )
    return None
