"""Embed sentences in Node and in headless Chromium, and compare with Keras.

    python benchmarks/javascript_check.py --data DATA --encoder runs/backbone/student

200 sentences in 11 languages, from all files of `<data>/parallel/dev`, go through the
JavaScript of export/ and onnxruntime-web: float32, float16 and int8, or what
`--quantize` names. Milliseconds (of an idle machine, one thread) are the median of one
sentence of 12 words, of the first 64 together, and of loading. `--peer` is timed beside
them, in 8 bits by onnxruntime's tool, in transformers.js. Needs Node with npm,
which fetches onnxruntime-web, and Chromium; the example page is opened too. Writes
benchmarks/results/javascript_check.json. Exit code 1: an id differs from Python's, or a
float vector has a cosine under 0.999 with Keras'.
"""

import argparse
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpora import sentences
from runtimes import as_peers_do

from keras_msd import load_encoder
from keras_msd.checks import InputError
from keras_msd.io.files import write_json
from keras_msd.models.encoder import Encoder

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "javascript_check.json"
LANGUAGES = "en ar de es fr it ja pl ru tr zh".split()
OF_A_FILE = 20  # lines
SENTENCES, LEAST_COSINE, WAIT = 200, 0.999, 300
SENTENCE = "The children are playing football in the park behind the old school."
FLOAT = (None, "fp16")
SILENT = "--silent", "--no-audit", "--no-fund"
TRANSFORMERS = "@huggingface/transformers"
QUANTIZED = "onnx/model_quantized.onnx"

TIMES = """
const SENTENCE = "SENTENCE_OF_12_WORDS";
const WARM_UP = 20, CALLS = 50;
export async function timed(encode, texts) {
  const times = [];
  for (let call = 0; call < WARM_UP + CALLS; call++) {
    const start = performance.now();
    await encode([SENTENCE]);
    times.push(performance.now() - start);
  }
  const ms = times.slice(WARM_UP).sort((a, b) => a - b)[CALLS >> 1];
  const start = performance.now();
  await encode(texts.slice(0, 64));
  return { ms, ms_of_64: performance.now() - start };
}
""".replace("SENTENCE_OF_12_WORDS", SENTENCE)
CHECK = """
import { createEncoder } from "./embed.mjs";
import { timed } from "./timed.mjs";
export async function check(model, texts, ort) {
  const begin = performance.now();
  const encoder = await createEncoder(model, ort);
  const ms_to_load = performance.now() - begin;
  const vectors = (await encoder.encode(texts)).map((one) => Array.from(one));
  const times = await timed((texts) => encoder.encode(texts), texts);
  return { ids: encoder.tokenizer.encode(texts), vectors, ms_to_load, ...times };
}
"""
NODE = """
import { readFile, writeFile } from "node:fs/promises";
import * as ort from "onnxruntime-web";
import { check } from "./check.mjs";
const model = new Uint8Array(await readFile("model.onnx"));
const texts = JSON.parse(await readFile("texts.json", "utf8"));
await writeFile("node.json", JSON.stringify(await check(model, texts, ort)));
"""
PEER = """
import { timed } from "./timed.mjs";
export async function check(library, texts, place) {
  Object.assign(library.env, { allowRemoteModels: false, allowLocalModels: true });
  library.env.localModelPath = place;
  const begin = performance.now();
  const embed = await library.pipeline("feature-extraction", "peer", { dtype: "q8" });
  const ms_to_load = performance.now() - begin;
  const encode = (texts) => embed(texts, { pooling: "mean", normalize: true });
  return { ms_to_load, ...(await timed(encode, texts)) };
}
"""
TRANSFORMERS_NODE = """
import { readFile, writeFile } from "node:fs/promises";
import * as library from "@huggingface/transformers";
import { check } from "./check.mjs";
const [texts] = JSON.parse(await readFile("../texts.json", "utf8"));
const answer = await check(library, texts, ...process.argv.slice(2));
await writeFile("../answer.json", JSON.stringify(answer));
"""
TRANSFORMERS_PAGE = """
<!doctype html>
<script type="module">
async function answer() {
  const modules = "/web/node_modules/";
  const name = "@huggingface/transformers/dist/transformers.min.js";
  const library = await import(modules + name);
  library.env.backends.onnx.wasm.wasmPaths = modules + "onnxruntime-web/dist/";
  const { check } = await import("./check.mjs");
  const [texts] = await (await fetch("/texts.json")).json();
  return check(library, texts, ...GIVEN);
}
const found = await answer().catch((error) => ({ error: String(error) }));
await fetch("/result", { method: "POST", body: JSON.stringify(found) });
</script>
"""
PAGE = """
<!doctype html>
<script type="importmap">
{"imports": {"onnxruntime-web":
  "./node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs"}}
</script>
<iframe src="index.html?model=model.onnx"></iframe>
<script type="module">
import * as ort from "onnxruntime-web";
import { check } from "./check.mjs";
async function answer() {
  const model = await (await fetch("model.onnx")).arrayBuffer();
  const texts = await (await fetch("texts.json")).json();
  const found = await check(new Uint8Array(model), texts, ort);
  const example = document.querySelector("iframe").contentDocument;
  while (!example.querySelector("li")) await new Promise((go) => setTimeout(go, 100));
  return { ...found, nearest: example.querySelector("li").textContent };
}
const found = await answer().catch((error) => ({ error: String(error) }));
await fetch("/result", { method: "POST", body: JSON.stringify(found) });
</script>
"""


