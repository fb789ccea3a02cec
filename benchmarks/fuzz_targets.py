"""All that benchmarks/fuzz.py reads: what reads it, and valid files to damage."""

import io
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache, lru_cache
from gzip import compress
from pathlib import Path
from typing import Any

Read = Callable[[Path], object]

TEXTS = ["The cat, die Katze.", "", "aa ab"]
ENDS = (0, 1, 2, None)  # exit codes of the command line
REFUSED = 2
WRITES = "store", "run", "command"  # targets that change what they read
FORMATS = "onnx", "litert", "saved_model", "onnx_text", "litert_text"
# Their reader has bytes alone, or words.
WITHOUT_PLACE = "portable", "command"
NAMES = [
    *("tsv", "csv", "tmx", "jsonl", "moses", "inference", "scored"),
    *("recipe", "wordpiece", "bytepair", "sentencepiece"),
    *("tokenizer", "checkpoint", "encoder", "vectors", "store", "run"),
    *("artefact", "portable", "saved_model", "command", "table", "training"),
]


def targets() -> dict[str, Read]:
    """Return what reads a folder of each target."""
    from keras_msd.checkpoints.checkpoint import load_checkpoint
    from keras_msd.data import read_inference, read_pairs, read_scored
    from keras_msd.export.artefact import load_artefact
    from keras_msd.export.portable import load_portable
    from keras_msd.models.encoder import load_saved
    from keras_msd.recipes import load_recipe
    from keras_msd.teachers.saved_model import check_operations
    from keras_msd.teachers.teacher import VectorFile
    from keras_msd.tokenizers.loading import load_tokenizer, read_checkpoint_tokenizer

    def only(read: Callable[[Path], object]) -> Read:
        return lambda folder: read(min(folder.iterdir()))

    def tokenizer(folder: Path) -> object:
        return read_checkpoint_tokenizer(folder).encode(TEXTS)

    corpora = ("tsv", "csv", "tmx", "jsonl", "moses")
    tokenizers = ("wordpiece", "bytepair", "sentencepiece")
    return {
        **dict.fromkeys(corpora, only(lambda path: list(read_pairs(path)))),
        **dict.fromkeys(tokenizers, tokenizer),
        "inference": only(read_inference),
        "scored": only(lambda path: read_scored(path, "over_5")),
        "recipe": only(load_recipe),
        "tokenizer": lambda folder: load_tokenizer(folder).encode(TEXTS),
        "checkpoint": load_checkpoint,
        "encoder": load_saved,
        "vectors": only(VectorFile),
        "store": _store,
        "run": _run,
        "artefact": lambda folder: load_artefact(folder).encode(TEXTS),
        "portable": only(lambda path: load_portable(path.read_bytes()).encode(TEXTS)),
        "saved_model": check_operations,
        "command": _command,
        "table": _table,
        "training": _training,
    }


def keep_networks() -> None:
    """Build a network once for all inputs with the same settings: they are many."""
    from keras_msd.models import encoder

    build = encoder.build_model

    @lru_cache(maxsize=8)
    def built(settings: str) -> Any:
        return build(encoder.EncoderConfig.model_validate_json(settings))

    encoder.build_model = lambda config: built(config.model_dump_json())


class _Letters:
    dim, fingerprint = 4, "letters"

    def encode(self, texts: list[str]) -> Any:
        import numpy as np

        return np.array([[len(text), *map(text.count, "aeo")] for text in texts])


def _store(folder: Path) -> object:
    import warnings

    from keras_msd.data import GuideStore

    with warnings.catch_warnings():  # what is damaged is made anew, and said
        warnings.simplefilter("ignore", UserWarning)
        return GuideStore(_Letters(), folder).targets([*TEXTS, "new"])


@cache
def _lab() -> Any:
    from keras_msd.recipes import load_recipe

    return load_recipe("demo", "smoke")


def _run(folder: Path) -> object:
    from keras_msd.recipes.cache import RunFolder

    run = RunFolder(folder, _lab())
    run.claim()
    return run.perform("score", lambda step: {"score": 1.5})


