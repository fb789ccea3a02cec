"""Read random tokenizer.json files and compare their ids with the `tokenizers` library.

    python benchmarks/random_tokenizers.py --seeds 500

Each seed draws a tokenizer.json from all models, normalizers, pre-tokenizers,
post-processors and added tokens that the library has, and 200 texts. What
`read_checkpoint_tokenizer` makes of it must give the library's ids on all of them, or
refuse it; the portable description, where there is one, must give ours. A table counts
what was read, by model.

Two differences are documented in `read_checkpoint_tokenizer` and counted apart: special
tokens with a role written in a text, and, for a vocabulary run by SentencePiece with a
table of characters, texts that are not in NFKC. Exit code 1: something else differs.
"""

import argparse
import json
import random
import sys
import tempfile
import unicodedata
from collections import Counter
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from keras_msd.checks import InputError
from keras_msd.export.portable import describe, load_portable
from keras_msd.io.files import write_json
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer

RESULT = Path(__file__).with_name("results") / "random_tokenizers.json"
PROBES = 200
LIMIT = 16
WORDS = """the cat sleeps on old chair hello world this is a sentence New York can't
don't 12 2024 3.14 ALL Caps un believ able Straße é ö ñ ça niño naïve über Привет мир
δρόμος 東京 学生 日本語 中文 안녕 😀 👍 ! ? . , ; - _ ( ) [ ] < > " ' # @ / e\u0301
n\u0303 \u0e01\u0e33 ك ﬁ ½ ™ １ Ａ ｶﾞ s ing ed er low lower new newest""".split()
BLANKS = [" ", " ", " ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", ""]
EXTRA = ["\x85", "\u200d", "\u200b", "\ufeff", "\x00", "\x7f", "\u0301", "▁", "İ", "ß"]
FRAMES = (
    ["<s>", "<pad>", "</s>", "<unk>"],
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    ["<pad>", "<unk>", "<s>", "</s>"],
)


def texts(draw: random.Random, special: list[str], added: list[str]) -> list[str]:
    """Return the probes of a tokenizer."""
    made = ["", " ", "hello world", "hello  12 ", " The Cat sleeps.\n", "a" * 120]
    made += [f"a {name} b{name}c" for name in special + added]
    parts = WORDS * 3 + EXTRA + added
    while len(made) < PROBES:
        words = draw.choices(parts, k=draw.randint(1, 14))
        made.append("".join(word + draw.choice(BLANKS) for word in words))
    return made[:PROBES]


@cache
def charsmap(rule: str) -> bytes:
    """Return a table of characters as SentencePiece makes it."""
    out = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["hello world this is a sentence"] * 20),
        model_writer=out,
        vocab_size=30,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def normalizer(draw: random.Random, depth: int = 0) -> Any:
    """Draw a normalizer, or None."""
    n = normalizers
    flag = lambda: draw.random() < 0.5  # noqa: E731
    makers = [
        lambda: n.BertNormalizer(
            clean_text=flag(),
            handle_chinese_chars=flag(),
            strip_accents=draw.choice([None, True, False]),
            lowercase=flag(),
        ),
        n.Lowercase,
        n.NFC,
        n.NFD,
        n.NFKC,
        n.NFKD,
        n.Nmt,
        n.StripAccents,
        n.ByteLevel,
        lambda: n.Strip(left=flag(), right=flag()),
        lambda: n.Prepend(draw.choice(["▁", " ", "x"])),
        lambda: n.Replace(*draw.choice([(" ", "▁"), ("ß", "ss"), ("``", '"')])),
        lambda: n.Replace(Regex("[0-9]"), "0"),
        lambda: n.Replace(Regex(" {2,}"), draw.choice([" ", "▁"])),
        lambda: n.Precompiled(
            charsmap(draw.choice(["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"]))
        ),
    ]
    if draw.random() < 0.15:
        return None
    if depth == 0 and draw.random() < 0.4:
        parts = [normalizer(draw, 1) for _ in range(draw.randint(1, 3))]
        return n.Sequence([part for part in parts if part is not None])
    return draw.choice(makers)()