def main() -> int:
    """Run all, print a table and write the result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--encoder", required=True, help="what load_encoder takes")
    parser.add_argument(
        "--quantize",
        nargs="+",
        default=["none", "fp16", "int8"],
        help="the files to make; none is float32",
    )
    parser.add_argument(
        "--peer", help="what load_encoder takes, to time in 8 bits in transformers.js"
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    npm, node, browser = program("npm"), program("node"), chromium()
    texts = sentences(options.data / "parallel/dev", SENTENCES, LANGUAGES, OF_A_FILE)
    encoder = load_encoder(options.encoder)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        app = Path(name) / "app"
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / "export", app, ignore=ignored)
        web = app / "web"
        subprocess.run([npm, "install", *SILENT], cwd=web, check=True)
        write_app(web, texts)
        for kind in options.quantize:
            quantize = None if kind == "none" else kind
            artefact = Path(name) / f"artefact_{quantize}"
            encoder.export(artefact, format="onnx", quantize=quantize)
            shutil.copy(artefact / "model.onnx", web)
            subprocess.run([node, "run.mjs"], cwd=web, check=True)
            found = {
                "node": json.loads((web / "node.json").read_text()),
                "chromium": in_chromium(app, Path(name) / "profile"),
            }
            for runtime, answer in found.items():
                row = compared(encoder, texts, answer)
                row["bytes"] = (web / "model.onnx").stat().st_size
                rows.append({"runtime": runtime, "quantize": quantize} | row)
        versions = {"onnxruntime-web": installed(web, "onnxruntime-web")}
        if options.peer:
            place = Path(name) / "transformers"
            rows += peer_rows(options.peer, place, texts)
            versions[TRANSFORMERS] = installed(place / "web", TRANSFORMERS)
    for row in rows:
        line = "{runtime:26}{quantize!s:11}{ms:.2f} ms a sentence, {ms_of_64:.0f} ms 64"
        if "ids_differ" in row:
            line += ", {ids_differ} ids differ, cosine {min_cosine:.7f}"
        print(line.format(**row), f"{row['bytes']:,} bytes")
    result = {
        "command": "python benchmarks/javascript_check.py --data DATA --encoder FOLDER",
        "encoder": encoder.fingerprint,
        "languages": LANGUAGES,
        "sentences": len(texts),
        "versions": {
            "node": output(node, "--version"),
            "chromium": output(browser, "--version"),
            **versions,
        },
        "rows": rows,
    }
    write_json(options.out, result)
    return int(
        any(row.get("ids_differ") for row in rows)
        or any(
            row["min_cosine"] < LEAST_COSINE for row in rows if row["quantize"] in FLOAT
        )
    )


def peer_rows(source: str, place: Path, texts: list[str]) -> list[dict[str, Any]]:
    """Time an encoder in transformers.js, as a folder of the hub with 8 bits.

    In Node, that library runs onnxruntime's own program, and not WebAssembly.
    """
    folder, web = place / "peer", place / "web"
    place.mkdir()
    (place / "texts.json").write_text(json.dumps([texts]))
    write_transformers_app(place, PEER)
    (web / "timed.mjs").write_text(TIMES)
    load_encoder(source).export(
        folder, format="huggingface", leave_out=["weights", "int8"]
    )
    as_peers_do(folder / "onnx" / "model.onnx", folder / QUANTIZED)
    subprocess.run([program("node"), "run.mjs", "../"], cwd=web, check=True)
    found = {
        "transformers.js, node": json.loads((place / "answer.json").read_text()),
        "transformers.js, chromium": transformers_in_chromium(place, "/"),
    }
    size = (folder / QUANTIZED).stat().st_size
    about = {"encoder": source, "quantize": "q8", "bytes": size}
    return [{"runtime": name} | about | times(it) for name, it in found.items()]


def write_transformers_app(place: Path, check: str) -> None:
    """Install transformers.js in `<place>/web`, beside what runs `check` there.

    Args:
        place: Has `texts.json`, a list that begins with the texts; Node writes its
            answer to `answer.json`.
        check: A module with `check(library, texts, ...)`.
    """
    web = place / "web"
    web.mkdir()
    (web / "check.mjs").write_text(check)
    (web / "run.mjs").write_text(TRANSFORMERS_NODE)
    # Without scripts: that of onnxruntime-node fetches what a GPU needs.
    install = [program("npm"), "install", *SILENT, "--ignore-scripts", TRANSFORMERS]
    subprocess.run(install, cwd=web, check=True)


def transformers_in_chromium(place: Path, *given: str) -> dict[str, Any]:
    """Return what `check` gives in Chromium, for further arguments `given`."""
    page = TRANSFORMERS_PAGE.replace("GIVEN", json.dumps(given))
    (place / "web" / "check.html").write_text(page)
    return in_chromium(place, place / "profile")


def times(answer: dict[str, Any]) -> dict[str, float]:
    """Return an answer's milliseconds, rounded."""
    return {
        "ms": round(answer["ms"], 3),
        "ms_of_64": round(answer["ms_of_64"], 1),
        "ms_to_load": round(answer["ms_to_load"]),
    }