def _command(folder: Path) -> None:
    """Give the words of a command; what would train ends once all is checked."""
    from keras_msd.checks import InputError
    from keras_msd.cli import main
    from keras_msd.recipes import prepare

    def enough(_: Any) -> None:
        raise InputError("It would run now. This is as far as words lead.")

    prepare.check = enough
    words = json.loads((folder / "a.words").read_bytes())
    said = io.StringIO()
    try:
        with chdir(folder), redirect_stdout(said), redirect_stderr(said):
            main(words)
    except SystemExit as end:
        if end.code not in ENDS or "Traceback" in said.getvalue():
            raise RuntimeError(f"exit code {end.code}: {said.getvalue()}") from end
        if end.code == REFUSED:
            raise InputError(said.getvalue()) from end


def _table(folder: Path) -> object:
    import numpy as np

    from keras_msd.data import PairTable

    table = PairTable.open(folder)
    rows = np.arange(len(table))
    return [table.padded(side, rows, 8) for side in ("source", "target")], list(
        table.texts
    )


@cache
def _half_trained() -> tuple[Any, Any]:
    """Return a stage of few weights, and what it is trained on."""
    import keras

    from keras_msd import testing
    from keras_msd.data import GuideStore, PairBatches
    from keras_msd.stages import TeachAssistant

    keras.utils.set_random_seed(0)  # every process has the same training
    encoder = testing.tiny_encoder(num_layers=1)
    guides = {"teacher": (GuideStore(encoder, tempfile.mkdtemp()), "source")}
    batches = PairBatches(testing.tiny_pairs(), encoder, guides, 4, epochs=2)
    stage = TeachAssistant(encoder)
    stage.compile(optimizer="sgd")
    return stage, batches


def _training(folder: Path) -> None:
    """Take what a training in this folder has come to; no update is made."""
    import warnings

    from keras_msd import training

    stage, batches = _half_trained()
    stage.fit = lambda *_, **__: None
    with warnings.catch_warnings():  # the older checkpoint is taken, and it is said
        warnings.simplefilter("ignore", UserWarning)
        training.fit(stage, batches, folder)


COMMANDS = [
    "run demo --scale smoke --out out --set recipe.seed=1 --data .",
    "run-all demo --scale smoke --out out --json",
    "list demo --json",
    "list",
    "embed encoder Hallo --input lines.txt --out v.npz",
    "embed encoder Hallo --json",
    "search encoder Hallo lines.txt --top 2 --threshold 0.5",
    "evaluate encoder --set sts2017-extended --data . --languages de,fr --json",
    "export encoder --format onnx --quantize int8 --out nowhere/out",
    "mine encoder lines.txt lines.txt --margin ratio",
    "trim encoder out --texts lines.txt --keep 0.9",
    "distil nothing.tsv --out out",
    "report .",
    "push encoder --json",
]


