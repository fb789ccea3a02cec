"""The format `huggingface`: a folder as sentence-transformers and the hub know it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file
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

from keras_msd.arrays import pad_batch
from keras_msd.checkpoints import weights as checkpoint
from keras_msd.checkpoints.checkpoint import load_checkpoint
from keras_msd.checks import InputError, a_list, none_of, one_of
from keras_msd.export.card import score_title
from keras_msd.export.formats import Run
from keras_msd.export.onnx_files import FILE, open_session
from keras_msd.export.portable import refused
from keras_msd.export.proof import (
    EXAMPLE_SET,
    THRESHOLDS,
    UNNAMED_SET,
    ExportError,
    check_texts,
    parity,
    proof_sentences,
)
from keras_msd.io.files import read_table, write_json
from keras_msd.layers import POOLINGS
from keras_msd.models.network import WORD, EncoderConfig, plain_weights
from keras_msd.quantize import SCHEMES
from keras_msd.tokenizers.base import CONFIG, Tokenizer
from keras_msd.tokenizers.loading import FILE as TOKENIZER
from keras_msd.tokenizers.loading import MAP, read_checkpoint_tokenizer
from keras_msd.tokenizers.sentencepiece import SentencePieceTokenizer, parse
from keras_msd.tokenizers.tokenizer_json import (
    WordPieceTokenizer,
    read_backend,
    spelled_tokens,
)
from keras_msd.usage import Usage

if TYPE_CHECKING:
    import onnx

FOLDER, QUANTIZED = "onnx", "model_quantized.onnx"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("last_hidden_state", "sentence_embedding")
LEAVE_OUT = ("weights", "int8")
AXES = ["batch_size", "sequence_length"]
ONNX_ONLY = """
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("FOLDER", backend="onnx")
vectors = model.encode(["A sentence."])  # float32 (n, dim)
"""


def write(
    encoder: Any,
    path: Path,
    quantize: str | None = None,
    leave_out: Sequence[str] = (),
    base_model: str | None = None,
    datasets: Sequence[str] = (),
) -> dict[str, Any]:
    """Write an encoder as a folder in sentence-transformers layout.

    Beside settings and tokenizer it holds `model.safetensors`, a BERT whose layers are
    those that a sentence passes through; `onnx/model.onnx`; and its int8 form
    `onnx/model_quantized.onnx`. Inputs of both are `input_ids`, `attention_mask` and
    `token_type_ids` (which changes nothing), int64 `(batch, length)`; outputs
    `last_hidden_state`, float32 `(batch, length, width)`, and `sentence_embedding`,
    float32 `(batch, dim)`, with pooling, projection and normalisation.

    Where `weights` are left out, the architecture may be any: `last_hidden_state` then
    has the sentence's vector in the place of each token, so that whoever pools by the
    mean gets it.

    Args:
        encoder: The encoder to write.
        path: A folder.
        quantize: None: the folder has float32 and int8 at once.
        leave_out: "weights" for no `model.safetensors`, "int8" for no
            `onnx/model_quantized.onnx`.
        base_model: Name of the teacher on the hub, for the README's header.
        datasets: Names of training data on the hub, for the same.

    Returns:
        Facts for the card.

    Raises:
        InputError: An option is unknown, the encoder is no BERT and its weights are not
            left out, no tokenizer.json gives the tokenizer's ids, or a package is not
            installed.
        ExportError: What was written differs too much from the encoder.
    """
    a_list(leave_out=leave_out, datasets=datasets)
    for part in leave_out:
        one_of(LEAVE_OUT, leave_out=part)
    tokens = "weights" not in leave_out
    if tokens:
        what = "model.safetensors of a Hugging Face folder"
        check_bert(encoder.config, what, LEAVE_OUT_WEIGHTS)
    from keras_msd.export.onnx import facts_of, save  # needs the package onnx

    path.mkdir(parents=True, exist_ok=True)
    write_settings(encoder.config, path, tokens)
    write_tokenizer(encoder.tokenizer, path, encoder.max_length)
    model = _model(encoder, None, tokens)
    save(model, path / FOLDER)
    facts = facts_of(model) | {
        "tokenizer_check": check_ids(encoder.tokenizer, path),
        "base_model": base_model,
        "datasets": list(datasets),
    }
    if tokens:
        write_tensors(encoder, path)
        again = load_checkpoint(path)
        facts["weights_parity"] = _proven(
            encoder, partial(again.encode, prompt=""), None, "model.safetensors"
        )
    else:
        facts["how_to_load"] = ONNX_ONLY
    if "int8" not in leave_out:
        save(_model(encoder, "int8", tokens), path / FOLDER, QUANTIZED)
        run = load(path, name=QUANTIZED)
        facts["int8_parity"] = _proven(encoder, run, "int8", f"{FOLDER}/{QUANTIZED}")
    return facts


def load(path: str | Path, threads: int | None = None, name: str = FILE) -> Run:
    """Load `onnx/model.onnx` as a function from sentences to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: As in `onnx_files.load_ids`.
        name: Name of the file in `onnx/`.

    Raises:
        InputError: A file is missing, damaged or another one, or onnxruntime is not
            installed.
    """
    folder = Path(path)
    session = open_session(folder / FOLDER, INPUTS, threads, outputs=OUTPUTS, name=name)
    tokenizer = read_checkpoint_tokenizer(folder)
    longest = read_table(folder / CONFIG).get("model_max_length")

    def run(texts: list[str]) -> np.ndarray:
        rows = tokenizer.encode(texts, longest)
        batch = pad_batch(rows, tokenizer.pad_id, longest, multiple=1)
        ids, mask = (batch[name].astype(np.int64) for name in batch)
        feeds = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
        return session.run([OUTPUTS[1]], feeds)[0]

    return run


def compared(encoder: Any, texts: Sequence[str]) -> list[str]:
    """Return the texts that spell no special token, see `Format.compared`.

    In a tokenizer.json, the name of a special token is that token or an unknown one,
    depending on the reader.
    """
    return without_names(special_names(encoder.tokenizer), texts)


def _model(encoder: Any, quantize: str | None, tokens: bool) -> "onnx.ModelProto":
    from keras_msd.export.onnx import FLOAT, INT64, Graph, append_network

    config, graph = encoder.config, Graph()
    hidden, vector = append_network(graph, encoder, SCHEMES[quantize], *INPUTS[:2])
    if not tokens:
        length = graph.node("Shape", INPUTS[0], start=1, end=2)
        shape = graph.node("Concat", (1,), length, (1,), axis=0)
        hidden = graph.node("Expand", graph.node("Unsqueeze", vector, (1,)), shape)
    width = config.hidden_dim if tokens else encoder.dim
    return graph.model(
        dict.fromkeys(INPUTS, (INT64, AXES)),
        {
            OUTPUTS[0]: (hidden, FLOAT, [*AXES, width]),
            OUTPUTS[1]: (vector, FLOAT, [AXES[0], encoder.dim]),
        },
    )


def _proven(encoder: Any, run: Run, quantize: str | None, file: str) -> dict[str, Any]:
    """Compare the vectors of a part that the artefact's own proof does not see.

    Raises:
        ExportError: A cosine is smaller than it may be.
    """
    texts = compared(encoder, list(dict.fromkeys(proof_sentences())))
    before = encoder.encode(texts, progress=False, prompt="")
    found = parity(texts, before, run(texts))
    least = THRESHOLDS[quantize].min_cosine
    if found["min_cosine"] < least:
        part = "weights" if quantize is None else quantize
        raise ExportError(
            f"`{file}` must agree with the encoder to cosine {least}. Received: "
            f"{found['min_cosine']:.6f} for {found['worst']!r:.60}. Nothing was kept. "
            f"Leave it out with leave_out=[{part!r}] (--leave-out {part})."
        )
    return found


BERT = checkpoint.FAMILIES["bert"]
# Of several names for one function, the one that most checkpoints have stands first.
HIDDEN_ACT = {ours: name for name, ours in reversed(checkpoint.ACTIVATIONS.items())}
DENSE_ACTIVATION = {
    ours: theirs for theirs, ours in checkpoint.DENSE_ACTIVATIONS.items()
}
MODULES = "sentence_transformers.models"


LEAVE_OUT_WEIGHTS = (
    "Give leave_out=['weights'] (--leave-out weights) for a folder that ONNX runtimes "
    'alone load (sentence-transformers with backend="onnx", transformers.js, '
    "fastembed), or use the format `onnx` or `saved_model`."
)


def check_bert(config: EncoderConfig, what: str, repair: str) -> None:
    """Raise `InputError`, saying what is in the way, unless an encoder is a BERT.

    Args:
        config: The encoder's.
        what: The file that holds a BERT, for the message.
        repair: What to do instead, for the message.
    """
    wrong = {
        "no layers (`num_layers=0`)": not config.num_layers,
        "layers that normalise first (`normalize_first=True`)": config.normalize_first,
        "embeddings without a layer norm (`embedding_layer_norm=False`)": (
            not config.embedding_layer_norm
        ),
        f"attention heads of another dimension (`head_dim={config.head_dim}`)": (
            config.num_heads * config.key_dim != config.hidden_dim
        ),
    }
    none_of(wrong, f"{what} holds a BERT.", f"No BERT has that. {repair}")


def write_settings(config: EncoderConfig, folder: Path, tokens: bool) -> None:
    """Write config.json, modules.json and the settings of Pooling and Dense.

    Args:
        config: The encoder's.
        folder: Where they go.
        tokens: Whether the transformer gives the vectors of tokens. If not, it gives
            the sentence's vector in the place of each: pooling by the mean gives it
            back, and no Dense is needed.
    """
    width = config.hidden_dim if tokens else config.dim
    settings = {key: getattr(config, name) for name, key in BERT.settings.items()}
    settings |= {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "attention_probs_dropout_prob": config.dropout,
        "hidden_act": HIDDEN_ACT[config.activation],
        "hidden_size": width,
        "max_position_embeddings": config.max_positions or config.max_length,
        "num_hidden_layers": config.depth,
        "pad_token_id": config.pad_id,
        "position_embedding_type": "absolute",
    }
    write_json(folder / "config.json", settings)
    limits = {"max_seq_length": config.max_length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", limits)
    write_usage(config, folder)
    dense = tokens and config.projection_dim is not None
    kinds = ["Transformer", "Pooling", *["Dense"] * dense]
    kinds += ["Normalize"] * config.normalize
    places = [f"{place}_{kind}" if place else "" for place, kind in enumerate(kinds)]
    write_module_list(folder, dict(zip(places, kinds, strict=True)))
    pooling = config.pooling if tokens else "mean"
    modes = checkpoint.POOLING_FLAGS.items()
    flags = {key: mode == pooling for key, mode in modes if mode in POOLINGS}
    modules: dict[str, dict[str, Any]] = {}
    modules["1_Pooling"] = {"word_embedding_dimension": width} | flags
    if dense:
        modules["2_Dense"] = {
            "in_features": config.hidden_dim,
            "out_features": config.projection_dim,
            "bias": config.projection_bias,
            "activation_function": DENSE_ACTIVATION[config.projection_activation],
        }
    for name, values in modules.items():
        (folder / name).mkdir()
        write_json(folder / name / "config.json", values)


def write_usage(usage: Usage, folder: Path) -> None:
    """Write config_sentence_transformers.json: the prompts, how vectors compare."""
    fields = {name: getattr(usage, name) for name in Usage.model_fields}
    settings = {"model_type": "SentenceTransformer"} | fields
    write_json(folder / "config_sentence_transformers.json", settings)


def write_module_list(folder: Path, kinds: Mapping[str, str]) -> None:
    """Write modules.json: the kind of each module, by its folder, in order."""
    entries = [
        {"idx": n, "name": str(n), "path": place, "type": f"{MODULES}.{kind}"}
        for n, (place, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", entries)


def bert_tensors(encoder: Any) -> dict[str, np.ndarray]:
    """Return the weights of a BERT under the names of its checkpoints, float32.

    The word table goes through its projection, and a unit that runs several times
    becomes as many layers. Kernels are `(out, in)`; the row of positions that the first
    token takes comes first and, with the others, includes the first type.
    """
    config: EncoderConfig = encoder.config
    weights = plain_weights(encoder)
    if config.bottleneck_dim is not None:
        weights[WORD] = weights[WORD] @ weights["embedding/projection"]
    # The positions include the first type.
    types = encoder.weights()["embedding/type"]
    weights["embedding/type"] = types - types[0]
    for path in weights:
        if path.endswith("/kernel"):
            weights[path] = weights[path].T  # `(out, in)`, as checkpoints have it
    tensors = {}
    for key, path in BERT.keys.items():
        for layer in range(config.depth) if "{i}" in key else (0,):
            place = path.format(i=layer % config.num_layers)
            tensors[key.format(i=layer)] = weights[place]
    return tensors


def write_tensors(encoder: Any, folder: Path) -> None:
    """Write model.safetensors of a BERT, and of Dense where there is a projection."""
    _save(bert_tensors(encoder), folder)
    if encoder.config.projection_dim is not None:
        weights = plain_weights(encoder)
        dense = {"linear.weight": weights["projection/kernel"].T}
        if "projection/bias" in weights:
            dense["linear.bias"] = weights["projection/bias"]
        _save(dense, folder / "2_Dense")


def _save(tensors: dict[str, np.ndarray], folder: Path) -> None:
    whole = {key: np.ascontiguousarray(array) for key, array in tensors.items()}
    # transformers asks which framework's layout it is.
    save_file(whole, folder / checkpoint.SINGLE, metadata={"format": "pt"})


def header(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield the YAML header of a README: what the hub lists a model by.

    Every value is written as JSON, which is YAML too. Scores are those of the card,
    unless they are of the example sentences or of rows without a name.

    Args:
        card: What `card.json` holds.
    """
    licence = card.get("license")
    fields: dict[str, Any] = {
        "language": card["languages"],
        **({"license": licence.lower()} if licence else {}),
        "base_model": card.get("base_model"),
        "datasets": card.get("datasets"),
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction", "keras-msd"],
    }
    if licence and not re.fullmatch(r"[\w.-]+", licence):
        fields |= {"license": "other", "license_name": licence}
    sts = card["parity"]["sts"]
    if sts["set"] not in (EXAMPLE_SET, UNNAMED_SET):
        metrics = [
            {"type": "spearman", "name": score_title(name), "value": round(value, 4)}
            for name, value in sts["after"].items()
        ]
        slug = re.sub(r"\W+", "-", sts["set"]).strip("-").lower()
        result = {
            "task": {"type": "sentence-similarity", "name": "Sentence similarity"},
            "dataset": {"type": slug, "name": sts["set"]},
            "metrics": metrics,
        }
        fields["model-index"] = [{"name": "Sentence encoder", "results": [result]}]
    yield "---"
    for key, value in fields.items():
        if value:
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"
    yield from ("---", "")


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
    backend.save(str(folder / TOKENIZER))
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
    write_json(folder / MAP, names)


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
    written = read_backend((folder / TOKENIZER).read_bytes(), f"`{folder / TOKENIZER}`")
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
