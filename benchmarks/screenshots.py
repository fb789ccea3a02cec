"""Take the pictures in docs/images anew: the site and a report.

    python benchmarks/screenshots.py runs/demo

Headless Chromium opens them. Needs Chromium, Node with npm, which fetches
playwright-core, and the extra `docs`. Exit code 1: a picture is not under 200 kB.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from javascript_check import SILENT, Server, chromium, program

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
MOST = 200_000  # bytes
WIDTH, HEIGHT = 1280, 800
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
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(options.run / "report.html", folder)
        install = [npm, "install", *SILENT, "playwright-core"]
        subprocess.run(install, cwd=folder, check=True)
        (folder / "shoot.mjs").write_text(SHOOT)
        site = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
        subprocess.run([*site, "-d", folder / "site"], cwd=ROOT, check=True)
        with Server(folder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            shots = pictures(f"http://127.0.0.1:{server.server_port}")
            command = [node, "shoot.mjs", chromium(), json.dumps(shots)]
            subprocess.run(command, cwd=folder, check=True)
            server.shutdown()
    sizes = {path.name: path.stat().st_size for path in IMAGES.glob("*.png")}
    for image, size in sorted(sizes.items()):
        print(f"{image}: {size:,} bytes")
    return int(max(sizes.values()) >= MOST)


def pictures(server: str) -> list[dict[str, object]]:
    """Return address, file, what must be there, and size of each picture."""
    shots = {"site": ("/site/index.html", "h1"), "report": ("/report.html", "table")}
    return [
        {
            "url": server + address,
            "path": str(IMAGES / f"{name}.png"),
            "wait": wait,
            "width": WIDTH,
            "height": HEIGHT,
        }
        for name, (address, wait) in shots.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
