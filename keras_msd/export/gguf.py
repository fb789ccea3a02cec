"""The format `gguf`: a BERT for llama.cpp and what is built on it, tokenizer inside."""

import ctypes
import math
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from keras_msd import __version__
from keras_msd.checks import InputError, existing_file, explained, none_of, require
from keras_msd.export.formats import Run
from keras_msd.export.huggingface import bert_tensors, check_bert
from keras_msd.export.proof import check_ids
from keras_msd.light import usable_processors
from keras_msd.models.network import EncoderConfig
from keras_msd.quantize import to_integers
from keras_msd.tokenizers.sentencepiece import parse

FILE = "model.gguf"
EXTRA = "gguf"
NORMALIZE = "sentence_encoder.normalize"  # llama.cpp leaves this to whoever calls it
BLOCK = 32  # numbers of a row that share a scale
ROOM = 256  # tokens, of which llama.cpp's room is a multiple
TYPES = {None: "F32", "f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
POOLINGS = {"mean": "MEAN", "cls": "CLS"}


def write(encoder: Any, path: Path, quantize: str | None = None) -> dict[str, Any]:
    """Write an encoder as `model.gguf`, architecture `bert`, tokenizer `t5`.

    A narrow word table is multiplied by its projection, and a unit that runs several
    times becomes as many layers. Norms, biases and positions are float32.

    `q4_0` rounds as our own 4 bits do: of an encoder that was trained or saved with
    `int4`, it keeps every number.

    Args:
        encoder: The encoder to write.
        path: A folder that does not exist yet.
        quantize: How the word table and the kernels are stored: None for float32,
            "f16", "q8_0" or "q4_0", which are llama.cpp's names.

    Returns:
        `tensors`: how many are of each type; `tokenizer_check`.

    Raises:
        InputError: llama.cpp cannot run such an encoder or tokenizer, or a package is
            not installed.
    """
    gguf = require("gguf", EXTRA, "The format gguf")
    config: EncoderConfig = encoder.config
    _check(config, quantize)
    if feature := encoder.tokenizer.unusual_feature():
        raise InputError(
            "The tokenizer of a GGUF file must be a unigram vocabulary that llama.cpp "
            f"reads as SentencePiece does. Received: {feature}. Use the format `onnx`."
        )
    path.mkdir(parents=True)
    writer = gguf.GGUFWriter(path / FILE, "bert")
    writer.add_name("Sentence encoder")
    writer.add_description(f"made with keras-msd {__version__}")
    kind = TYPES[quantize]
    whole = "ALL_F32" if quantize is None else f"MOSTLY_{kind}"
    writer.add_file_type(gguf.LlamaFileType[whole])
    writer.add_context_length(encoder.max_length)
    writer.add_embedding_length(config.hidden_dim)
    writer.add_feed_forward_length(config.intermediate_dim)
    writer.add_block_count(config.depth)
    writer.add_head_count(config.num_heads)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType[POOLINGS[config.pooling]])
    writer.add_bool(NORMALIZE, config.normalize)
    _add_tokenizer(writer, encoder.tokenizer)
    stored = _add_tensors(writer, encoder, gguf, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = _open(path / FILE, vocab_only=True, n_ctx=8)
    compared = check_ids(
        encoder.tokenizer,
        lambda texts: [_ids(model, text) for text in texts],
        "a GGUF file",
    )
    model.close()
    return {"tensors": stored, "tokenizer_check": compared}


def load(path: str | Path, threads: int | None = None) -> Run:
    """Load `model.gguf` in llama.cpp, as a function to float32 `(n, dim)`.

    Args:
        path: The folder that `write` wrote.
        threads: How many threads llama.cpp may use; by default one for each usable
            processor.

    Raises:
        InputError: The file is missing, damaged or another model, or llama-cpp-python
            is not installed.
    """
    library = require("llama_cpp", EXTRA, "A GGUF file")
    file = existing_file(Path(path) / FILE, "model")
    vocabulary = _open(file, vocab_only=True, n_ctx=8)
    longest = int(vocabulary.metadata["bert.context_length"])
    vocabulary.close()
    # llama.cpp aborts if it has to round the room for the longest text up itself.
    room = math.ceil(longest / ROOM) * ROOM
    rooms = dict.fromkeys(("n_ctx", "n_batch", "n_ubatch"), room)
    model = _open(file, threads, embedding=True, **rooms)
    normalize = model.metadata.get(NORMALIZE) == "true"
    width, lock = model.n_embd(), threading.Lock()

    def embed(text: str) -> np.ndarray:
        ids = _ids(model, text)
        if len(ids) > longest:
            ids = [*ids[: longest - 1], ids[-1]]
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        library.llama_decode(model.ctx, library.llama_batch_get_one(tokens, len(ids)))
        found = library.llama_get_embeddings_seq(model.ctx, 0)
        vector = np.array(found[:width], np.float32)
        return vector / np.linalg.norm(vector) if normalize else vector

    def run(texts: list[str]) -> np.ndarray:
        with lock:  # a context has room for one call at a time
            vectors = [embed(text) for text in texts]
        return np.array(vectors, np.float32).reshape(len(texts), width)

    return run


def _open(path: Path, threads: int | None = None, **options: Any) -> Any:
    """Return a `llama_cpp.Llama`; `options` are its own."""
    library = require("llama_cpp", EXTRA, "A GGUF file")
    count = threads or usable_processors()
    options |= {"n_threads": count, "n_threads_batch": count, "verbose": False}
    with explained(
        lambda error: f"llama.cpp cannot load `{path}`: {error}. Export it again.",
        Exception,
    ):
        return library.Llama(str(path), **options)


def _ids(model: Any, text: str) -> list[int]:
    # The name of a special token in a text is text.
    ids: list[int] = model.tokenize(text.encode(), add_bos=True, special=False)
    return ids


def _check(config: EncoderConfig, quantize: str | None) -> None:
    """Raise `InputError`, saying what is in the way, unless llama.cpp can run it."""
    check_bert(config, "A GGUF file", "Use the format `onnx` or `litert`.")
    wrong = {
        f"the pooling {config.pooling}": config.pooling not in POOLINGS,
        f"the activation {config.activation}": not config.activation.startswith("gelu"),
        f"a projection to {config.projection_dim} after the pooling": (
            config.projection_dim is not None
        ),
        f"rows of {config.hidden_dim} and {config.intermediate_dim} numbers": (
            quantize in ("q8_0", "q4_0")
            and (config.hidden_dim % BLOCK or config.intermediate_dim % BLOCK) > 0
        ),
    }
    rule = (
        "llama.cpp runs a BERT with GELU and the pooling mean or cls, and stores rows "
        f"of a multiple of {BLOCK} in 8 or 4 bits."
    )
    none_of(wrong, rule, "Use the format `onnx` or `litert`.")


def _add_tokenizer(writer: Any, tokenizer: Any) -> None:
    from gguf import TokenType

    proto = parse(tokenizer.definition)
    normal, spec = proto.SentencePiece.NORMAL, proto.normalizer_spec
    # llama.cpp would find unused pieces in texts, control pieces it does not.
    kinds = [TokenType.CONTROL] * 3 + [TokenType.UNKNOWN]
    kinds += [
        TokenType.NORMAL if piece.type == normal else TokenType.CONTROL
        for piece in proto.pieces[3:]
    ]
    writer.add_tokenizer_model("t5")  # the unigram models of SentencePiece
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokenizer.pieces())
    writer.add_token_scores([0.0] * 4 + [piece.score for piece in proto.pieces[3:]])
    writer.add_token_types(kinds)
    writer.add_token_type_count(1)
    writer.add_bos_token_id(tokenizer.start_id)
    writer.add_sep_token_id(tokenizer.end_id)
    writer.add_eos_token_id(tokenizer.end_id)
    writer.add_unk_token_id(tokenizer.unknown_id)
    writer.add_pad_token_id(tokenizer.pad_id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(spec.remove_extra_whitespaces)
    if spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(spec.precompiled_charsmap)


def _add_tensors(writer: Any, encoder: Any, gguf: Any, kind: str) -> dict[str, int]:
    """Add all tensors under llama.cpp's names; return how many have which type."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, encoder.config.depth)
    counts: Counter[str] = Counter()
    for key, array in bert_tensors(encoder).items():
        if key.endswith("token_type_embeddings.weight"):
            continue  # part of the positions
        positions = key.endswith("position_embeddings.weight")
        if positions:
            array = array[: encoder.max_length]
        stored = "F32" if positions or array.ndim == 1 else kind
        counts[stored] += 1
        name = names.get_name(key, try_suffixes=(".weight", ".bias"))
        type_of = gguf.GGMLQuantizationType[stored]
        writer.add_tensor(name, _packed(gguf, array, type_of), raw_dtype=type_of)
    return dict(counts)


def _packed(gguf: Any, array: np.ndarray, kind: Any) -> np.ndarray:
    """Return the bytes of a tensor's rows, or its numbers in floating point."""
    array = np.ascontiguousarray(array, np.float32)
    if kind != gguf.GGMLQuantizationType.Q4_0:
        return gguf.quantize(array, kind)
    # llama.cpp's own rounding has one more number at one end, and keeps less of ours.
    numbers, scales = to_integers(array, 4, BLOCK, np.float16)
    halves = (numbers + 8).astype(np.uint8).reshape(*scales.shape, 2, BLOCK // 2)
    packed = halves[:, :, 0] | halves[:, :, 1] << 4
    scale_bytes = scales[..., np.newaxis].view(np.uint8)
    return np.concatenate([scale_bytes, packed], axis=-1).reshape(len(array), -1)