def pre_tokenizer(draw: random.Random, depth: int = 0) -> Any:
    """Draw a pre-tokenizer, or None."""
    p = pre_tokenizers
    flag = lambda: draw.random() < 0.5  # noqa: E731
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next"]
    behaviors.append("contiguous")
    metaspace = lambda: p.Metaspace(  # noqa: E731
        replacement=draw.choice("▁▁▁_"),
        prepend_scheme=draw.choice(["always", "never", "first"]),
        split=draw.random() < 0.8,
    )
    makers = [
        p.BertPreTokenizer,
        p.Whitespace,
        p.WhitespaceSplit,
        p.UnicodeScripts,
        lambda: p.ByteLevel(add_prefix_space=flag(), use_regex=flag()),
        lambda: p.CharDelimiterSplit(draw.choice("-_ e")),
        lambda: p.Digits(individual_digits=flag()),
        lambda: p.Punctuation(draw.choice(behaviors)),
        lambda: p.FixedLength(draw.randint(2, 6)),
        lambda: p.Split(
            draw.choice([" ", Regex(r"\s+"), Regex(r"\w+|[^\w\s]+")]),
            draw.choice(behaviors),
            invert=flag(),
        ),
        metaspace,
        metaspace,
        lambda: p.Sequence([p.WhitespaceSplit(), metaspace()]),
    ]
    if draw.random() < 0.08:
        return None
    if depth == 0 and draw.random() < 0.25:
        return p.Sequence([pre_tokenizer(draw, 1) or p.Digits() for _ in range(2)])
    return draw.choice(makers)()


def post_processor(draw: random.Random, frame: list[str], depth: int = 0) -> Any:
    """Draw a post-processor over the tokens of a frame, or None."""
    start, end = (frame[2], frame[3]) if "[CLS]" in frame else ("<s>", "</s>")
    ids = {name: number for number, name in enumerate(frame)}
    named = [(name, ids[name]) for name in (start, end)]
    singles = [f"{start} $A {end}"] * 4
    singles += ["$A", f"{start} $A", f"$A {end}", f"{start} {start} $A {end}"]
    singles += [f"{start} $A:1 {end}:1", f"$A {end} {start}"]
    makers = [
        lambda: processors.BertProcessing(named[1], named[0]),
        lambda: processors.RobertaProcessing(named[1], named[0]),
        lambda: processors.ByteLevel(trim_offsets=draw.random() < 0.5),
    ]
    template = lambda: processors.TemplateProcessing(  # noqa: E731
        single=draw.choice(singles), pair=None, special_tokens=named
    )
    if draw.random() < 0.1:
        return None
    if depth == 0 and draw.random() < 0.1:
        parts = [post_processor(draw, frame, 1) for _ in range(2)]
        return processors.Sequence([part for part in parts if part is not None])
    return draw.choice([*makers, template, template, template])()


KINDS = ("Unigram", "BPE", "WordPiece", "WordLevel")


