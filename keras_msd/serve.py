"""The embeddings API of OpenAI, version 1, for one encoder.

Source: https://platform.openai.com/docs/api-reference/embeddings.
"""

import asyncio
import base64
import hmac
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pydantic

from keras_msd.arrays import TextEncoder, check_truncation, unit_rows
from keras_msd.checks import InputError, findings, require

LARGEST_BODY = 4 * 2**20  # bytes
MOST_TEXTS = 2048  # in a request, as OpenAI has it
MOST_CHARACTERS = 2**16  # in a text
CONNECTIONS = 256
SHUTDOWN_SECONDS = 30
BATCH = 256  # texts; a call gets no further request when it has as many
PURPOSE = "`keras-msd serve`"
ORIGIN = re.compile(r"https?://[^/\s*]+|\*")  # what browsers send, or any

Text = Annotated[str, pydantic.Field(min_length=1, max_length=MOST_CHARACTERS)]


class EmbeddingRequest(pydantic.BaseModel):
    """The body of a request; `input` may also be one text."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    input: Annotated[list[Text], pydantic.Field(min_length=1, max_length=MOST_TEXTS)]
    model: str
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = pydantic.Field(default=None, ge=1)
    user: str | None = None

    @pydantic.field_validator("input", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        if isinstance(given, list) and given and isinstance(given[0], int | list):
            raise ValueError(
                "give text, not token ids, which mean something else in this model's "
                "vocabulary; in LangChain's OpenAIEmbeddings, set "
                "check_embedding_ctx_length=False"
            )
        return [given] if isinstance(given, str) else given


class Job(NamedTuple):
    """The texts of one request, and what their results are written to."""

    texts: list[str]
    results: asyncio.Future[Sequence[Any]]


class Batcher:
    """Collects what arrives while a batch is encoded, and encodes it as the next one.

    No request waits for others to come: an idle batcher begins at once.

    Args:
        encode: Function from texts to as many results. It runs once at a time, in a
            thread.

    Example:
        >>> import asyncio
        >>> from keras_msd.serve import Batcher
        >>> async def main():
        ...     batcher = Batcher(lambda texts: [len(text) for text in texts])
        ...     work = asyncio.create_task(batcher.work())
        ...     found = await asyncio.gather(batcher(["a", "cat"]), batcher(["sleeps"]))
        ...     work.cancel()
        ...     return found
        >>> asyncio.run(main())
        [[1, 3], [6]]
    """

    def __init__(self, encode: Callable[[list[str]], Sequence[Any]]) -> None:
        self._encode = encode
        self._jobs = asyncio.Queue[Job]()

    async def __call__(self, texts: list[str]) -> Sequence[Any]:
        """Return the results of some texts."""
        job = Job(texts, asyncio.get_running_loop().create_future())
        self._jobs.put_nowait(job)
        return await job.results

    async def work(self) -> None:
        """Encode what arrives, until the task is cancelled."""
        while True:
            jobs = [await self._jobs.get()]
            size = len(jobs[0].texts)
            while size < BATCH and not self._jobs.empty():
                jobs.append(self._jobs.get_nowait())
                size += len(jobs[-1].texts)
            if not await self._run(jobs) and len(jobs) > 1:
                # One request's text made the batch fail; the others go on alone.
                for job in jobs:
                    await self._run([job])

    async def _run(self, jobs: list[Job]) -> bool:
        """Encode some jobs and tell whether it worked; a single job gets the error."""
        texts = [text for job in jobs for text in job.texts]
        try:
            results = await asyncio.to_thread(self._encode, texts)
        except Exception as error:  # handed to whoever waits for the results
            if len(jobs) == 1 and not jobs[0].results.done():
                jobs[0].results.set_exception(error)
            return False
        start = 0
        for job in jobs:
            end = start + len(job.texts)
            if not job.results.done():  # the client may have gone
                job.results.set_result(results[start:end])
            start = end
        return True


class Refused(Exception):
    """An answer with an error object of OpenAI's form."""

    def __init__(
        self,
        message: str,
        param: str | None = None,
        status: int = 400,
        code: str | None = None,
        type: str = "invalid_request_error",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        error = {"message": message, "type": type, "param": param, "code": code}
        self.body = {"error": error}


def make_app(
    model: TextEncoder, name: str, cors: Sequence[str] = (), api_key: str | None = None
) -> Any:
    """Return an ASGI application that serves an encoder.

    It answers `POST /v1/embeddings`, `GET /v1/models` and `GET /health`.

    Args:
        model: An encoder or an artefact.
        name: What requests call it.
        cors: Origins of web pages that may call it, such as "http://localhost:3000", or
            "*" for all.
        api_key: What requests to `/v1` must send as a bearer token; None for nothing.

    Raises:
        InputError: FastAPI is not installed, an origin is none, or the key is empty.
    """
    require("fastapi", "serve", PURPOSE)
    _check_access(cors, api_key)
    from fastapi import Depends, FastAPI, Request
    from fastapi.middleware.cors import CORSMiddleware
    from fastapi.responses import JSONResponse, Response
    from starlette.exceptions import HTTPException

    facts = {"id": name, "object": "model", "created": int(time.time())}
    facts["owned_by"] = "keras-msd"

    def encode(texts: list[str]) -> Sequence[tuple[np.ndarray, int]]:
        vectors = model.encode(texts, normalize=True, progress=False)
        counts = model.count_tokens([model.default_prompt + text for text in texts])
        return list(zip(vectors, counts or [0] * len(texts), strict=True))

    batcher = Batcher(encode)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        encode(["warm-up"])  # what fails or is slow at first does so here
        work = asyncio.create_task(batcher.work())
        yield
        work.cancel()

    app = FastAPI(title="keras-msd", lifespan=lifespan, docs_url=None, redoc_url=None)

    @app.exception_handler(Refused)
    async def refused(_: Any, error: Refused) -> Response:
        return JSONResponse(error.body, error.status, headers=error.headers)

    @app.exception_handler(HTTPException)
    async def no_such_page(_: Any, error: HTTPException) -> Response:
        known = "POST /v1/embeddings, GET /v1/models, GET /health"
        body = Refused(f"{error.detail}. This server has {known}.").body
        return JSONResponse(body, error.status_code, headers=error.headers)

    @app.exception_handler(Exception)
    async def failed(_: Any, error: Exception) -> Response:
        body = Refused("The server failed; its log says why.", type="server_error").body
        return JSONResponse(body, 500)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "model": name, "dimensions": model.dim}

    async def authorize(request: Request) -> None:
        _check_key(request.headers.get("authorization", ""), api_key)

    guarded: Any = {"dependencies": [Depends(authorize)]}

    @app.get("/v1/models", **guarded)
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [facts]}

    @app.get("/v1/models/{model_name:path}", **guarded)
    async def model_facts(model_name: str) -> dict[str, Any]:
        _check_name(model_name, name)
        return facts

    schema = EmbeddingRequest.model_json_schema()
    content = {"application/json": {"schema": schema}}
    body = {"requestBody": {"required": True, "content": content}}

    @app.post("/v1/embeddings", openapi_extra=body, **guarded)
    async def embeddings(request: Request) -> Response:
        asked = _parsed(await _body(request))
        _check_name(asked.model, name)
        try:
            check_truncation(asked.dimensions, model.dim)
        except InputError as error:
            message = str(error).replace("truncate_dim", "dimensions")
            raise Refused(message, "dimensions") from error
        results = await batcher(asked.input)
        answer = await asyncio.to_thread(_answer, asked, results, name)
        return Response(answer, media_type="application/json")

    if not cors:
        return app
    # Around everything, so that pages can also read errors.
    methods, headers = ["GET", "POST"], ["*"]
    return CORSMiddleware(
        app, allow_origins=cors, allow_methods=methods, allow_headers=headers
    )


