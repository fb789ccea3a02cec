"""Runs the recipe of a pack under JAX and says how much of the device it uses.

Called by gpu.sh in the folder of a pack. Sentences a second are those of the updates
that `--profile` measures after a stage, with the wait for data and without compiling;
it waits for the end of each, which `fit` does not. The operations of an update, three
times those of the forward pass without padding, are held against the device's peak.
"""

import argparse
import json
import os
import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from operations import best, jax_product, step_operations

HERE = Path(__file__).resolve().parent
SIDES = (2048, 4096, 8192)
LONGEST_S = 2.0  # of a product of matrices that is still tried
TEXTS = "source", "target"
PARTS = "data_wait", "update", "forward_and_backward", "optimizer"
SCORES = ("cross_lingual", "monolingual", "retrieval", "parameters")


def measured_peak(precision: str) -> tuple[float, str]:
    """Return the TFLOP/s of the best product of matrices, and which it is."""
    found: dict[int, float] = {}
    for side in SIDES:
        if found and 2 * side**3 / max(found.values()) / 1e9 > LONGEST_S:
            break
        found[side] = best(jax_product(side, precision), side, 5)
    side = max(found, key=lambda side: found[side])
    return found[side] / 1000, f"measured, {side} x {side} in {precision}"


def measured_stages(run: Any, peak: float) -> dict[str, dict[str, float]]:
    """Return what each stage of a finished, profiled run made of the device.

    Args:
        run: The `Run`.
        peak: TFLOP/s of the device.

    Returns:
        By step: `seconds` of the whole step; of the measured updates
        `sentences_per_second`, `milliseconds`, `tokens` and `tflops`, each of an
        update, and `utilisation`, a share of the peak.
    """
    from keras_msd.files import read_json
    from keras_msd.recipes.stage_data import stage_data
    from keras_msd.recipes.stages import STAGES, Work
    from keras_msd.recipes.steps import steps_of
    from keras_msd.recipes.train import fit

    stages = {}
    for step in steps_of(run):
        if step.make is not fit:
            continue
        given = {**step.settings, **step.inputs}
        spent = read_json(run.folder.step(step.name) / "profile.json")
        encoder, updates = run.encoder(step.name), spent["updates"]
        parents = (given[name] for name in ("assistant", "reduction"))
        name, settings = given["name"], given["settings"]
        guides = STAGES[name].guides(Work(run, name, settings, encoder, *parents))
        data = stage_data(run, name, settings)
        batches = data.batches(encoder, guides, updates, updates)
        alone = given["name"] == "align_embedding"  # of all stages: no body is run
        tokens = operations = sentences = 0.0
        for x, _ in islice(batches, updates):
            sides = (np.asarray(x[f"{side}_padding_mask"]) for side in TEXTS)
            lengths = np.concatenate([mask.sum(1) for mask in sides])
            tokens += lengths.sum()
            operations += step_operations(encoder.config, lengths, not alone)
            sentences += len(lengths)
        seconds = sum(spent.get(part, 0.0) for part in PARTS)
        stages[step.name] = {
            "seconds": round(run.folder.record(step.name)["seconds"], 1),
            "sentences_per_second": round(sentences / seconds, 1),
            "milliseconds": round(1000 * seconds / updates, 2),
            "tokens": round(tokens / updates, 1),
            "tflops": float(f"{operations / seconds / 1e12:.4g}"),
            "utilisation": float(f"{operations / seconds / 1e12 / peak:.4g}"),
        }
    return stages


def main() -> None:
    """Run, measure, write the result, print it."""
    about = json.loads((HERE / "pack.json").read_text(encoding="utf-8"))
    running = "{}.{}".format(*sys.version_info)
    if running != about["python"]:
        raise SystemExit(
            f"The pack is for Python {about['python']}. Received: {running}. Give "
            f"--python, or pack with --python-version {running}."
        )
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default=about["recipe"])
    parser.add_argument("--scale")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=HERE / "run")
    parser.add_argument("--peak-tflops", type=float, help="else measured")
    given = parser.parse_args()
    scale = given.scale
    if given.recipe == about["recipe"] and scale in (None, about["scale"]):
        scale, given.set = about["scale"], about["set"] + given.set

    os.environ["KERAS_BACKEND"] = "jax"
    if find_spec("matplotlib") is None:  # 10 MiB; the report is then without pictures
        names = "colours_of", "loss_curves", "sizes", "stage_scores"
        empty = SimpleNamespace(**dict.fromkeys(names, lambda *_: ""))
        sys.modules["keras_msd.report.charts"] = empty  # type: ignore[assignment]
    import jax

    from keras_msd.checks import InputError
    from keras_msd.files import write_json
    from keras_msd.recipes import load_recipe, run
    from keras_msd.recipes.cache import RunFolder
    from keras_msd.recipes.loading import parse_override
    from keras_msd.recipes.resources import Run

    changes = dict(map(parse_override, given.set))
    data, store = HERE / "data", HERE / "store"
    try:
        options: dict[str, Any] = {"overrides": changes, "profile": True}
        done = run(given.recipe, given.out, scale, data, store, **options)
    except InputError as error:
        raise SystemExit(f"Error: {error}") from error
    recipe = load_recipe(given.recipe, scale, changes)
    work = Run(recipe, RunFolder(given.out, recipe), [data], store)
    peak, origin = given.peak_tflops, "given"
    if peak is None:
        peak, origin = measured_peak(work.precision)
    result = {
        "recipe": given.recipe,
        "scale": recipe.scale,
        "set": given.set,
        "share": about["share"],
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "precision": work.precision,
        "peak_tflops": round(peak, 4),
        "peak": origin,
        "seconds": done["timings"]["seconds"],
        "stages": measured_stages(work, peak),
        "scores": {
            row["name"]: {key: row[key] for key in SCORES if key in row}
            for row in done["rows"]
        },
    }
    write_json(given.out / "result.json", result)
    print(json.dumps(result, sort_keys=True))


if __name__ == "__main__":
    main()