def model(draw: random.Random, kind: str, frame: list[str], blank: str) -> Any:
    """Draw a model whose vocabulary begins with a frame."""
    letters = sorted({letter for word in WORDS for letter in word})
    letters = draw.sample(letters, len(letters) * 9 // 10)
    unknown = next(name for name in frame if "unk" in name.lower())
    prefix = draw.choice(["##", "##", "##", "@@", ""])
    if kind == "Unigram":
        pieces = [blank, *letters, *WORDS, *(blank + word for word in WORDS)]
        if draw.random() < 0.3:
            pieces += [f"{blank}this{blank}is{blank}a", f"New{blank}York"]
        unit = draw.choice([1, 0.5, 0.25, 0.1])
        scores = [-unit * draw.randint(1, 90) for _ in pieces]
        rows = dict.fromkeys(frame, 0.0)
        rows |= dict(zip(pieces, scores, strict=True))
        fallback = draw.random() < 0.1
        if fallback:
            rows |= {f"<0x{byte:02X}>": -20.0 for byte in range(256)}
        return models.Unigram([*rows.items()], frame.index(unknown), fallback)
    if kind == "WordPiece":
        pieces = [*letters, *(prefix + letter for letter in letters), *WORDS]
        pieces += [prefix + word for word in WORDS]
        table = {p: n for n, p in enumerate(dict.fromkeys([*frame, *pieces]))}
        longest = draw.choice([100, 100, 5])
        return models.WordPiece(
            table,
            unk_token=unknown,
            continuing_subword_prefix=prefix,
            max_input_chars_per_word=longest,
        )
    if kind == "WordLevel":
        pieces = [*WORDS, *(blank + word for word in WORDS)]
        table = {p: n for n, p in enumerate(dict.fromkeys([*frame, *pieces]))}
        return models.WordLevel(table, unk_token=unknown)
    suffix = draw.choice([None, None, None, "</w>"])
    marked = draw.choice([None, None, None, "##"])
    alphabet = [*letters, blank, *pre_tokenizers.ByteLevel.alphabet()]
    forms = list(alphabet)
    forms += [letter + suffix for letter in alphabet] if suffix else []
    forms += [marked + form for form in forms] if marked else []
    table = {p: n for n, p in enumerate(dict.fromkeys([*frame, *forms]))}
    merges: list[tuple[str, str]] = []
    for word in [*WORDS, *(blank + word for word in WORDS)]:
        left = word[0]
        for letter in word[1:]:
            right = (marked or "") + letter
            made = left + letter
            if left not in table or right not in table or draw.random() < 0.2:
                break
            if made not in table:
                table[made] = len(table)
                merges.append((left, right))
            left = made
    fallback = draw.random() < 0.15
    if fallback:
        for byte in range(256):
            table.setdefault(f"<0x{byte:02X}>", len(table))
    options = {
        "unk_token": draw.choice([unknown, unknown, None]),
        "continuing_subword_prefix": marked,
        "end_of_word_suffix": suffix,
        "fuse_unk": draw.random() < 0.3,
        "byte_fallback": fallback,
        "ignore_merges": draw.random() < 0.2,
        "dropout": 0.1 if draw.random() < 0.03 else None,
    }
    options = {name: value for name, value in options.items() if value is not None}
    return models.BPE(table, merges, **options)


def drawn(seed: int) -> Tokenizer:
    """Draw a tokenizer."""
    draw = random.Random(seed)
    # A fifth is as XLM-RoBERTa's, or nearly, and a tenth as BERT's.
    roberta, bert = draw.random() < 0.2, draw.random() < 0.125
    kind = draw.choice(KINDS)
    kind = "Unigram" if roberta else "WordPiece" if bert else kind
    frame = list(FRAMES[0] if roberta else FRAMES[1] if bert else draw.choice(FRAMES))
    blank = "▁" if roberta else draw.choice("▁▁▁Ġ_")
    own = Tokenizer(model(draw, kind, frame, blank))
    parts = {
        "normalizer": normalizer(draw),
        "pre_tokenizer": pre_tokenizer(draw),
        "post_processor": post_processor(draw, frame),
    }
    if roberta:
        parts["normalizer"] = normalizers.Precompiled(charsmap("nmt_nfkc"))
        parts["pre_tokenizer"] = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
        )
    elif bert:
        parts["normalizer"] = normalizers.BertNormalizer(lowercase=draw.random() < 0.5)
        parts["pre_tokenizer"] = pre_tokenizers.BertPreTokenizer()
    if (roberta or bert) and draw.random() < 0.7:
        start, end = (frame[2], frame[3]) if bert else (frame[0], frame[2])
        parts["post_processor"] = processors.TemplateProcessing(
            single=f"{start} $A {end}",
            pair=None,
            special_tokens=[(name, frame.index(name)) for name in (start, end)],
        )
    for name, part in parts.items():
        if part is not None:
            setattr(own, name, part)
    own.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in frame]
    )
    if draw.random() < 0.25:
        names = draw.sample(["newtoken", "the", "x y", "[X]", "É", "😀!", "ing"], 2)
        for name in names:
            flags = ("lstrip", "rstrip", "single_word", "normalized")
            token = AddedToken(name, **{f: draw.random() < 0.5 for f in flags})
            own.add_tokens([token])
    if draw.random() < 0.25:
        # Markers for texts, which sentence-transformers adds as special tokens.
        for name in draw.sample(["[DOC]", "<q>", "query:", "the cat", "sleeps"], 2):
            flags = ("lstrip", "rstrip", "single_word", "normalized")
            token = AddedToken(name, **{f: draw.random() < 0.3 for f in flags})
            own.add_special_tokens([token])
    if draw.random() < 0.1:
        own.enable_truncation(LIMIT)
    if draw.random() < 0.1:
        own.enable_padding(length=20)
    return own


