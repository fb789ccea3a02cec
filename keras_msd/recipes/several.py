"""Run several recipes, one after the other."""

import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_msd.checks import InputError, a_list, utf8
from keras_msd.io.files import remove, write_json
from keras_msd.recipes.listing import with_scale
from keras_msd.recipes.runner import run
from keras_msd.report.reports import write_report_of_all

RESULTS, ERRORS = "results.json", "errors"


def run_all(
    names: Iterable[str | Path] | None = None,
    scale: str | None = "smoke",
    out_dir: str | Path | None = None,
    data_dir: str | Path | Sequence[str | Path] | None = None,
    store_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run several recipes; one that fails does not stop the others.

    Steps that recipes have in common are done once, see `run(share_steps=True)`. Given
    again with the same folders it resumes where it was stopped.

    Args:
        names: Names or paths, in a list; by default every recipe that has the scale.
        scale: As for `run`.
        out_dir: Parent of the runs' folders, by default `runs/all/<scale>`; gets
            `results.json` and `report.html`: what each run came to.
        data_dir: As for `run`.
        store_dir: As for `run`.
        overrides: As for `run`, for all recipes.

    Returns:
        What `run` returns for each recipe, or `recipe`, `scale`, `folder` and `error`
        for one that failed; where it failed stands in `errors/<recipe>.txt`.

    Raises:
        InputError: `names` is no list of texts, or `out_dir` is itself a run.

    Example:
        >>> results = msd.recipes.run_all(["xkd_labb"], out_dir="runs")
        >>> print(results[0]["error"])
        InputError: There is no recipe `xkd_labb`. Did you mean `xkd_lab`? ...
    """
    a_list(names=names)
    wanted = with_scale(scale) if names is None else list(names)
    for name in wanted:
        utf8(str(name), "`names`")
    out = Path(out_dir or Path("runs", "all", scale or "default"))
    if (out / "recipe.toml").is_file():
        raise InputError(
            "`out_dir` must be the parent of runs. Received: "
            f"`{out}`, which is a run itself. Give another folder."
        )
    results = []
    for name in wanted:
        title = Path(name).name.removesuffix(".toml")
        where, trace = out / title, out / ERRORS / f"{title}.txt"
        options = scale, data_dir, store_dir, overrides
        try:
            result = run(name, where, *options, share_steps=True)
            remove(trace)
        except Exception as error:  # whatever it is, the other recipes are run
            cause = f"{type(error).__name__}: {error}"
            result = {"recipe": title, "scale": scale or "default", "error": cause}
            result["folder"] = str(where)
            trace.parent.mkdir(parents=True, exist_ok=True)
            trace.write_text(traceback.format_exc(), encoding="utf-8")
        results.append(result)
    write_json(out / RESULTS, results)
    write_report_of_all(out)
    return results
