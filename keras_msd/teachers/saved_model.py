"""SavedModels that others published, as functions from sentences to vectors.

A SavedModel is a program: loading and calling it runs what its author put there, with
your rights. Load only one from a source that you trust.
"""

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_msd.arrays import by_length, pad_batch
from keras_msd.checks import InputError
from keras_msd.teachers.saved_model_folder import SavedModelFolder
from keras_msd.teachers.saved_model_operations import DAMAGED, check_operations
from keras_msd.teachers.vectors import checked
from keras_msd.tokenizers.base import Tokenizer
from keras_msd.tokenizers.graph import tensorflow_text
from keras_msd.tokenizers.tokenizer_json import WordPieceTokenizer

Apply = Callable[[Any], Any]
BATCH = 64  # sentences in one call
IDS = ("input_word_ids", "input_mask", "input_type_ids")
LENGTH = 128  # tokens, as LaBSE's preprocessor packs them
SHAPES = (
    "a string tensor (n,) to vectors (n, dim), as LEALLA and the Universal Sentence "
    "Encoder do; or be `preprocessor` and `encoder` in one folder, from strings to "
    "tensors by name and from these to `default` or `pooled_output`, as LaBSE 2; or "
    f"map {', '.join(IDS)} to vectors and hold `vocab_file`, as LaBSE 1"
)


class Call(NamedTuple):
    """A way to call a SavedModel.

    Attributes:
        name: "__call__", or the name of a signature.
        apply: Takes tensors in the structure of `inputs`, gives that of `outputs`.
        inputs: A `tf.TensorSpec`, or a table or list of them.
        outputs: The same of what comes out.
    """

    name: str
    apply: Apply
    inputs: Any
    outputs: Any

    def __str__(self) -> str:
        """Write the call as in `__call__(string[?]) -> float32[?, 512]`."""
        return f"{self.name}({_written(self.inputs)}) -> {_written(self.outputs)}"


def load_saved_model(
    folder: SavedModelFolder, allow_operations: Collection[str] = ()
) -> Callable[[list[str]], np.ndarray]:
    """Load a published SavedModel with `tf.saved_model.load`.

    Three shapes are read, of `__call__` or else of the signature `serving_default`:

    - Text: string `(n,)` to float `(n, dim)`. LEALLA 1, Universal Sentence Encoder 3
      and 4, the multilingual ones 2 and 3, and what `export` writes.
    - Preprocessor and encoder, two SavedModels. The first maps string `(n,)` to tensors
      by name (LaBSE's: `input_word_ids`, `input_mask`, `input_type_ids`, each int32
      `(n, 128)`), the second maps these to outputs by name, among them `default` or
      `pooled_output`, float `(n, dim)`. LaBSE 2 and its preprocessor
      universal-sentence-encoder-cmlm/multilingual-preprocess; every text encoder with
      TensorFlow Hub's interface of two steps.
    - Ids: the same three tensors int `(n, length)`, by name or in this order, to such
      outputs or to a list that starts with the vectors. The model holds `vocab_file`, a
      WordPiece vocabulary, and `do_lower_case`; tokens are made here, at most 128 of a
      sentence, start and end included. LaBSE 1.

    Models in TensorFlow Hub's format for TensorFlow 1 are not read. Vectors are as the
    model gives them: scaling those of LaBSE 2 to length one is left to the caller.

    Args:
        folder: Where its parts lie.
        allow_operations: Names of operations with files, a network or Python that it
            may hold; any other is refused before it is loaded.

    Returns:
        A function from sentences to float32 `(n, dim)`.

    Raises:
        InputError: It cannot be loaded, holds an operation that is not allowed, or has
            none of these shapes; the message lists the calls that were found.

    Source: www.tensorflow.org/hub/common_saved_model_apis/text and the models' pages.
    """
    # It registers the operations of tokenizers, such as that of multilingual USE.
    tensorflow_text("A SavedModel")
    models = {
        path: _load(path, allow_operations) for path in folder if path is not None
    }
    calls = {path: _find_calls(model) for path, model in models.items()}
    after = _usable(calls[folder.encoder])
    if folder.preprocessor is None:
        apply = _from_text(after) or _from_ids(after, models[folder.encoder])
    else:
        apply = _in_two_steps(_usable(calls[folder.preprocessor]), after)
    if apply is None:
        listed = (
            f"`{path}` with {'; '.join(map(str, ways)) or 'nothing to call'}"
            for path, ways in calls.items()
        )
        raise InputError(
            f"A SavedModel must map {SHAPES}. Received: {', '.join(listed)}. Give its "
            "encode function as a callable teacher instead."
        )
    # The models own the variables that are read: they must live as long as the result.
    return partial(_in_batches, apply, str(folder.encoder), tuple(models.values()))


def _load(folder: Path, allowed: Collection[str]) -> Any:
    check_operations(folder, allowed)
    try:
        return tf.saved_model.load(str(folder))
    # TensorFlow promises no kind of error for a damaged file.
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise InputError(DAMAGED.format(folder, said)) from error


def _usable(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.name in ("__call__", "serving_default")]


def _takes_text(call: Call) -> bool:
    return _is_tensor(call.inputs, 1, tf.string)


def _from_text(calls: list[Call]) -> Apply | None:
    for call in calls:
        if _takes_text(call) and _gives_vectors(call):
            apply = call.apply
            return lambda texts: apply(tf.constant(texts))
    return None