def checked(seed: int, folder: Path) -> dict[str, Any]:
    """Return what became of a seed: `model`, `outcome` and details."""
    own = drawn(seed)
    content = json.loads(own.to_str())
    kind = content["model"]["type"]
    write_json(folder / "tokenizer.json", content)
    own = Tokenizer.from_str(own.to_str())
    own.no_truncation()
    own.no_padding()
    try:
        read = read_checkpoint_tokenizer(folder)
    except InputError:
        return {"model": kind, "outcome": "refused"}
    decoder = own.get_added_tokens_decoder().values()
    added = [token.content for token in decoder]
    special = [name for name in added if any(name in frame for frame in FRAMES)]
    plain = [name for name in added if name not in special]
    probes = texts(random.Random(seed), special, plain)
    control = {own.token_to_id(name) for name in special} - {read.unknown_id}
    result = {"model": kind, "outcome": "read", "kind": read.kind, "composed": 0}
    result["markers"] = sum(it.special for it in decoder) > len(special)
    for limit in (None, LIMIT):
        if limit:
            own.enable_truncation(limit)
        for text, ids in zip(probes, read.encode(probes, limit), strict=True):
            inside = ids[len(read.start_ids) : len(ids) - len(read.end_ids)]
            if any(name in text for name in special):
                same = control.isdisjoint(inside)
            else:
                same = own.encode(text).ids == ids
            odd = not unicodedata.is_normalized("NFKC", text) or "\x85" in text
            if not same and read.kind == "unigram" and odd:
                result["composed"] += 1
            elif not same:
                return result | {"outcome": "different", "text": text, "ids": ids}
    own.no_truncation()
    portable = same_in_portable(read, probes)
    if portable is False:
        return result | {"outcome": "different", "text": "the portable description"}
    return result | {"portable": bool(portable)}


def same_in_portable(read: Any, probes: list[str]) -> bool | None:
    """Tell whether the portable description has the same ids; None if there is none."""
    try:
        portable = load_portable(describe(read, LIMIT))
    except InputError:
        return None
    return portable.encode(probes) == read.encode(probes, LIMIT)


def main() -> int:
    """Check all seeds, print a table and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="write the result file")
    options = parser.parse_args()
    rows = []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"seed": seed} | checked(seed, Path(folder)))
    table = {}
    for name in sorted({row["model"] for row in rows}):
        found = [row for row in rows if row["model"] == name]
        read = [row for row in found if row["outcome"] == "read"]
        table[name] = {
            "drawn": len(found),
            "read": len(read),
            "refused": sum(row["outcome"] == "refused" for row in found),
            "different": sum(row["outcome"] == "different" for row in found),
            "kinds": dict(Counter(row["kind"] for row in read)),
            "with_markers": sum(row["markers"] for row in read),
            "portable": sum(row["portable"] for row in read),
            "texts_not_in_nfkc": sum(row["composed"] for row in read),
        }
        print(name, json.dumps(table[name]))
    share = sum(row["outcome"] == "read" for row in rows) / len(rows)
    print(f"{len(rows)} drawn, {share:.1%} read")
    wrong = [row for row in rows if row["outcome"] == "different"]
    for row in wrong[:10]:
        print("DIFFERENT", row)
    if options.json:
        write_json(RESULT, {"seeds": len(rows), "read": share, "models": table})
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
