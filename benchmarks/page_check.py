"""Drop folders on the page for browsers, in headless Chromium, and search there.

    python benchmarks/page_check.py tiny12

The encoder is exported as `onnx` and an index of example sentences is made. Both
are dropped on the page as a hand drops them, a query is typed, and what the page lists
is compared with what the same artefact finds in Python. Every address that the page
asks for is kept. Needs Chromium, Node with npm, which fetches onnxruntime-web and
playwright-core, and the extra `onnx`. Writes benchmarks/results/page_check.json. Exit
code 1: other chunks, a cosine off by 1e-4, or a request to another machine.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from javascript_check import Server, output, program
from screenshots import write_index

import keras_msd as msd
from keras_msd.files import write_json

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "page_check.json"
TOP, CLOSE = 5, 1e-4
DROP = """
import { chromium } from "playwright-core";
const [executablePath, url, dropped, query] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage();
const requests = [];
page.on("request", (one) => requests.push(one.url()));
await page.goto(url);
const devtools = await page.context().newCDPSession(page);
const data = { items: [], files: JSON.parse(dropped), dragOperationsMask: 1 };
for (const type of ["dragEnter", "dragOver", "drop"]) {
  await devtools.send("Input.dispatchDragEvent", { type, x: 200, y: 150, data });
}
await page.waitForFunction(() =>
  document.querySelector("#given").value.includes("Index"),
);
await page.fill("input[name=query]", query);
await page.click("button");
await page.waitForSelector("li");
const found = await page.$$eval("li", (rows) =>
  rows.map((row) => ({
    text: row.querySelector("span").textContent,
    cosine: Number(row.querySelector("b").textContent),
  })),
);
const given = await page.textContent("#given");
await browser.close();
console.log(JSON.stringify({ found, given, requests }));
"""


def main() -> int:
    """Drop, search, compare, print and write the result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoder", help="what load_encoder takes")
    options = parser.parse_args()
    npm, node = program("npm"), program("node")
    chromium = program("chromium", "chromium-browser", "google-chrome")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        web = folder / "app" / "web"
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / "export", folder / "app", ignore=ignored)
        install = [npm, "install", "--silent", "--no-audit", "--no-fund"]
        subprocess.run([*install, "playwright-core"], cwd=web, check=True)
        (web / "drop.mjs").write_text(DROP)
        query = write_index(msd.load_encoder(options.encoder), folder)
        dropped = [str(folder / place) for place in ("artefact", "index")]
        with Server(folder / "app") as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            host = f"127.0.0.1:{server.server_port}"
            url = f"http://{host}/web/index.html"
            command = [node, "drop.mjs", chromium, url, json.dumps(dropped), query]
            answer = json.loads(subprocess.check_output(command, cwd=web, text=True))
            server.shutdown()
        index = msd.Index.open(folder / "index")
        wanted = index.search(msd.load_encoder(folder / "artefact"), query, top=TOP)
    row = compared(answer, wanted, host)
    print(json.dumps(row, indent=1, ensure_ascii=False))
    result = {
        "command": f"python benchmarks/page_check.py {options.encoder}",
        "query": query,
        "versions": {
            "node": output(node, "--version"),
            "chromium": output(chromium, "--version"),
        },
    }
    write_json(RESULT, result | row)
    return int(not row["same"] or bool(row["elsewhere"]))


def compared(answer: dict[str, Any], wanted: list[Any], host: str) -> dict[str, Any]:
    """Return what the page said, whether Python finds the same, and who was asked."""
    both = list(zip(answer["found"], wanted, strict=True))
    asked = [urlsplit(url) for url in answer["requests"]]
    net = [url for url in asked if url.scheme not in ("blob", "data")]
    return {
        "given": answer["given"],
        "found": answer["found"],
        "same": all(
            one["text"] == other.text and abs(one["cosine"] - other.cosine) < CLOSE
            for one, other in both
        ),
        "requests": [url.path for url in net],
        "elsewhere": sorted({url.netloc for url in net} - {host}),
    }


if __name__ == "__main__":
    sys.exit(main())