def write_seeds(root: Path) -> None:
    """Write valid files of each target, `root/<target>/<number>/...`."""

    def put(target: str, **files: bytes) -> Path:
        folder = root / target
        folder = folder / str(len(list(folder.iterdir())) if folder.is_dir() else 0)
        folder.mkdir(parents=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return folder

    _write_corpora(put)
    _write_vectors(put)
    _write_models(root, put)
    _write_own(root, put)


TSV = b"A house.\tEin Haus.\nTea?\tTee?\n" * 5


def _write_corpora(put: Callable[..., Path]) -> None:
    tmx = (
        b'<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
        b'<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>A '
        b"<ph x='1'>b</ph>.</seg></tuv><tuv xml:lang='de'><seg>E</seg></tuv></tu>"
        b"</body></tmx>"
    )
    for data in (TSV, compress(TSV)):
        put("tsv", **{"x.en-de.tsv": data})
    put("csv", **{"x.csv": b'en,de,id\n"A, b",E,1\nc,"d ""e""\nf",2\n'})
    put("csv", **{"x.en-de.csv": b"source;target\na;b\n\nc;d\n"})
    put("tmx", **{"x.en-de.tmx": tmx})
    put("tmx", **{"x.tmx": tmx})
    put("jsonl", **{"x.en-de.jsonl": b'{"source": "a", "target": "b"}\n' * 3})
    put("jsonl", **{"x.jsonl": b'{"translation": {"en": "a", "de": "b"}}\n' * 3})
    put("moses", **{"x.en": b"a\nb\n", "x.de": b"c\nd\n"})
    put("inference", **{"x.tsv": b"label\tpremise\thypothesis\nneutral\ta\tb\n"})
    line = b'{"label": 1, "premise": "a", "hypothesis": "b"}\n'
    put("inference", **{"x.jsonl": line * 2})
    put("scored", **{"x.tsv": b"1.5\ta\tb\n4\tc\td\n"})


def _write_vectors(put: Callable[..., Path]) -> None:
    import numpy as np

    array, text = io.BytesIO(), io.BytesIO()
    np.savez_compressed(array, sentences=np.array(["a", "b"]), vectors=np.eye(2))
    letters, ends = np.frombuffer(b"ab", np.uint8), np.array([1, 2])
    np.savez(text, text=letters, ends=ends, vectors=np.eye(2))
    put("vectors", **{"v.npz": array.getvalue()})
    put("vectors", **{"v.npz": text.getvalue()})


def _write_models(root: Path, put: Callable[..., Path]) -> None:
    golden = Path(__file__).parents[1] / "tests" / "golden"
    for family in ("bert", "distilbert", "roberta", "xlm-roberta"):
        place = root / "checkpoint" / family
        for part in ("variant_0", "tokenizer"):
            shutil.copytree(golden / family / part, place, dirs_exist_ok=True)
    modules = golden / "sentence" / "cls_tanh"
    shutil.copytree(modules, root / "checkpoint" / "bert", dirs_exist_ok=True)
    tokenizer = golden / "xlm-roberta" / "tokenizer"
    shutil.copytree(tokenizer, root / "sentencepiece" / "0")
    for number, family in enumerate(("bert", "distilbert")):
        tokenizer = golden / family / "tokenizer"
        shutil.copytree(tokenizer, root / "wordpiece" / str(number))
    shutil.copytree(golden / "roberta" / "tokenizer", root / "bytepair" / "0")


def _write_own(root: Path, put: Callable[..., Path]) -> None:
    from keras_msd.data import Pairs, PairTable
    from keras_msd.export import export
    from keras_msd.export.portable import describe
    from keras_msd.recipes.load import recipe_folder
    from keras_msd.testing import tiny_encoder, tiny_pairs
    from keras_msd.tokenizers.loading import read_checkpoint_tokenizer
    from keras_msd.training import fit

    encoder, rows = tiny_encoder(num_layers=1), [(1, "a", "b"), (0, "a", "c")]
    encoder.save(root / "encoder" / "0")
    encoder.save(root / "encoder" / "1", quantize="int8")
    encoder.tokenizer.save(root / "tokenizer" / "0")
    wordpiece = read_checkpoint_tokenizer(root / "wordpiece" / "0")
    wordpiece.save(root / "tokenizer" / "1")
    for tokenizer in (encoder.tokenizer, wordpiece):
        put("portable", **{"tokenizer.json": describe(tokenizer, 8)})
    for name in ("demo", "msd_sizes"):
        put("recipe", **{"r.toml": (recipe_folder() / f"{name}.toml").read_bytes()})
    options: dict[str, Any] = {"sentences": ["A cat."], "sts": rows}
    options["max_sts_loss"] = 200
    for number, name in enumerate(FORMATS):
        export(encoder, root / "artefact" / str(number), name, **options)
    (root / "saved_model").mkdir()
    shutil.copytree(root / "artefact" / "2" / "1", root / "saved_model" / "0")
    _store(root / "store" / "0")
    _run(root / "run" / "0")
    PairTable.build(Pairs.from_list(tiny_pairs()), encoder.tokenizer, root / "table/0")
    stage, batches = _half_trained()
    fit(stage, batches, root / "training" / "0", minutes=0, verbose=0)
    lines = root / "lines.txt"
    lines.write_bytes(b"A house.\nTea?\n")
    for words in COMMANDS:
        place = put("command", **{"a.words": json.dumps(words.split()).encode()})
        (place / "lines.txt").write_bytes(lines.read_bytes())
        (place / "pairs.en-de.tsv").write_bytes(TSV)
        shutil.copytree(root / "encoder" / "0", place / "encoder")
    lines.unlink()
