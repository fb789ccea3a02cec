"""Tokenizers, texts and damages for the tests of the portable tokenizer's readers."""

import base64
import io
import json
import random
import zipfile

from tokenizer_files import write_wordpiece
from tokenizer_texts import CORPUS, made_texts

from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    parse,
    train_unigram,
)

# Blanks and their sign where a run of them begins, ends or is all there is.
BLANKS = ["▁", "▁▁", "a▁ ", " ▁ a", "\x00", " \x00", "\x00 ", "  a  b▁", "\ufeffa"]
BLANKS += ["a¨ b", "¨  ¨"]
LONG = ["x" * 9000, "kalo" * 2000, "Ω\u0378" * 3000]


def stored(model, description):
    """Return a .tflite file whose tokenizer is not compressed, as it once was."""
    content = io.BytesIO(model)
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("tokenizer.json", description)
    return content.getvalue()


def of_wrong_size(file):
    """Return a .tflite file that says that its tokenizer has one byte more."""
    place = file.rindex(b"PK\1\2") + 24
    size = int.from_bytes(file[place : place + 4], "little") + 1
    return file[:place] + size.to_bytes(4, "little") + file[place + 4 :]


def texts(seed=0):
    """Return made sentences, tricky ones, and random ones of a few characters."""
    draw = random.Random(seed)
    near = ["".join(draw.choices("abk loxΩé▁ ", k=9000))]
    near += ["".join(draw.choices("abk loxΩé▁ ", k=30)) for _ in range(100)]
    return made_texts(250) + CORPUS[:60] + BLANKS + LONG + near + ["a😀b"]


def unigrams():
    """Yield models in which flags, the character map and the kind of scores differ."""
    definition = train_unigram(CORPUS, 500).definition
    folded = parse(train_unigram(CORPUS, 500, case_fold=True).definition)
    for seed in range(8):
        draw, proto = random.Random(seed), parse(definition)
        spec = proto.normalizer_spec
        if seed:
            spec.add_dummy_prefix = bool(seed & 1)
            spec.remove_extra_whitespaces = bool(seed & 2)
            spec.escape_whitespaces = bool(seed & 4) or seed == 1
        if seed in (2, 5):
            spec.precompiled_charsmap = b""
        if seed == 6:
            spec.precompiled_charsmap = folded.normalizer_spec.precompiled_charsmap
        there = {piece.piece for piece in proto.pieces}
        for piece in {"  c", "a b", "ab", "▁▁", "hello"} - there:
            proto.pieces.add(piece=piece, score=-3.3)
        for piece in proto.pieces[3:]:
            if seed == 3:
                piece.score = -len(piece.piece)
            if seed == 4:
                piece.score = draw.choice([-0.1, -0.2, -0.3, -1e-7])
            if seed == 6:
                piece.score = -5000 * draw.random()
            if seed == 7:
                piece.score = -33.3 * len(piece.piece)
            if draw.random() < 0.03 * seed:
                piece.type = piece.UNUSED
        # One unknown character and "b" are worth more than "😀b", two are worth less.
        unknown = min(piece.score for piece in proto.pieces) - 10
        next(piece for piece in proto.pieces if piece.piece == "b").score = (
            -1.5 * unknown
        )
        proto.pieces.add(piece="😀b", score=0)
        proto.pieces.add(piece="<mask>", type=proto.SentencePiece.CONTROL)
        yield SentencePieceTokenizer(proto.SerializeToString())


def wordpiece(folder, **fields):
    """Return a WordPiece tokenizer that knows many words and characters of the texts.

    Some are left out, so that there are unknown words.
    """
    found = {word for text in CORPUS for word in text.split() if len(word) < 9}
    found |= {character for text in texts() for character in text}
    found |= {piece.lower() for piece in found}
    plain = sorted(one for one in found if one.isalnum() and sum(one.encode()) % 13)
    lines = "[PAD] [UNK] [CLS] [SEP] [MASK] [ ] < > / # . , ! ? …".split() + plain
    lines += ["##" + piece for piece in plain]
    write_wordpiece(folder, lines, **fields)
    return read_checkpoint_tokenizer(folder)


def damages(description):
    """Yield descriptions that are wrong in one way each, and what is said of them."""
    yield b"", ""
    yield description[: len(description) // 2], ""
    yield b"\xff" + description, ""
    yield b"[]", "version"
    fields = json.loads(description)
    changes = [
        ("version", 2, "version"),
        ("kind", "bytepair", "kind"),
        ("kind", "toString", "kind"),
        ("pieces", "ab", "`pieces` is no"),
        ("max_length", None, "`max_length` is no"),
        ("max_length", 1, "room"),
        ("unknown_id", len(fields["pieces"]), "`unknown_id` has no piece"),
        ("pad_id", -1, "`pad_id` has no piece"),
    ]
    if fields["kind"] == "unigram":
        charsmap = base64.b64decode(fields["character_map"])
        outside = charsmap[:4] + b"\xff\xff\xff\x7f" + charsmap[8:]
        changes += [
            ("scores", fields["scores"][:-1], ""),
            ("scores", [None] * len(fields["pieces"]), ""),
            ("pieces", [""] * len(fields["pieces"]), ""),
            ("escape_whitespaces", "yes", "`escape_whitespaces` is no"),
            ("character_map", "?", ""),
            ("character_map", encoded(charsmap[:3]), ""),
            ("character_map", encoded(charsmap[:5000]), ""),
            ("character_map", encoded(charsmap[:-1]), "cut off"),
            ("character_map", encoded(outside), "wrong at unit 0"),
        ]
    else:
        rules = fields["character_rules"]
        changes += [
            ("character_rules", [], ""),
            ("character_rules", rules[1:], "order"),
            ("character_rules", rules[::-1], "order"),
            ("character_rules", [[0, 1, True, ""]], ""),
        ]
    for name, value, message in changes:
        yield json.dumps(fields | {name: value}).encode(), message


def encoded(content):
    return base64.b64encode(content).decode()
