"""Random damage to every kind of file that is read: each must be taken or refused.

    pip install -e ".[fuzz]"
    python benchmarks/fuzz.py --inputs 2000 --seed 1 --json

Valid files are damaged by Hypothesis: bytes and lines are cut, doubled, swapped and
overwritten, values of JSON and of safetensors headers become what no writer writes. A
process of its own reads each in at most 5 seconds and 1 GiB more than before. Whatever
is not read is refused with an `InputError`. The last line is one JSON object: inputs by
target, crashes, hangs, over_memory. Inputs that break a rule stay in --keep.
"""

import argparse
import gzip
import json
import os
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS, MEMORY = 5, 1 << 30  # of the processor, and bytes
WAIT = 60  # seconds by the clock: other programs may be at work
START = 300  # seconds that a process may take to begin
ODD_VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 10**12, 10**400, 1.5, -0.0, 1e308, float("nan")),
    *(float("inf"), "", "x", "\0", "é" * 300, "\ud800", "../x", "[PAD]", "a" * 100_000),
    *([], {}, [[]], [1, "a", None], {"content": 1}, {"type": "Sequence"}),
]
TOKENS = [
    *(
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\r",
        b"\n",
        b"\t",
        b'"',
        b"\\",
        b"[",
        b"{",
        b"<",
    ),
    *(b"<tu>", b"<seg>", b"</seg>", b"<![CDATA[", b"<!--", b"&amp;", b"&x;", b"&#0;"),
    *(b'msgid "', b'msgstr "a"\n', b"#~ ", b"#, fuzzy\n", b"msgid_plural", b"[0]"),
    *(b"charset=idna", b"plural=n/0;", b"a.b = 1\n", b"[[x]]\n", b"inf", b"9" * 5000),
    *(b"1e999", b"\\u0000", b"\\ud800", b"{}", b"[]", b"null", b"\xef\xbb\xbf", b" "),
]


# In the process that reads: what each target does with a folder.


def targets() -> dict[str, Callable[[Path], object]]:
    """Return what reads a folder of each target."""
    from keras_msd.checkpoints.loading import load_checkpoint
    from keras_msd.data import read_inference, read_pairs, read_scored
    from keras_msd.data.corpora.archives import open_zip, tar_lines, zip_lines
    from keras_msd.export.artefact import load_artefact
    from keras_msd.export.portable import load_portable
    from keras_msd.models.encoder import load_saved
    from keras_msd.recipes import load_recipe
    from keras_msd.teachers.saved_model_operations import check_operations
    from keras_msd.teachers.vectors import VectorFile
    from keras_msd.tokenizers.kinds import load_tokenizer, read_checkpoint_tokenizer

    def pairs(folder: Path) -> object:
        return list(read_pairs(min(folder.iterdir())))

    def only(read: Callable[[Path], object]) -> Callable[[Path], object]:
        return lambda folder: read(min(folder.iterdir()))

    def unzip(path: Path) -> None:
        with open_zip(path) as archive:
            for name in archive.namelist():
                list(zip_lines(archive, name))

    def untar(path: Path) -> None:
        for _, lines in tar_lines(path):
            list(lines)

    def tokenize(load: Callable[[Path], Any]) -> Callable[[Path], object]:
        return lambda folder: load(folder).encode(["The cat, die Katze.", "", "aa ab"])

    return {
        **dict.fromkeys(("tsv", "tmx", "jsonl", "po", "mo", "moses"), pairs),
        "inference": only(read_inference),
        "scored": only(lambda path: read_scored(path, "over_5")),
        "zip": only(unzip),
        "tar": only(untar),
        "recipe": only(load_recipe),
        "wordpiece": tokenize(read_checkpoint_tokenizer),
        "bytepair": tokenize(read_checkpoint_tokenizer),
        "tokenizer": tokenize(load_tokenizer),
        "checkpoint": load_checkpoint,
        "encoder": load_saved,
        "vectors": only(VectorFile),
        "artefact": load_artefact,
        "portable": only(lambda p: load_portable(p.read_bytes()).encode(["The cat."])),
        "saved_model": check_operations,
    }


