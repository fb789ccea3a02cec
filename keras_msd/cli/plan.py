"""The command `keras-msd plan`: what a recipe would need on given devices."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_msd.checks import InputError
from keras_msd.cli import output
from keras_msd.cli.given import Data, Scale, Set, overrides, recipe_names, use_backend
from keras_msd.cli.output import Json

EXAMPLE = (
    "Example: keras-msd plan lealla_small --scale paper --devices 8xA100 --pairs 50M"
)
COUNT = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def plan(
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="A recipe's name or a .toml file.", autocompletion=recipe_names
        ),
    ] = None,
    devices: Annotated[
        str, typer.Option(help="Such as 8xA100; cpu is this machine.")
    ] = "cpu",
    pairs: Annotated[
        str | None, typer.Option(help="How many there are, such as 50M.")
    ] = None,
    scale: Scale = None,
    data: Data = None,
    tokens: Annotated[
        float | None, typer.Option(help="Tokens of a sentence, without --data.")
    ] = None,
    set_: Set = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16: what stages compute in.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="tensorflow or jax: what Keras computes with.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine first.")
    ] = False,
    constants: Annotated[
        Path | None, typer.Option(help="File of what was measured.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what a recipe needs: memory, updates, FLOPs, hours, bytes on disk.

    Constants are measured with --calibrate, once for a machine.
    """
    if recipe is None and not calibrate:
        raise InputError(
            "There is nothing to plan. Received: neither a recipe nor --calibrate. "
            "Give a recipe's name; keras-msd list has them."
        )
    use_backend(backend)
    if calibrate:
        from keras_msd.plan import calibrate as measure
        from keras_msd.plan.devices import parse_devices

        _, device = parse_devices(devices)
        known = measure(constants, device, precision or "float32")
        if recipe is None:
            from dataclasses import asdict

            output.show(asdict(known), json, calibration_text)
            return
    from keras_msd.plan import plan_recipe

    changes = overrides(set_) | output.given(precision=precision)
    count = None if pairs is None else parse_count(pairs)
    result = plan_recipe(
        recipe or "", devices, count, scale, data, changes, tokens, constants
    )
    output.show(result, json, plan_text)


def parse_count(text: str) -> float:
    """Return a number such as 50M, 300k or 1200.

    Raises:
        InputError: It is something else.
    """
    match = COUNT.fullmatch(text.replace(",", ""))
    if match is None:
        raise InputError(
            "`--pairs` must be a number, with k, M or G behind it for thousands, "
            f"millions or 10^9. Received: {text!r:.40}. Write for example: 50M"
        )
    return float(match[1]) * FACTORS[match[2].lower()]


def calibration_text(known: dict[str, Any]) -> Iterator[str]:
    """Yield what was measured."""
    for name, costs in known["costs"].items():
        yield f"{name}: products of matrices {costs['peak'] / 1e9:.1f} GFLOP/s"
        for what in ("training", "encoding"):
            shares = ", ".join(
                f"{100 * share:.0f} % at width {width}"
                for width, share in costs[what].items()
            )
            yield f"  {what}: {shares}"
        yield (
            f"  an update: {1e9 * costs['optimizer_s']:.2f} ns a parameter, "
            f"{1e9 * costs['table_s']:.2f} ns a number of a token's row, "
            f"{1e3 * costs['update_s']:.1f} ms beside"
        )
        yield (
            f"  memory: {costs['activations']:.2f} times the formula's activations, "
            f"{size_text(costs['process_bytes'])} beside"
        )
    texts = known["texts"]
    words = {
        "pairs cleaned": "clean_s",
        "tokens made": "tokenise_s",
        "vectors kept": "store_s",
        "pairs read": "read_s",
    }
    rates = (f"{what} {1 / texts[key]:,.0f}" for what, key in words.items())
    yield f"a second: {', '.join(rates)}"


def plan_text(plan: dict[str, Any]) -> Iterator[Any]:
    """Yield a plan: stages, guides, disk, the whole, and what it rests on."""
    yield (
        f"{plan['recipe']} at scale {plan['scale']}, {plan['pairs']:,} pairs, on "
        f"{plan['device_count']} x {plan['devices']} with "
        f"{size_text(plan['device_memory_bytes'])}, {plan['precision']}"
    )
    sizes = (f"{name} {count:,}" for name, count in plan["parameters"].items())
    yield f"Parameters: {', '.join(sizes)}"
    heads = "stage", "updates", "pairs", "tokens", "FLOPs", "time", "a device", "fits"
    yield output.table(
        heads,
        (
            [
                stage["step"],
                f"{stage['updates']:,}",
                f"{stage['batch_size']:,}",
                f"{stage['tokens']:,}",
                f"{stage['flops']:.2g}",
                time_text(stage["seconds"]),
                size_text(stage["memory_bytes"]),
                "yes" if stage["fits"] else "no",
            ]
            for stage in plan["stages"]
        ),
    )
    for stage in plan["stages"]:
        parts = (f"{part} {size_text(it)}" for part, it in stage["memory"].items())
        yield f"{stage['step']}, a device: {', '.join(parts)}"
        if stage["change"]:
            yield f"{stage['step']} does not fit. Change one: " + "; or ".join(
                stage["change"]
            )
    for guide in plan["guides"]:
        yield (
            f"Vectors of the {guide['guide']}: {guide['sentences']:,} of "
            f"{guide['dim']}, {time_text(guide['seconds'])}"
        )
    spent = (f"{what} {time_text(it)}" for what, it in plan["texts"].items())
    yield f"Texts: {', '.join(spent)}"
    stores = (f"{name} {size_text(it)}" for name, it in plan["stores"].items())
    yield f"On disk: {', '.join(stores)}"
    host, total = plan["host"], plan["total"]
    if host["closed_form_bytes"]:
        yield (
            f"The closed form holds {size_text(host['closed_form_bytes'])} on the "
            f"first machine; this one has {size_text(host['memory_bytes'])}"
        )
    yield (
        f"In all: {total['flops']:.3g} FLOPs, {total['hours']:.2f} hours, "
        f"{size_text(total['bytes'])} on disk"
    )
    yield from (f"Assumed: {note}" for note in plan["assumed"])
    yield f"Left out: {', '.join(plan['left_out'])}"


def size_text(count: float) -> str:
    """Return bytes with three digits, such as 1.25 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def time_text(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
