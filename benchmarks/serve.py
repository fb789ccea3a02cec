"""`keras-msd serve` under load, asked by OpenAI's official client.

    pip install openai
    python benchmarks/serve.py artefacts/tiny12 --out benchmarks/results/serve.json

Starts the server, sends requests from --clients clients for --seconds seconds, each of
1 to 16 texts as floats or base64, whole or shortened, and compares every vector with
the model's own `encode`. Then it sends requests that must be refused, and looks whether
the server answers at an address that it was not told to listen at.

Prints one JSON object. `wrong`: vectors that differ by more than 1e-5; `failed`:
requests that raised; `p50_ms`, `p99_ms`; `server_mib`: resident memory of the server
after a tenth of the time, at the end and at most; `refused`: the status of each bad
request. Exit code 1 if anything is wrong, failed or answered that must not be, or if
memory grew by more than 8 MiB.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai

from keras_msd.arrays import unit_rows
from keras_msd.export import load_artefact

TOLERANCE = 1e-5
GROWN_MIB = 8.0
SENTENCES = Path(__file__).parents[1] / "keras_msd/export/sentences.txt"
BAD: dict[str, tuple[str | bytes, int]] = {
    "no JSON": (b"{", 400),
    "no input": ('{"model": "NAME"}', 400),
    "empty list": ('{"model": "NAME", "input": []}', 400),
    "empty text": ('{"model": "NAME", "input": ""}', 400),
    "token ids": ('{"model": "NAME", "input": [1, 2]}', 400),
    "number among texts": ('{"model": "NAME", "input": ["a", 1]}', 400),
    "2,049 texts": (f'{{"model": "NAME", "input": {json.dumps(["a"] * 2049)}}}', 400),
    "other model": ('{"model": "gpt-4", "input": "a"}', 404),
    "dimensions 0": ('{"model": "NAME", "input": "a", "dimensions": 0}', 400),
    "dimensions 99,999": ('{"model": "NAME", "input": "a", "dimensions": 99999}', 400),
    "unknown key": ('{"model": "NAME", "input": "a", "prompt": "b"}', 400),
    "half a surrogate pair": ('{"model": "NAME", "input": "\\ud800"}', 400),
    "100,000 brackets": (b"[" * 100_000, 400),
    "5 MiB": (b'{"input": "' + b"a" * 5 * 2**20 + b'"}', 413),
}


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith("VmRSS"))
    return int(kib) / 1024


def percentile(values: list[float], percent: int) -> float:
    """Return a percentile, in milliseconds."""
    return round(1000 * statistics.quantiles(values, n=100)[percent - 1], 1)


async def load(
    address: str,
    name: str,
    pid: int,
    texts: list[str],
    vectors: np.ndarray,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Send requests from all clients until the time is over."""
    times: list[float] = []
    memory: list[float] = []
    counts = dict.fromkeys(("requests", "texts", "wrong", "failed"), 0)
    largest = 0.0
    clients = [
        openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0)
        for _ in range(options.clients)
    ]
    end = time.monotonic() + options.seconds

    async def client(seed: int) -> None:
        nonlocal largest
        draw = random.Random(seed)
        async with clients[seed] as api:
            while time.monotonic() < end:
                rows = draw.choices(range(len(texts)), k=draw.randint(1, 16))
                asked: dict[str, Any] = {"input": [texts[row] for row in rows]}
                wanted = vectors[rows]
                if draw.random() < 0.3:
                    asked["dimensions"] = draw.randint(8, vectors.shape[1])
                    wanted = unit_rows(wanted[:, : asked["dimensions"]])
                if draw.random() < 0.3:  # the client itself asks for base64
                    asked["encoding_format"] = "float"
                began = time.perf_counter()
                counts["requests"] += 1
                try:
                    answer = await api.embeddings.create(model=name, **asked)
                except openai.OpenAIError as error:
                    print(error, file=sys.stderr)
                    counts["failed"] += 1
                    continue
                times.append(time.perf_counter() - began)
                found = np.array([one.embedding for one in answer.data])
                counts["texts"] += len(rows)
                same = found.shape == wanted.shape
                errors = np.abs(found - wanted).max(1) if same else np.full(9, np.inf)
                largest = max(largest, float(errors.max()))
                counts["wrong"] += int((~(errors <= TOLERANCE)).sum())  # NaN, too

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(resident_mib(pid))
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *map(client, range(options.clients)))
    settled = memory[len(memory) // 10]
    return counts | {
        "largest_difference": largest,
        "seconds": options.seconds,
        "clients": options.clients,
        "requests_per_second": round(counts["requests"] / options.seconds, 1),
        "p50_ms": percentile(times, 50),
        "p99_ms": percentile(times, 99),
        "server_mib": {
            "settled": round(settled, 1),
            "end": round(memory[-1], 1),
            "most": round(max(memory), 1),
        },
        "grown": memory[-1] - settled > GROWN_MIB,
    }


def bad_requests(address: str, name: str) -> tuple[dict[str, int], list[str]]:
    """Return the status of each bad request, and those that got another one."""
    statuses, wrong = {}, []
    for what, (body, status) in BAD.items():
        content = body.replace("NAME", name) if isinstance(body, str) else body
        answer = httpx.post(f"{address}/embeddings", content=content, timeout=60)
        statuses[what] = answer.status_code
        if answer.status_code != status or not answer.json()["error"]["message"]:
            wrong.append(what)
    return statuses, wrong


def main() -> int:
    """Measure, print and perhaps write the result; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="an artefact's folder")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    model = load_artefact(options.model)
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()]
    texts += [" ".join(texts[place : place + 4]) for place in range(len(texts) - 4)]
    vectors = model.encode(texts, normalize=True)
    command = [sys.executable, "-m", "keras_msd", "serve", options.model]
    with subprocess.Popen(
        [*command, "--name", "model", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        line = server.stdout.readline()
        address = line.split(" at ")[1].split(";")[0]
        started = os.getloadavg()[0]
        result = asyncio.run(
            load(address, "model", server.pid, texts, vectors, options)
        )
        result["refused"], answered = bad_requests(address, "model")
        port = int(address.split(":")[2].split("/")[0])
        try:
            socket.create_connection(("127.0.0.2", port), timeout=5).close()
            answered.append("another address")
        except ConnectionRefusedError:
            pass
        server.terminate()
    result |= {
        "model": f"{model!r}".replace(options.model, Path(options.model).name),
        "cores": os.cpu_count(),
        "load_average_at_the_start": round(started, 1),
        "versions": {it: version(it) for it in ("openai", "fastapi", "uvicorn")},
    }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for what in answered:
        print(f"Answered, and must not be: {what}", file=sys.stderr)
    bad = result["wrong"] or result["failed"] or result["grown"] or answered
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
