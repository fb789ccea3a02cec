"""No library speaks for itself or loads unasked; a fork answers, or says it cannot."""

import json
import os
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest
import small_recipe

import keras_msd as msd
from keras_msd import InputError, runtimes
from keras_msd.runtimes import sieved_stderr
from keras_msd.testing import SENTENCES, tiny_encoder

SLOW = {"jax", "keras", "keras_hub", "matplotlib", "numpy", "scipy", "tensorflow"}
SLOW |= {"huggingface_hub", "safetensors", "sentencepiece", "tokenizers", "torch"}
KINDS = "litert", "litert_text", "onnx"
SHORT = [
    "evaluate.artefacts=false",
    "evaluate.intermediate=none",
    'evaluate.sets=["examples"]',
    "starts.closed_form=false",
    "stages.teach_assistant.skip=true",
    "stages.align_embedding.skip=true",
    "stages.teach_student.skip=true",
]
IN_TURN = """
import json, sys
from keras_msd.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
"""
NOTE = b"I0000 00:00:17.5  2972 cudart_stub.cc:31] Could not find cuda drivers\n"
HEADING = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written "
    b"to STDERR\n"
)
FORK = """
import os, signal
import keras_msd as msd

def made(layers):
    encoder = msd.testing.tiny_encoder(num_layers=layers, embedding_layer_norm=False)
    added = ("embedding/position", "embedding/type")  # a bag of words has none
    values = encoder.weights()
    encoder.set_weights(values | {name: 0 * values[name] for name in added})
    return encoder, encoder.encode(["A cat."] * 3000, progress=False)

encoders = made(0), made(1)
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends a child that waits
    for encoder, before in encoders:
        try:
            same = (encoder.encode(["A cat."] * 3000, progress=False) == before).all()
            print("the same" if same else "another", flush=True)
        except msd.InputError as error:
            print(error, flush=True)
    try:
        msd.testing.tiny_encoder()
    except msd.InputError as error:
        print("Another:", error, flush=True)
    os._exit(0)
print("status", os.waitpid(child, 0)[1])
"""
ERRORS = b"E0000 00:00:17.5 1 x.cc:1] wrong\nW0000 odd\nI think\nno end"


def python(code, *arguments, level=None, path="", check=True):
    """Run code as a user's shell would, without what the tests set."""
    unset = ("TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES")
    environment = {key: os.environ[key] for key in os.environ if key not in unset}
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    paths = [str(path), *sys.path] if path else sys.path
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        env=environment,
        capture_output=True,
        check=check,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory, tokenizer):
    folder = small_recipe.write_place(tmp_path_factory.mktemp("place"))
    tiny_encoder(tokenizer).save(folder / "encoder")
    for side, name in enumerate(("english.txt", "german.txt")):
        texts = [pair[side] for pair in SENTENCES]
        (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    return folder


@pytest.mark.slow
def test_no_library_writes_a_line(place):
    """All commands but `demo`, which is a run with a larger teacher."""
    runs, encoder, data = place / "runs", place / "encoder", place / "data"
    texts = place / "english.txt", place / "german.txt"
    changes = [("--set", change) for change in SHORT]
    recipe = (place / "small.toml", "--data", data, *chain.from_iterable(changes))
    commands = [
        ("list", "xkd_lab"),
        ("embed", encoder, "A cat.", "--out", place / "vectors.npz"),
        ("search", encoder, "A cat.", texts[0]),
        ("evaluate", encoder, "--data", data, "--set", "examples"),
        ("mine", *texts, "--encoder", encoder),
        ("trim", encoder, place / "trimmed", "--texts", texts[1]),
        *(("export", encoder, place / kind, "--format", kind) for kind in KINDS),
        ("search", place / "litert", "A cat.", texts[0]),
        ("run", *recipe, "--out", runs / "small"),
        ("run-all", *recipe, "--out", runs),
        ("report", runs / "small"),
    ]
    arguments = [[*map(str, command), "--json"] for command in commands]
    done = python(IN_TURN, json.dumps(arguments))
    assert done.stderr.decode() == ""
    results, rest = [], done.stdout.decode()
    while rest := rest.lstrip():
        result, end = json.JSONDecoder().raw_decode(rest)
        results.append(result)
        rest = rest[end:]
    assert len(results) == len(commands)
    assert results[-2][0]["folder"] == str(runs / "small")  # found, not run again


@pytest.mark.parametrize(
    ("level", "shown"),
    [(None, ERRORS), ("3", ERRORS), ("0", NOTE + HEADING + ERRORS)],
)
def test_notes_at_import_are_taken_out(tmp_path, level, shown):
    """A stand-in for TensorFlow, which writes before it reads its level."""
    (tmp_path / "tensorflow.py").write_text(
        f"import os; os.write(2, {NOTE + HEADING + ERRORS!r})", encoding="utf-8"
    )
    code = """
import importlib.util, os
import keras_msd
importlib.util.find_spec("tensorflow")  # who only asks does not import
import tensorflow
print(os.environ["TF_CPP_MIN_LOG_LEVEL"], end="")
"""
    done = python(code, level=level, path=tmp_path)
    assert done.stderr == shown
    assert done.stdout.decode() == (level or "3")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_answers_or_refuses_and_no_line_is_written():
    done = python(FORK)
    bag, network, another, status = done.stdout.decode().splitlines()
    assert bag == "the same" and status == "status 0"
    assert network.startswith("The runtime tensorflow was started")
    assert another.startswith("Another: The runtime") and "by spawn" in another
    assert done.stderr == b""


def test_the_last_words_of_a_process_are_shown():
    code = """
import os
from keras_msd.runtimes import sieved_stderr
with sieved_stderr():
    os.write(2, b"I0000 note\\nF0000 no AVX here")
    os.abort()
"""
    done = python(code, level="3", check=False)
    assert done.returncode < 0
    assert done.stderr.startswith(b"F0000 no AVX here")


def test_stderr_is_back_after_an_error(capfd, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    with pytest.raises(ZeroDivisionError), sieved_stderr():
        os.write(2, NOTE)
        raise ZeroDivisionError
    os.write(2, NOTE)
    assert capfd.readouterr().err.encode() == NOTE


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (["--help"], SLOW | {"logging", "pydantic", "rich"}),
        (["list"], SLOW),
    ],
)
def test_short_commands_import_nothing_slow(arguments, without):
    code = f"import sys\n{IN_TURN}\nprint(*sys.modules, file=sys.stderr)"
    done = python(code, json.dumps([arguments]))
    modules = set(done.stderr.decode().split())
    assert "typer" in modules
    assert modules & without == set()


def test_an_artefact_belongs_to_its_process(monkeypatch):
    def run(texts):
        return np.ones((len(texts), 2), np.float32)

    here = os.getpid()
    artefacts = {
        name: msd.export.Artefact("a", {"dim": 2, "format": name}, run)
        for name in ("onnx", "litert")
    }
    monkeypatch.setattr(runtimes.os, "getpid", lambda: here + 1)
    assert artefacts["litert"].encode(["a"]).shape == (1, 2)
    with pytest.raises(InputError, match="runtime of onnx .* was forked.*by spawn"):
        artefacts["onnx"].encode(["a"])
