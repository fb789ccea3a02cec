"""Take the pictures in docs/images anew: the page for browsers, the site, a report.

    python benchmarks/screenshots.py runs/demo

The run's student is exported, with an index of example sentences and a threshold from
held-out ones; the page searches it in headless Chromium. Needs Chromium, Node with npm,
which fetches onnxruntime-web and playwright-core, and the extras `docs` and `onnx`.
Exit code 1: a picture is not under 200 kB.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlencode

from javascript_check import Server, program

import keras_msd as msd
from keras_msd.data import example_pairs

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
MOST, WIDTH = 200_000, 900
SHOOT = """
import { chromium } from "playwright-core";
const [executablePath, shots] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const { url, path, wait, width, height } of JSON.parse(shots)) {
  const page = await browser.newPage({ viewport: { width, height } });
  await page.goto(url);
  await page.waitForSelector(wait);
  await page.screenshot({ path });
}
await browser.close();
"""


def main() -> int:
    """Take all pictures, and print their sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    options = parser.parse_args()
    npm, node = program("npm"), program("node")
    chromium = program("chromium", "chromium-browser", "google-chrome")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "export", folder / "app")
        shutil.copy(options.run / "report.html", folder)
        web = folder / "app" / "web"
        install = [npm, "install", "--silent", "--no-audit", "--no-fund"]
        subprocess.run([*install, "playwright-core"], cwd=web, check=True)
        (web / "shoot.mjs").write_text(SHOOT)
        site = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
        subprocess.run([*site, "-d", folder / "site"], cwd=ROOT, check=True)
        query = write_index(msd.load_encoder(options.run / "student"), folder)
        with Server(folder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            shots = pictures(f"http://127.0.0.1:{server.server_port}", query)
            command = [node, "shoot.mjs", chromium, json.dumps(shots)]
            subprocess.run(command, cwd=web, check=True)
            server.shutdown()
    sizes = {path.name: path.stat().st_size for path in IMAGES.glob("*.png")}
    for image, size in sorted(sizes.items()):
        print(f"{image}: {size:,} bytes")
    return int(max(sizes.values()) >= MOST)


def write_index(encoder: msd.Encoder, folder: Path) -> str:
    """Write an artefact and an index of example sentences; return what to ask them."""
    held_out = example_pairs(split="dev")
    threshold = msd.evaluate.calibrate_threshold(encoder, held_out, name="examples")
    artefact = folder / "artefact"
    encoder.export(artefact, format="onnx", quantize="fp16", threshold=threshold)
    texts: dict[str, dict[str, None]] = {}
    for pair in (*example_pairs(count=400), *held_out):
        texts.setdefault("en", {})[pair.source] = None
        texts.setdefault(pair.language, {})[pair.target] = None
    with contextlib.chdir(folder):  # an index keeps the names that it is given
        names = [f"{language}.txt" for language in ("en", "es", "fr", "nl")]
        for language in texts:
            Path(f"{language}.txt").write_text("\n".join(texts[language]), "utf-8")
        msd.build_index(encoder, names, "index")
    return next(pair.target for pair in held_out if pair.language == "de")


def pictures(server: str, query: str) -> list[dict[str, object]]:
    """Return address, file, what must be there, and size of each picture."""
    asked = {"model": "/artefact/model.onnx", "index": "/index", "query": query}
    shots = {
        "page": (f"/app/web/index.html?{urlencode(asked)}", "li", 780),
        "site": ("/site/index.html", "h1", 800),
        "report": ("/report.html", "table", 800),
    }
    return [
        {
            "url": server + address,
            "path": str(IMAGES / f"{name}.png"),
            "wait": wait,
            "width": WIDTH if name == "page" else 1280,
            "height": height,
        }
        for name, (address, wait, height) in shots.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