def _check_access(cors: Sequence[str], api_key: str | None) -> None:
    if wrong := [origin for origin in cors if not ORIGIN.fullmatch(origin)]:
        raise InputError(
            "`cors` must hold origins: scheme, host and port, without a path or a "
            f"slash at the end. Received: {wrong[0]!r:.80}. Write, for example, "
            "http://localhost:3000, or * for all pages."
        )
    if api_key is not None and not api_key.strip():
        raise InputError(
            "`api_key` must not be empty. Give a key (`--api-key`, or the environment "
            "variable KERAS_MSD_API_KEY), or leave it out."
        )


def _check_key(header: str, api_key: str | None) -> None:
    if api_key is None:
        return
    kind, _, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode("latin-1"), api_key.encode())
    if kind.lower() != "bearer" or not same:
        message = "The API key is missing or wrong. Send `Authorization: Bearer KEY`."
        headers = {"WWW-Authenticate": "Bearer"}
        raise Refused(message, None, 401, "invalid_api_key", headers=headers)


async def _body(request: Any) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_BODY:
            message = f"A body may have {LARGEST_BODY:,} bytes. Send less."
            raise Refused(message, status=413)
    return bytes(content)


def _parsed(content: bytes) -> EmbeddingRequest:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        message = (
            "The body must be JSON in UTF-8. Received: byte "
            f"0x{content[error.start]:02x} at position {error.start + 1}. Encode the "
            "text as UTF-8 before you send it."
        )
        raise Refused(message) from error
    try:
        return EmbeddingRequest.model_validate_json(content)
    except pydantic.ValidationError as error:
        place = error.errors()[0]["loc"]
        message = " ".join(findings(error, EmbeddingRequest.model_fields))
        raise Refused(message, str(place[0]) if place else None) from error