def write_seeds(root: Path) -> None:
    """Write valid files of each target, `root/<target>/<number>/...`."""
    import io
    import tarfile
    import zipfile

    import numpy as np

    from keras_msd.export import export
    from keras_msd.export.portable import describe
    from keras_msd.recipes.schema.folders import recipe_folder
    from keras_msd.testing import tiny_encoder

    def put(target: str, **files: bytes) -> None:
        folder = root / target
        folder = folder / str(len(list(folder.iterdir())) if folder.is_dir() else 0)
        folder.mkdir(parents=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)

    tsv = b"A house.\tEin Haus.\nTea?\tTee?\n" * 5
    tmx = (
        b'<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
        b'<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>A '
        b"<ph x='1'>b</ph>.</seg></tuv><tuv xml:lang='de'><seg>E</seg></tuv></tu>"
        b"</body></tmx>"
    )
    po = (
        b'# c\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        b'"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n"Language: de\\n"\n\n'
        b'#: a.c:1\n#, c-format\nmsgctxt "x"\nmsgid "one\\n"\nmsgid_plural "%d"\n'
        b'msgstr[0] "eins"\nmsgstr[1] "%d\\303\\244"\n\nmsgid "tea"\nmsgstr ""\n"Te"\n'
        b'"e"\n\n#~ msgid "o"\n#~ msgstr "p"\n'
    )
    texts = [b"", b"Content-Type: text/plain; charset=UTF-8\n", b"tea", b"Tee"]
    places = [sum(len(t) + 1 for t in texts[:n]) + 60 for n in range(4)]
    order = [(0, 0), (2, 0), (1, 0), (3, 0)]
    head = struct.pack("<7I", 0x950412DE, 0, 2, 28, 44, 0, 60)
    head += b"".join(struct.pack("<2I", len(texts[n]), places[n]) for n, _ in order)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:bz2") as archive:
        info = tarfile.TarInfo("d/a" + "x" * 120)
        info.size = len(tsv)
        archive.addfile(info, io.BytesIO(tsv))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.en", tsv)
        file.writestr("a.de", tsv, zipfile.ZIP_LZMA)
    array = io.BytesIO()
    np.savez_compressed(array, sentences=np.array(["a", "b"]), vectors=np.eye(2))
    for data in (tsv, gzip.compress(tsv)):
        put("tsv", **{"x.en-de.tsv": data})
    put("tmx", **{"x.en-de.tmx": tmx})
    put("tmx", **{"x.tmx": tmx})
    put("jsonl", **{"x.en-de.jsonl": b'{"source": "a", "target": "b"}\n' * 3})
    put("jsonl", **{"x.jsonl": b'{"translation": {"en": "a", "de": "b"}}\n' * 3})
    put("po", **{"x.en-de.po": po})
    put("po", **{"de.po": po})
    put("mo", **{"x.en-de.mo": head + b"\0".join(texts) + b"\0"})
    put("moses", **{"x.en": b"a\nb\n", "x.de": b"c\nd\n"})
    put("inference", **{"x.tsv": b"label\tpremise\thypothesis\nneutral\ta\tb\n"})
    line = b'{"label": 1, "premise": "a", "hypothesis": "b"}\n'
    put("inference", **{"x.jsonl": line * 2})
    put("scored", **{"x.tsv": b"1.5\ta\tb\n4\tc\td\n"})
    put("zip", **{"x.zip": packed.getvalue()})
    put("tar", **{"x.tar.bz2": buffer.getvalue()})
    for name in ("demo", "msd_lab"):
        put("recipe", **{"r.toml": (recipe_folder() / f"{name}.toml").read_bytes()})
    vocabulary = "\n".join("[PAD] [UNK] [CLS] [SEP] the cat ##s , .".split()).encode()
    settings = b'{"do_lower_case": true, "pad_token": {"content": "[PAD]"}}'
    put("wordpiece", **{"vocab.txt": vocabulary, "tokenizer_config.json": settings})
    pieces = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab", "Ġ"]
    table = json.dumps({piece: n for n, piece in enumerate(pieces)}).encode()
    put("bytepair", **{"vocab.json": table, "merges.txt": b"#version: 0.2\na b\n"})
    put("vectors", **{"v.npz": array.getvalue()})
    encoder, rows = tiny_encoder(num_layers=1), [(1, "a", "b"), (0, "a", "c")]
    encoder.save(root / "encoder" / "0")
    encoder.tokenizer.save(root / "tokenizer" / "0")
    put("portable", **{"tokenizer.json": describe(encoder.tokenizer, 8)})
    options: dict[str, Any] = {"sentences": ["A cat."], "sts": rows}
    options["max_sts_loss"] = 200
    for number, name in enumerate(("onnx", "litert", "saved_model")):
        export(encoder, root / "artefact" / str(number), name, **options)
    (root / "saved_model").mkdir()
    shutil.copytree(root / "artefact" / "2" / "1", root / "saved_model" / "0")
    golden = Path(__file__).parents[1] / "tests" / "golden"
    for family in ("bert", "distilbert", "roberta", "xlm-roberta"):
        place = root / "checkpoint" / family
        for part in ("variant_0", "tokenizer"):
            shutil.copytree(golden / family / part, place, dirs_exist_ok=True)
    modules = golden / "sentence" / "cls_tanh"
    shutil.copytree(modules, place, dirs_exist_ok=True)