def _in_two_steps(before: list[Call], after: list[Call]) -> Apply | None:
    for first in filter(_takes_text, before):
        for second in filter(_gives_vectors, after):
            between = (first.outputs, second.inputs)
            if (
                all(isinstance(tensors, Mapping) for tensors in between)
                and first.outputs.keys() == second.inputs.keys()
            ):
                apply, then = first.apply, second.apply
                return lambda texts: then(apply(tf.constant(texts)))
    return None


def _from_ids(calls: list[Call], model: Any) -> Apply | None:
    vocabulary = getattr(model, "vocab_file", None)
    # Anything else that has a path could name any file.
    if not isinstance(vocabulary, tf.saved_model.Asset):
        return None
    if not hasattr(model, "do_lower_case"):
        return None
    for call in filter(_gives_vectors, calls):
        specs = call.inputs
        if isinstance(specs, Mapping) and set(specs) == set(IDS):
            specs = [specs[name] for name in IDS]
        if (
            isinstance(specs, list | tuple)
            and len(specs) == len(IDS)
            and all(_is_tensor(spec, 2, tf.int32, tf.int64) for spec in specs)
        ):
            tokenizer = WordPieceTokenizer.from_file(
                Path(os.fsdecode(vocabulary.asset_path.numpy())),
                {"do_lower_case": bool(model.do_lower_case.numpy())},
            )
            return partial(_tokenized, tokenizer, call, specs[0])
    return None


def _tokenized(tokenizer: Tokenizer, call: Call, spec: Any, texts: list[str]) -> Any:
    fixed = None if spec.shape.rank is None else spec.shape[1]
    longest = fixed or LENGTH
    batch = pad_batch(
        tokenizer.encode(texts, longest),
        tokenizer.pad_id,
        longest=longest,
        multiple=fixed or 8,
    )
    ids, mask = batch["token_ids"], batch["padding_mask"]
    arrays = (ids, mask, np.zeros_like(ids))
    tensors = [tf.constant(array, spec.dtype) for array in arrays]
    if isinstance(call.inputs, Mapping):
        return call.apply(dict(zip(IDS, tensors, strict=True)))
    return call.apply(type(call.inputs)(tensors))


def _in_batches(
    apply: Apply, name: str, _models: tuple[Any, ...], texts: list[str]
) -> np.ndarray:
    vectors: dict[int, np.ndarray] = {}
    if not texts:  # the width of a vector is known from one
        return _in_batches(apply, name, _models, ["a"])[:0]
    for rows in by_length(texts, BATCH):
        batch = [texts[row] for row in rows]
        found = checked(name, _vectors_of(apply(batch)), batch)
        vectors |= zip(rows, found, strict=True)
    return np.stack([vectors[row] for row in range(len(texts))])


def _find_calls(model: Any) -> list[Call]:
    """Return every way to call a model: `__call__` in inference, then signatures."""
    calls = []
    if callable(model):
        function = model.__call__
        named = inspect.signature(function).parameters
        options = {"training": False} if "training" in named else {}
        apply = partial(function, **options)
        for trace in getattr(function, "concrete_functions", ()):
            given, _ = trace.structured_input_signature
            if given:
                outputs = trace.structured_outputs
                calls.append(Call("__call__", apply, given[0], outputs))
    for name, signature in getattr(model, "signatures", {}).items():
        _, inputs = signature.structured_input_signature
        keys = list(inputs)
        only = keys[0] if len(keys) == 1 else None
        apply = partial(_by_name, signature, only)
        inputs = inputs if only is None else inputs[only]
        calls.append(Call(name, apply, inputs, signature.structured_outputs))
    # Keras traces `__call__` once for training and once for inference.
    return list({str(call): call for call in calls}.values())


def _by_name(signature: Any, only: str | None, inputs: Any) -> Any:
    return signature(**(inputs if only is None else {only: inputs}))


def _is_tensor(spec: Any, rank: int, *dtypes: tf.DType) -> bool:
    """Tell whether `spec` is of one tensor of `rank`, any batch and one of `dtypes`."""
    return (
        isinstance(spec, tf.TensorSpec | tf.Tensor)
        and spec.dtype in dtypes
        and (spec.shape.rank is None or spec.shape.as_list()[:1] == [None])
        and spec.shape.rank in (None, rank)
    )


def _vectors_of(outputs: Any) -> Any:
    """Return the sentence vectors among what a model gives, or None.

    In a table they are `default`, or else `pooled_output`, or else the only entry; in a
    list they come first.
    """
    if isinstance(outputs, Mapping):
        for name in ("default", "pooled_output"):
            if name in outputs:
                return outputs[name]
        return next(iter(outputs.values())) if len(outputs) == 1 else None
    if isinstance(outputs, list | tuple):
        return outputs[0] if outputs else None
    return outputs


def _gives_vectors(call: Call) -> bool:
    """Tell whether a call gives float vectors `(n, dim)`."""
    floats = (tf.float32, tf.float16, tf.bfloat16, tf.float64)
    return _is_tensor(_vectors_of(call.outputs), 2, *floats)


def _written(structure: Any) -> str:
    if isinstance(structure, Mapping):
        pairs = (f"{name}: {_written(value)}" for name, value in structure.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(structure, list | tuple):
        return "[" + ", ".join(map(_written, structure)) + "]"
    if not isinstance(structure, tf.TensorSpec | tf.Tensor):
        return repr(structure)
    if structure.shape.rank is None:
        return f"{structure.dtype.name}[...]"
    sizes = ("?" if size is None else str(size) for size in structure.shape)
    return f"{structure.dtype.name}[{', '.join(sizes)}]"
