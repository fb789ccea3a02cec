"""Write the folders of a release for the Hugging Face hub and for npm.

    python tools/release_models.py --data DATA
    keras-msd push dist/hub/small12 organisation/small12
    (cd dist/npm && npm publish)

`dist/hub/NAME` is the export `huggingface`, whose README.md begins with the header that
the hub reads, with the scores on the STS set of `--data`; behind it comes the model
card of the encoder's package. `dist/npm` holds the tokenizer, the page of export/web
and an ONNX file of each encoder.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_msd.checkpoints.packaged import packaged_card
from keras_msd.export import loaders_folder

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# Of each encoder: where it began, and options of its export to the hub.
HUB = {
    "tiny12": ("sentence-transformers/all-MiniLM-L6-v2", ["--leave-out", "weights"]),
    "mini12": ("intfloat/multilingual-e5-small", []),
    "small12": ("intfloat/multilingual-e5-small", []),
}
WEB = {"tiny12": "int8", "mini12": "int4", "small12": "int4"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write both kinds of folders, and print their sizes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=HUB, default=list(HUB))
    parser.add_argument("--data", help="folder with sts/, for the scores of the card")
    options = parser.parse_args(arguments)
    npm = DIST / "npm"
    for folder in (npm, DIST / "hub"):
        shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("node_modules", "*.py", "*.java")
    shutil.copytree(loaders_folder(), npm, ignore=ignored)
    shutil.copy(ROOT / "LICENSE", npm)
    page = (npm / "web" / "README.md").read_text(encoding="utf-8")
    (npm / "README.md").write_text(without_links(page), encoding="utf-8")
    for name in options.only:
        base, more = HUB[name]
        hub = DIST / "hub" / name
        if options.data:
            languages = ",".join(packaged_card(name)["languages"])
            more = [*more, "--data", options.data, "--languages", languages]
        more = [*more, "--license", "apache-2.0", "--base-model", base]
        export(name, hub, "huggingface", *more)
        add_card(hub, ROOT / "packages" / name / "README.md")
        place = DIST / f"onnx_{name}"
        export(name, place, "onnx", "--quantize", WEB[name])
        (npm / "models").mkdir(exist_ok=True)
        shutil.move(place / "model.onnx", npm / "models" / f"{name}.onnx")
        shutil.rmtree(place)
    write_package(npm)
    for folder in (npm, *(DIST / "hub" / name for name in options.only)):
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        print(f"{folder.relative_to(ROOT)}: {len(sizes)} files, {sum(sizes):,} bytes")


def export(name: str, folder: Path, format_: str, *options: str) -> None:
    """Call `keras-msd export`."""
    command = [sys.executable, "-m", "keras_msd", "export", name, str(folder)]
    subprocess.run([*command, "--format", format_, *options], cwd=ROOT, check=True)


def add_card(folder: Path, card: Path) -> None:
    """Append a package's model card, without its title and its installation."""
    path = folder / "README.md"
    _, *parts = card.read_text(encoding="utf-8").split("\n## ")
    text = "\n## " + "\n## ".join(parts)
    with path.open("a", encoding="utf-8") as file:
        file.write(without_links(text))


def without_links(text: str) -> str:
    """Return Markdown without its links to files, which lead nowhere on the hub."""
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


def write_package(folder: Path) -> None:
    """Write package.json of npm, from that of the page."""
    about = json.loads((folder / "web" / "package.json").read_text(encoding="utf-8"))
    (folder / "web" / "package.json").unlink()
    del about["private"]
    about |= {
        "name": "keras-msd-web",
        "exports": {
            ".": "./web/embed.mjs",
            "./tokenizer": "./portable_tokenizer.mjs",
            "./models/*": "./models/*",
        },
        "files": ["*.mjs", "web", "models", "LICENSE", "README.md"],
    }
    text = json.dumps(about, indent=2) + "\n"
    (folder / "package.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