def work(root: Path) -> None:
    """Read folders, named line by line on stdin, and say on stdout what came of it."""
    from keras_msd.checks import InputError

    answers, sys.stdout = sys.stdout, sys.stderr
    readers = targets()
    if not root.is_dir():
        write_seeds(root)
    print("ready", file=answers, flush=True)
    used = ""
    for line in sys.stdin:
        target, folder = json.loads(line)
        if used != target:  # what loads on first use is no memory of an input's
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            for seed in sorted((root / target).iterdir()):
                readers[target](seed)
            size = int(Path("/proc/self/statm").read_text().split()[0])
            most = size * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            used = target
        Path("/proc/self/clear_refs").write_text("5")
        before, began = _peak(), time.thread_time()
        try:
            readers[target](Path(folder))
            said = "taken"
        except InputError:
            said = "refused"
        except MemoryError:
            said = "over_memory"
        except BaseException as error:
            said = f"crash: {type(error).__name__}: {error}"[:300]
        if _peak() - before > MEMORY:
            said = "over_memory"
        elif time.thread_time() - began > SECONDS:
            said = "hang"
        print(json.dumps(said), file=answers, flush=True)


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


# In the process that damages.


class Reader:
    """A process that reads folders, started again where it died or took too long.

    Args:
        seeds: Where it writes valid files, unless they are there.
    """

    def __init__(self, seeds: Path) -> None:
        self.seeds = seeds
        self.start()

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        command = [sys.executable, __file__, "--work", str(self.seeds)]
        environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | environment | {"CUDA_VISIBLE_DEVICES": ""},
        )
        self.warm = ""
        if self.answer(START) != b"ready\n":
            raise SystemExit("The process that reads did not start.")

    def answer(self, seconds: float) -> bytes:
        """Return a line, or nothing where there is none in time."""
        assert self.process.stdout is not None  # noqa: S101
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline() if ready else b""

    def read(self, target: str, folder: Path) -> str:
        """Return what came of reading a folder."""
        assert self.process.stdin is not None  # noqa: S101
        first = self.warm != target
        self.warm = target
        request = json.dumps([target, str(folder)]) + "\n"
        self.process.stdin.write(request.encode())
        self.process.stdin.flush()
        line = self.answer(START if first else WAIT)
        if line:
            return json.loads(line)
        self.process.kill()
        code = self.process.wait()
        self.start()
        return "hang" if code == -signal.SIGKILL else f"crash: it ended with {code}"


