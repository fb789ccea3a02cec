"""An encoder behind OpenAI's embeddings API, and encoders as models of `mteb`."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError, above, explained, one_of, require
from keras_msd.evaluate.measures import cost

SCHEMES = ("http", "https")
BATCH = 64  # texts in a request
LARGEST_ANSWER = 2**28  # bytes
SHOWN = 200  # characters of an answer in a message
BUSY = (429, 502, 503, 504)  # statuses after which a request is sent once more
PAUSE = 1.0  # seconds before that
# mteb's functions; it has none of the Manhattan distance.
FUNCTIONS = {"cosine": "cos_sim", "dot": "dot_score", "euclidean": "euclidean_sim"}


def is_address(source: Any) -> bool:
    """Tell whether a source is the address of a server."""
    return isinstance(source, str) and urlsplit(source).scheme in SCHEMES


class EmbeddingsAPI:
    """An encoder behind OpenAI's embeddings API, version 1.

    A request has at most 64 texts. It is repeated once if the server is busy (status
    429, 502, 503 or 504). Redirects are not followed.

    Args:
        address: Address of the API, such as "http://127.0.0.1:8000/v1"; the name of a
            model may follow after `#`, as in "http://127.0.0.1:8000/v1#tiny12". Without
            it, the server must have a single model.
        key: API key, sent as a bearer token.
        timeout: Seconds to wait for an answer.

    Raises:
        InputError: The address is not of this form, the server does not answer or
            refuses the request, or it has several models.

    Source: https://platform.openai.com/docs/api-reference/embeddings.

    Example:
        >>> try:
        ...     msd.evaluate.EmbeddingsAPI("ftp://127.0.0.1")
        ... except msd.InputError as error:
        ...     print(error)
        An address must begin with http:// or https://. Received: 'ftp://127.0.0.1'. ...
    """

    def __init__(
        self, address: str, key: str | None = None, timeout: float = 60
    ) -> None:
        base, _, model = address.partition("#")
        malformed = (
            "An address must begin with http:// or https://. Received: "
            f"{address!r:.80}. Write it as http://127.0.0.1:8000/v1, or with a model "
            "after it, http://127.0.0.1:8000/v1#tiny12."
        )
        with explained(malformed, ValueError):
            parts = urlsplit(base)
            _ = parts.port
            if parts.scheme not in SCHEMES or not parts.hostname or parts.query:
                raise ValueError
        above(0, timeout=timeout)
        self.address = base.rstrip("/").removesuffix("/embeddings")
        self._headers = {"Content-Type": "application/json", "Accept": "*/*"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_NoRedirect)
        self.model = model or self._only_model()

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text, float32 `(n, dim)`.

        Raises:
            InputError: The server does not answer, refuses the request, or returns
                something else than a vector for each text.
        """
        vectors = []
        for batch in in_chunks(texts, BATCH):
            answer = self._ask("/embeddings", {"model": self.model, "input": batch})
            vectors += self._vectors(answer, len(batch))
        rule = f"`{self.address}` must return vectors of one dimension. Received: "
        with explained(f"{rule}different ones.", ValueError, TypeError):
            return np.asarray(vectors, np.float32)

    def _vectors(self, answer: Any, count: int) -> list[list[float]]:
        """Return the vectors of an answer in the order of the texts."""
        with explained(
            lambda error: (
                f"`{self.address}/embeddings` must return an embedding for each of "
                f"{count} texts. Received: {json.dumps(answer)[:SHOWN]}. Check that it "
                "is OpenAI's embeddings API."
            ),
            KeyError,
            TypeError,
            ValueError,
        ):
            found = {item["index"]: item["embedding"] for item in answer["data"]}
            if found.keys() != set(range(count)):
                raise ValueError
            return [found[place] for place in range(count)]

    def _only_model(self) -> str:
        answer = self._ask("/models")
        listed = answer.get("data") if isinstance(answer, dict) else None
        listed = listed if isinstance(listed, list) else []
        names = [str(it["id"]) for it in listed if isinstance(it, dict) and "id" in it]
        if len(names) != 1:
            shown = ", ".join(names[:5]) or "none"
            raise InputError(
                f"`{self.address}` must have a single model, or its name must follow "
                f"the address. Received: {shown}. Write {self.address}#MODEL."
            )
        return names[0]

    def _ask(
        self, path: str, body: dict[str, Any] | None = None, again: bool = True
    ) -> Any:
        address = self.address + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, self._headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                content: bytes = answer.read(LARGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            if again and error.code in BUSY:
                error.close()
                time.sleep(PAUSE)
                return self._ask(path, body, again=False)
            with error:
                said = error.read(4 * SHOWN).decode(errors="replace")
            raise InputError(
                f"`{address}` refused the request with status {error.code}. Received: "
                f"{' '.join(said.split())[:SHOWN]!r}. Check the address, the name of "
                "the model and the API key."
            ) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise InputError(
                f"`{address}` did not answer: {reason}. Start the server, or correct "
                "the address."
            ) from error
        with explained(
            f"`{address}` must answer with JSON of at most {LARGEST_ANSWER:,} bytes. "
            f"Received: {content[:SHOWN]!r}. Check the address; it often ends in /v1.",
            ValueError,
            RecursionError,
        ):
            if len(content) > LARGEST_ANSWER:
                raise ValueError
            return json.loads(content)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could hand the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


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