def _check_name(given: str, name: str) -> None:
    if given != name:
        message = f"The model {given!r:.80} does not exist. This server has {name!r}."
        raise Refused(message, "model", 404, "model_not_found")


def _answer(
    asked: EmbeddingRequest, results: Sequence[tuple[np.ndarray, int]], name: str
) -> bytes:
    vectors = np.stack([vector for vector, _ in results])
    if asked.dimensions is not None:
        vectors = unit_rows(vectors[:, : asked.dimensions])
    written: list[Any] = vectors.tolist()
    if asked.encoding_format == "base64":
        rows = vectors.astype("<f4")
        written = [base64.b64encode(row.tobytes()).decode() for row in rows]
    tokens = sum(count for _, count in results)
    data = [
        {"object": "embedding", "index": place, "embedding": embedding}
        for place, embedding in enumerate(written)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": name, "usage": usage}
    return json.dumps(answer, separators=(",", ":")).encode()


def serve(
    model: TextEncoder,
    name: str,
    host: str,
    port: int,
    cors: Sequence[str] = (),
    api_key: str | None = None,
) -> None:
    """Serve an encoder until the process is told to stop.

    Args:
        model: An encoder or an artefact.
        name: What requests call it.
        host: Address to listen at; "127.0.0.1" is reached from this machine alone.
        port: Port there; 0 for a free one.
        cors: As for `make_app`.
        api_key: As for `make_app`.

    Raises:
        InputError: The address cannot be had, or uvicorn is not installed.
    """
    uvicorn = require("uvicorn", "serve", PURPOSE)
    app = make_app(model, name, cors, api_key)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=CONNECTIONS
        )
    except OSError as error:
        raise InputError(
            f"The server cannot listen at {host}, port {port}: {error}. Give another "
            "`--host` or `--port`."
        ) from error
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    place = f"[{host}]" if ":" in host else host
    print(
        f"{name}, {model.dim} dimensions, at http://{place}:{listener.getsockname()[1]}"
        "/v1; Ctrl+C stops it.",
        flush=True,
    )
    with listener, suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