def damaged(draw: Any, name: str, data: bytes) -> bytes:
    """Return the content of a file after some damage."""
    from hypothesis import strategies as st

    if data.startswith(b"\x1f\x8b") and draw(st.booleans()):
        return gzip.compress(damaged(draw, name, gzip.decompress(data)))
    if name.endswith(".json") and draw(st.integers(0, 3)):
        return json.dumps(odd(draw, json.loads(data))).encode()
    if name.endswith(".safetensors") and draw(st.booleans()):
        length = struct.unpack("<Q", data[:8])[0]
        head = json.dumps(odd(draw, json.loads(data[8 : 8 + length]))).encode()
        return struct.pack("<Q", len(head)) + head + data[8 + length :]
    lines = name.endswith((".txt", ".toml", ".po", ".jsonl", ".tsv"))
    for _ in range(draw(st.integers(1, 4))):
        ends = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        if lines and draw(st.booleans()):
            ends = [data.rfind(b"\n", 0, end) + 1 for end in ends]
        before, part, after = data[: ends[0]], data[slice(*ends)], data[ends[1] :]
        times = draw(st.sampled_from([1, 1, 2, 100, 30_000]))
        token = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=9)))
        what = draw(st.integers(0, 5))
        if what == 0:
            data = before + after
        elif what == 1:
            data = before + part * min(times, 1 + (1 << 20) // (len(part) + 1)) + after
        elif what == 2:
            data = before + token * times + after
        elif what == 3:
            data = before + token + part + after
        elif what == 4:
            data = before
        else:
            data = before + token + data[ends[0] + len(token) :]
    return data


def odd(draw: Any, value: Any) -> Any:
    """Return what JSON says with one value, anywhere, that no writer writes."""
    from hypothesis import strategies as st

    if isinstance(value, dict | list) and value and draw(st.integers(0, 9)):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        changed = value.copy()
        action = draw(st.integers(0, 9))
        if action == 0:
            del changed[key]
        elif action == 1 and isinstance(changed, dict):
            changed[draw(st.sampled_from(["", "x", "type", "\ud800"]))] = changed[key]
        else:
            changed[key] = odd(draw, value[key])
        return changed
    if draw(st.integers(0, 9)) == 0:
        for _ in range(draw(st.sampled_from([50, 900]))):
            value = [value]
        return value
    return draw(st.sampled_from(ODD_VALUES))


def fuzz(target: str, reader: Reader, inputs: int, seed: int, keep: Path) -> Counter:
    """Damage the seeds of a target `inputs` times; return how often what came of it."""
    import hypothesis
    from hypothesis import strategies as st

    counts: Counter[str] = Counter()
    seeds = sorted((reader.seeds / target).iterdir())

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=inputs,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def once(data: Any) -> None:
        folder = data.draw(st.sampled_from(seeds))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        chosen = data.draw(st.sampled_from(files))
        content = damaged(data.draw, chosen.name, chosen.read_bytes())
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place) / "input"
            shutil.copytree(folder, copy)
            (copy / chosen.relative_to(folder)).write_bytes(content)
            said = reader.read(target, copy)
            counts[said.partition(":")[0]] += 1
            if said not in ("taken", "refused"):
                number = sum(counts.values())
                print(f"{target} {number} {chosen.name}: {said}", flush=True)
                shutil.copytree(copy, keep / f"{target}-{seed}-{number}")

    once()
    return counts


def main() -> None:
    """Damage and read; print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=2000, help="of all targets")
    parser.add_argument("--seed", type=int, default=0, help="decides every input")
    parser.add_argument("--targets", nargs="*", help="some of them; by default all")
    parser.add_argument("--keep", type=Path, default=Path("fuzz"), help="for findings")
    parser.add_argument("--json", action="store_true", help="only findings and JSON")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    with tempfile.TemporaryDirectory() as place:
        reader = Reader(Path(place) / "seeds")
        names = options.targets or sorted(path.name for path in reader.seeds.iterdir())
        each = -(-options.inputs // len(names))
        print(f"seed {options.seed}, {each} inputs of each target", flush=True)
        found = {}
        for name in names:
            counts = fuzz(name, reader, each, options.seed, options.keep)
            found[name] = counts
            if not options.json:
                print(f"{name:12} {dict(counts)}", flush=True)
        reader.process.kill()
    totals = {
        key: sum(counts[name] for counts in found.values())
        for key, name in (
            ("crashes", "crash"), ("hangs", "hang"), ("over_memory", "over_memory"),
        )
    }  # fmt: skip
    inputs = {name: sum(counts.values()) for name, counts in found.items()}
    print(json.dumps({"seed": options.seed, "inputs": inputs} | totals))


if __name__ == "__main__":
    main()
