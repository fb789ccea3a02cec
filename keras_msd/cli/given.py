"""What commands on recipes are given: names, data, changes, backend, devices."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError, one_of
from keras_msd.recipes import files as folders

BACKENDS = "tensorflow", "jax"
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe."),
]
Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        help="Folder with parallel/, sts/, tatoeba/; again for more parallel/train/.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(help="smoke, demo, lab, backbone or paper; else the recipe's own."),
]


def recipe_names() -> list[str]:
    """Return the names of the recipes, for the shell to complete."""
    return folders.recipe_names()


def use_devices(devices: str | None) -> None:
    """Have the backend see one GPU or none; None leaves it what there is.

    Raises:
        InputError: It is neither, or a backend has looked for devices already.
    """
    if devices is None:
        return
    if devices != "cpu" and not devices.isdecimal():
        raise InputError(
            "`--devices` must be cpu or the number of one GPU, such as 0: a run takes "
            f"one. Received: {devices!r:.60}."
        )
    if started := {"jax", "tensorflow"} & sys.modules.keys():
        raise InputError(
            f"Devices are chosen before a backend starts. Received: --devices {devices}"
            f" after {min(started)}. Start a new process."
        )
    if devices == "cpu":
        os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    else:  # numbered as nvidia-smi does
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        os.environ |= {"CUDA_VISIBLE_DEVICES": devices, **order}


def use_backend(backend: str | None) -> None:
    """Have Keras take a backend, for this process; None leaves it what it is.

    Raises:
        InputError: It is none of ours, or Keras has another already.
    """
    if backend is None:
        return
    one_of(BACKENDS, backend=backend)
    os.environ["KERAS_BACKEND"] = backend
    import keras

    if keras.backend.backend() != backend:
        raise InputError(
            "Keras takes one backend a process, the first that it is given. Received: "
            f"--backend {backend}, after {keras.backend.backend()}. Start a new "
            "process."
        )


def overrides(texts: list[str] | None) -> dict[str, Any]:
    """Return what `--set` gives, by dotted key."""
    from keras_msd.recipes.loading import parse_override

    return dict(map(parse_override, texts or []))


def codes(text: str) -> list[str]:
    """Split language codes at commas."""
    return [code.strip() for code in text.split(",") if code.strip()]
