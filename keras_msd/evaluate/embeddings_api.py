"""A client of OpenAI's embeddings API: an encoder that runs on a server."""

import json
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from keras_msd import checks
from keras_msd.arrays import in_chunks
from keras_msd.checks import InputError

SCHEMES = ("http", "https")
BATCH = 64  # texts in a request
LARGEST_ANSWER = 2**28  # bytes
SHOWN = 200  # characters of an answer in a message
BUSY = (429, 502, 503, 504)  # statuses after which a request is sent once more
PAUSE = 1.0  # seconds before that


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
        with checks.explained(_malformed(address), ValueError):
            parts = urlsplit(base)
            well_formed = parts.scheme in SCHEMES and parts.hostname and not parts.query
            _ = parts.port
        if not well_formed:
            raise InputError(_malformed(address))
        checks.above(0, timeout=timeout)
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
        with checks.explained(f"{rule}different ones.", ValueError, TypeError):
            return np.asarray(vectors, np.float32)

    def _vectors(self, answer: Any, count: int) -> list[list[float]]:
        """Return the vectors of an answer in the order of the texts."""
        with checks.explained(
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
        names = [str(it["id"]) for it in listed or () if isinstance(it, dict)]
        if len(names) != 1:
            shown = ", ".join(names[:5]) or "none"
            raise InputError(
                f"`{self.address}` must have a single model, or its name must follow "
                f"the address. Received: {shown}. Write {self.address}#MODEL."
            )
        return names[0]

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        address = self.address + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, self._headers)  # noqa: S310
        try:
            try:
                content = self._content(request)
            except urllib.error.HTTPError as error:
                if error.code not in BUSY:
                    raise
                error.close()
                time.sleep(PAUSE)
                content = self._content(request)
        except urllib.error.HTTPError as error:
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
        with checks.explained(
            f"`{address}` must answer with JSON of at most {LARGEST_ANSWER:,} bytes. "
            f"Received: {content[:SHOWN]!r}. Check the address; it often ends in /v1.",
            ValueError,
            RecursionError,
        ):
            if len(content) > LARGEST_ANSWER:
                raise ValueError
            return json.loads(content)

    def _content(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=self._timeout) as answer:
            content: bytes = answer.read(LARGEST_ANSWER + 1)
            return content


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could hand the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _malformed(address: str) -> str:
    return (
        f"An address must begin with http:// or https://. Received: {address!r:.80}. "
        "Write it as http://127.0.0.1:8000/v1, or with a model after it, "
        "http://127.0.0.1:8000/v1#tiny12."
    )
