"""A tokenizer as the files that `tokenizers` and transformers read."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers import Tokenizer as Backend

from keras_msd.checks import InputError
from keras_msd.export.portable import refused
from keras_msd.export.proof import check_texts, proof_sentences
from keras_msd.io.files import write_json
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, parse
from keras_msd.tokenizers.tokenizer_json import (
    WordPieceTokenizer,
    read_backend,
    spelled_tokens,
)

FILE, NAMES = "tokenizer.json", "special_tokens_map.json"
# Of the table of a vocabulary that folds case transformers.js does NFKC alone. These
# steps before it are what the table does: letter by letter, so that "İ" stays.
FOLDING = [
    normalizers.Lowercase(),
    normalizers.Replace("i\u0307", "İ"),
    normalizers.Replace("ς", "σ"),
]


def write_tokenizer(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write tokenizer.json, tokenizer_config.json and special_tokens_map.json.

    Args:
        tokenizer: A SentencePiece unigram or a WordPiece tokenizer.
        folder: Where they go.
        max_length: Most ids per sentence, start and end included.

    Raises:
        InputError: The library could not give the ids of such a tokenizer.
    """
    backend, pieces = backend_of(tokenizer), tokenizer.pieces()
    start, end = pieces[tokenizer.start_id], pieces[tokenizer.end_id]
    names = {
        "cls_token": start,
        "sep_token": end,
        "pad_token": pieces[tokenizer.pad_id],
        "unk_token": pieces[tokenizer.unknown_id],
    }
    if tokenizer.kind == "unigram":
        names |= {"bos_token": start, "eos_token": end}
    backend.add_special_tokens(
        [
            AddedToken(name, normalized=False, special=True)
            for name in special_names(tokenizer)
        ]
    )
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(start, tokenizer.start_id), (end, tokenizer.end_id)],
    )
    backend.save(str(folder / FILE))
    settings = {
        # This class takes tokenizer.json as it is, under any kind of model.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "padding_side": "right",
        "truncation_side": "right",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    write_json(folder / CONFIG, settings | names)
    write_json(folder / NAMES, names)


def check_ids(tokenizer: Tokenizer, folder: Path) -> dict[str, int]:
    """Compare the ids of a written tokenizer.json with the tokenizer's own.

    Texts with the name of a special token in them are passed over: in a tokenizer.json
    it is that token. The library takes letters with their combining marks together, so
    that a rare sequence of marks may have another id.

    Args:
        tokenizer: What was written.
        folder: Where.

    Returns:
        `{"texts", "different"}`: how many were compared, every piece and every Unicode
        character among them, and how many have other ids.

    Raises:
        InputError: A sentence of the proof has other ids.
    """
    written = read_backend((folder / FILE).read_bytes(), f"`{folder / FILE}`")
    added = written.get_added_tokens_decoder().values()
    names = [token.content for token in added if token.special]
    spelled = [f"a {name} b{name}c" for name in spelled_tokens(written)]
    texts = without_names(names, [*check_texts(tokenizer), *spelled])
    rows = written.encode_batch_fast(texts)
    expected = tokenizer.encode(texts)
    wrong = [
        text
        for text, row, ids in zip(texts, rows, expected, strict=True)
        if row.ids != ids
    ]
    if real := sorted(set(wrong) & set(proof_sentences())):
        raise InputError(
            "A tokenizer.json must give the ids of the encoder's own tokenizer. "
            f"Received: other ids for {real[0]!r:.80}. Use the format `onnx`, which "
            "carries the tokenizer in another form."
        )
    return {"texts": len(texts), "different": len(wrong)}


def backend_of(tokenizer: Tokenizer) -> Backend:
    """Return a tokenizer in the `tokenizers` library, without special tokens."""
    if feature := tokenizer.unusual_feature():
        raise refused(feature)
    if isinstance(tokenizer, WordPieceTokenizer):
        backend = read_backend(tokenizer.definition, "the tokenizer")
        backend.decoder = decoders.WordPiece(
            prefix=tokenizer.backend.model.continuing_subword_prefix
        )
        return backend
    proto = parse(tokenizer.definition)
    spec = proto.normalizer_spec
    scores = [0.0] * 4 + [piece.score for piece in proto.pieces[3:]]
    vocabulary = list(zip(tokenizer.pieces(), scores, strict=True))
    backend = Backend(models.Unigram(vocabulary, tokenizer.unknown_id, False))
    steps: list[Any] = []
    if spec.precompiled_charsmap:
        table = normalizers.Precompiled(spec.precompiled_charsmap)
        steps += FOLDING if table.normalize_str("ABC") == "abc" else []
        steps.append(table)
    if spec.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        steps.append(normalizers.Replace(Regex("^ | $"), ""))
    backend.normalizer = normalizers.Sequence(steps)
    scheme = "always" if spec.add_dummy_prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    backend.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return backend


def special_names(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces that `write_tokenizer` marks as special tokens."""
    pieces = tokenizer.pieces()
    roles = tokenizer.start_id, tokenizer.end_id, tokenizer.pad_id, tokenizer.unknown_id
    names = [pieces[number] for number in roles]
    return list(dict.fromkeys([*names, *control_pieces(tokenizer)]))


def without_names(names: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Return the texts in which no name of a special token stands."""
    return [text for text in texts if not any(name in text for name in names)]


def control_pieces(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of a SentencePiece model that no text can spell."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return []
    proto = parse(tokenizer.definition)
    control = proto.SentencePiece.CONTROL
    return [piece.piece for piece in proto.pieces if piece.type == control]