def installed(web: Path, name: str) -> str:
    """Return the version of a package that npm has installed."""
    lock = json.loads((web / "node_modules/.package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{name}"]["version"])


def program(*names: str) -> str:
    """Return the path of the first program that is installed."""
    found = [path for path in map(shutil.which, names) if path]
    if not found:
        raise InputError(f"`{names[0]}` is not installed. Install it, then try again.")
    return found[0]


def chromium() -> str:
    """Return the path of Chromium."""
    return program("chromium", "chromium-browser", "google-chrome")


def output(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.check_output(command, text=True).strip()


def write_app(web: Path, texts: list[str]) -> None:
    """Write beside the example what runs it on the texts."""
    (web / "texts.json").write_text(json.dumps(texts))
    (web / "timed.mjs").write_text(TIMES)
    (web / "check.mjs").write_text(CHECK)
    (web / "run.mjs").write_text(NODE)
    (web / "check.html").write_text(PAGE)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, keeps what the page posts and says nothing."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def __init__(self, *args: Any, answers: list[bytes], **named: Any) -> None:
        self.answers = answers
        super().__init__(*args, **named)

    def do_POST(self) -> None:
        """Keep the body."""
        self.answers.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.arrived.set()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Server(http.server.ThreadingHTTPServer):
    """A server that tells when the page has posted."""

    def __init__(self, folder: Path) -> None:
        self.answers: list[bytes] = []
        self.arrived = threading.Event()
        handler = partial(Handler, answers=self.answers, directory=str(folder))
        super().__init__(("127.0.0.1", 0), handler)


def in_chromium(app: Path, profile: Path) -> dict[str, Any]:
    """Open the page that checks, and return what it posts."""
    with Server(app) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/web/check.html"
        options = ["--headless", "--no-sandbox", f"--user-data-dir={profile}"]
        browser = subprocess.Popen(
            [chromium(), *options, address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            arrived = server.arrived.wait(WAIT)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    answer = json.loads(server.answers[0]) if arrived else {"error": "no answer"}
    if "error" in answer:
        raise RuntimeError(f"Chromium: {answer['error']}")
    return answer


def compared(
    encoder: Encoder, texts: list[str], answer: dict[str, Any]
) -> dict[str, Any]:
    """Return how an answer's ids and vectors differ from the encoder's."""
    ids = encoder.tokenizer.encode(texts, encoder.max_length)
    one, other = encoder.encode(texts), np.array(answer["vectors"])
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosine = (one * other).sum(axis=1) / norms
    pairs = zip(ids, answer["ids"], strict=True)
    row = {
        "ids_differ": sum(ours != theirs for ours, theirs in pairs),
        "min_cosine": round(float(cosine.min()), 7),
        "mean_cosine": round(float(cosine.mean()), 7),
    } | times(answer)
    return row | {key: answer[key] for key in ("nearest",) if key in answer}


if __name__ == "__main__":
    sys.exit(main())
