"""An encoder in a forked process answers, or says at once that it cannot."""

import os
import subprocess
import sys

import numpy as np
import pytest

import keras_msd as msd
from keras_msd import InputError, processes

CHILD = """
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_answers_or_refuses():
    command = [sys.executable, "-W", "ignore", "-c", CHILD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bag, network, another, status = done.stdout.splitlines()
    assert bag == "the same" and status == "status 0"
    assert network.startswith("The runtime tensorflow was started")
    assert another.startswith("Another: The runtime") and "by spawn" in another


def test_an_artefact_belongs_to_its_process(monkeypatch):
    def run(texts):
        return np.ones((len(texts), 2), np.float32)

    here = os.getpid()
    artefacts = {
        name: msd.export.Artefact("a", {"dim": 2, "format": name}, run)
        for name in ("onnx", "litert")
    }
    monkeypatch.setattr(processes.os, "getpid", lambda: here + 1)
    assert artefacts["litert"].encode(["a"]).shape == (1, 2)
    with pytest.raises(InputError, match="runtime of onnx .* was forked.*by spawn"):
        artefacts["onnx"].encode(["a"])
