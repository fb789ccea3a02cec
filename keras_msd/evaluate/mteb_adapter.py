"""Encoders as models of `mteb`, the Massive Text Embedding Benchmark."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_msd.checks import InputError, explained, one_of, require
from keras_msd.evaluate.costs import cost

# mteb's functions; it has none of the Manhattan distance.
FUNCTIONS = {"cosine": "cos_sim", "dot": "dot_score", "euclidean": "euclidean_sim"}


class MTEBEncoder:
    """Adapter for `mteb.evaluate`: `mteb.evaluate(MTEBEncoder(encoder), tasks)`.

    Queries and documents of a task have the encoder's prompts, and vectors are compared
    by the encoder's similarity function. The model's revision is the start of the
    encoder's fingerprint, so mteb's cache cannot mix up the scores of two encoders.

    Args:
        encoder: An encoder or a loaded artefact: `encode(texts, batch_size=,
            progress=)`, `dim`, `fingerprint`.
        name: Name of the model in mteb, `organisation/model`.

    Raises:
        InputError: mteb is not installed (extra `mteb`), the name has no slash, or mteb
            does not compare vectors as the encoder does.

    Source: Muennighoff et al. 2023; `EncoderProtocol` of mteb 2.

    Example:
        >>> model = msd.evaluate.MTEBEncoder(encoder)  # doctest: +SKIP
        >>> mteb.evaluate(model, mteb.get_tasks(tasks=["STS17"]))  # doctest: +SKIP
    """

    def __init__(self, encoder: Any, name: str = "keras-msd/encoder") -> None:
        meta = require("mteb.models.model_meta", "mteb", "Scoring with mteb")
        self._functions = require("mteb.similarity_functions", "mteb", "mteb")
        if name.count("/") != 1:
            raise InputError(
                f"`name` must be `organisation/model`. Received: {name!r}."
            )
        one_of(FUNCTIONS, similarity_fn_name=encoder.similarity_fn_name)
        self.encoder = encoder
        facts: dict[str, Any] = {
            "name": name,
            "revision": encoder.fingerprint[:16],
            "embed_dim": encoder.dim,
            "similarity_fn_name": meta.ScoringFunction(encoder.similarity_fn_name),
            "use_instructions": False,
        }
        if hasattr(encoder, "model"):
            size = cost(encoder)
            facts |= {
                "n_parameters": size["parameters"],
                "memory_usage_mb": size["bytes"] / 2**20,
                "max_tokens": encoder.max_length,
                "framework": ["TensorFlow"],
            }
        self.mteb_model_meta = meta.ModelMeta.create_empty(overwrites=facts)

    def encode(
        self,
        inputs: Iterable[dict[str, Any]],
        *,
        batch_size: int = 64,
        show_progress_bar: bool = True,
        prompt_type: Any = None,
        **context: Any,
    ) -> np.ndarray:
        """Embed the texts of all batches.

        Args:
            inputs: Batches; `text` is the list of texts of a batch.
            batch_size: Sentences in a forward pass.
            show_progress_bar: Whether to show a progress bar if encoding takes longer
                than a second.
            prompt_type: mteb's "query" or "document", where the task has both.
            **context: Task, split and subset; all are ignored.

        Returns:
            float32 `(n, dim)`.

        Raises:
            InputError: A batch contains something else than text.
        """
        texts: list[str] = []
        for batch in inputs:
            if "text" not in batch:
                raise InputError(
                    "An encoder supports only tasks on text. Received: a batch of "
                    f"{', '.join(batch)}. Leave the task out."
                )
            texts += batch["text"]
        encode = {
            None: self.encoder.encode,
            "query": self.encoder.encode_query,
            "document": self.encoder.encode_document,
        }[getattr(prompt_type, "value", prompt_type)]
        return encode(texts, batch_size=batch_size, progress=show_progress_bar)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the similarity of every pair, a torch tensor `(n, m)`."""
        return self._compare("{}", embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the similarity of each row in both arrays, a torch tensor `(n,)`."""
        return self._compare("pairwise_{}", embeddings1, embeddings2)

    def _compare(self, form: str, *embeddings: Any) -> Any:
        name = FUNCTIONS[self.encoder.similarity_fn_name]
        return getattr(self._functions, form.format(name))(*embeddings)


def mteb_scores(open_encoder: Callable[[], Any], task: str) -> dict[str, Any]:
    """Score an encoder on a task of mteb, which downloads the task's data.

    Args:
        open_encoder: Function that returns an encoder for `MTEBEncoder`. It is called
            after mteb is imported, because some builds of torch crash if TensorFlow is
            loaded first.
        task: Name of the task, such as "STS17".

    Returns:
        `task`, and `score`, mteb's main score x100, a mean over splits and subsets.

    Raises:
        InputError: mteb is not installed (extra `mteb`), or has no such task.
    """
    mteb = require("mteb", "mteb", "Scoring with mteb")
    with explained(lambda error: f"mteb has no task {task!r}: {error}", KeyError):
        known = mteb.get_task(task)
    result = mteb.evaluate(MTEBEncoder(open_encoder()), [known])
    scores = [float(each.get_score()) for each in result.task_results]
    return {"task": task, "score": round(100 * sum(scores) / len(scores), 4)}
