"""What a recipe would need on given devices, from constants measured before."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_msd.checks import InputError, at_least
from keras_msd.models.config import EncoderConfig
from keras_msd.plan.constants import (
    COMMAND,
    Calibration,
    Costs,
    Texts,
    assumed,
    calibration_file,
    costs_name,
    read_calibration,
)
from keras_msd.plan.corpus import (
    Corpus,
    assumed_corpus,
    padded_to_multiple,
    sampled_corpus,
)
from keras_msd.plan.devices import (
    CPU,
    DEVICES,
    NETWORK_GB_S,
    PER_HOST,
    own_memory,
    parse_devices,
)
from keras_msd.plan.fitting import ROOM, changes
from keras_msd.plan.memory import (
    FLOAT,
    SLOTS,
    Batch,
    parameters,
    stage_memory,
    trained_parameters,
)
from keras_msd.plan.operations import TRAINING, step_operations
from keras_msd.plan.shapes import Shapes, recipe_shapes
from keras_msd.plan.stores import store_bytes, text_bytes, token_bytes
from keras_msd.plan.works import Work, goal_widths, recipe_works, shared_tables
from keras_msd.recipes.runs.updates import FullBatches, fits_table, updates
from keras_msd.recipes.schema.loading import load_recipe
from keras_msd.recipes.schema.recipe import Recipe
from keras_msd.recipes.schema.settings import PairStageSettings
from keras_msd.recipes.stages import kinds
from keras_msd.stages.checkpoint import KEPT

NOT_PLANNED = "training a vocabulary, closed forms, scores, exports"


class Machines(NamedTuple):
    """What a run would be given.

    Attributes:
        name: Of the devices.
        number: How many.
        memory: Bytes of each.
        link: Bytes a second between them.
        precision: What stages compute in.
        costs: What computing costs on one.
        texts: What texts cost on the machines that have them.
    """

    name: str
    number: int
    memory: float
    link: float
    precision: str
    costs: Costs
    texts: Texts


def plan_recipe(
    name_or_path: str | Path,
    devices: str = CPU,
    pairs: float | None = None,
    scale: str | None = None,
    data_dir: str | Path | Sequence[str | Path] | None = None,
    overrides: Mapping[str, Any] | None = None,
    tokens: float | None = None,
    calibration: str | Path | Calibration | None = None,
) -> dict[str, Any]:
    """Return what a recipe would need on given devices.

    Nothing is trained. What is measured are the constants of `calibrate`; for devices
    that were not measured published figures stand, with a share of them that is
    assumed, and the plan says so. With data the first pairs of each file are looked at,
    and a vocabulary is trained on them.

    Args:
        name_or_path: A recipe's name, or the path of a TOML file.
        devices: Such as "8xA100", of `DEVICES`; "cpu" is this machine.
        pairs: How many there are after cleaning; by default what the data or the
            recipe's limits say.
        scale: As for `recipes.run`.
        data_dir: As for `recipes.run`; without it lengths of sentences are assumed.
        overrides: As for `recipes.run`.
        tokens: Tokens of a sentence, on average, where there are no data.
        calibration: What `calibrate` returned, or its file; by default the one in the
            folder of the stores.

    Returns:
        `stages`, each with `updates`, `flops`, `seconds`, `memory` of a device by part
        and in all (`memory_bytes`), `fits` and what to `change` where it does not;
        `guides`, whose vectors are computed before; `stores`, bytes on disk by kind;
        `texts`, seconds to read and to tokenise; `host`; `total`: `flops`, `hours`,
        `bytes`; and in words what is `assumed` and `left_out`. Bytes and operations are
        numbers of one, operations those of all devices.

    Raises:
        InputError: The recipe, the data or the devices are not as they must be, nothing
            says how many pairs there are, or nothing was measured on this machine.

    Example:
        >>> texts = {"clean_s": 1e-5, "tokenise_s": 1e-6, "store_s": 1e-5, "read_s": 0}
        >>> known = msd.plan.Calibration.from_dict({"texts": texts, "costs": {}})
        >>> plan = msd.plan.plan_recipe(
        ...     "lealla_small", "8xA100", pairs=50e6, scale="paper", calibration=known
        ... )
        >>> [(it["step"], it["updates"], it["fits"]) for it in plan["stages"]]
        [('teach_thin_deep', 100000, True)]
        >>> plan["assumed"][0]
        'A100 was not measured: ...'
    """
    at_least(1, pairs=pairs)
    recipe = load_recipe(name_or_path, scale, overrides)
    known = calibration
    if not isinstance(known, Calibration):
        known = read_calibration(Path(known or calibration_file()))
    machines, notes = _machines(recipe, devices, known)
    folders = [data_dir] if isinstance(data_dir, str | Path) else data_dir or ()
    if folders or recipe.data.kind == "made":
        corpus = sampled_corpus(recipe, [Path(it) for it in folders], pairs)
    else:
        corpus = assumed_corpus(recipe, pairs, tokens)
    shapes = recipe_shapes(recipe)
    works = list(recipe_works(recipe, shapes))
    planned = [it for it in works if isinstance(it.settings, PairStageSettings)]
    stages = [_stage(it, recipe, shapes, corpus, machines) for it in planned]
    guides = [*_guides(recipe, shapes, corpus, machines, planned)]
    spent = _text_seconds(corpus, machines.texts, planned)
    stores = _stores(recipe, shapes, corpus, planned, guides)
    seconds = sum(it["seconds"] for it in (*stages, *guides)) + sum(spent.values())
    absent = [it.step for it in works if it not in planned]
    known_models = {"teacher": shapes.teacher, "assistant": shapes.assistant}
    models = {name: it for name, it in known_models.items() if it} | shapes.students
    return {
        "recipe": recipe.recipe.name,
        "scale": recipe.scale,
        "pairs": round(corpus.pairs),
        "devices": machines.name,
        "device_count": machines.number,
        "device_memory_bytes": round(machines.memory),
        "backend": keras.backend.backend(),
        "precision": machines.precision,
        "parameters": {name: parameters(it) for name, it in models.items()},
        "stages": stages,
        "guides": guides,
        "texts": spent,
        "stores": stores,
        "host": _host(recipe, shapes),
        "total": {
            "flops": sum(it["flops"] for it in (*stages, *guides)),
            "hours": seconds / 3600,
            "bytes": sum(stores.values()),
        },
        "assumed": [*notes, *corpus.notes],
        "left_out": [*absent, NOT_PLANNED],
    }


def _machines(
    recipe: Recipe, devices: str, known: Calibration
) -> tuple[Machines, list[str]]:
    """Return what the devices are, and what of them is assumed."""
    count, name = parse_devices(devices)
    precision: str = recipe.precision
    notes: list[str] = []
    if precision == "auto":
        precision = "float32" if name == CPU else "bfloat16"
        notes.append(f'precision "auto" becomes {precision}')
    backend = keras.backend.backend()
    costs = known.costs.get(costs_name(name, backend, precision))
    if name == CPU:
        if costs is None:
            raise InputError(
                f"Nothing was measured on this machine with {backend} in {precision}. "
                f"Received: {', '.join(known.costs) or 'no measurement'}. Run: "
                f"{COMMAND} --precision {precision} --backend {backend}"
            )
        memory, link = float(own_memory()), 1e9 * NETWORK_GB_S
        return Machines(name, count, memory, link, precision, costs, known.texts), notes
    device = DEVICES[name]
    if costs is None:
        costs = assumed(device, precision)
        width = max(costs.training)
        notes.insert(
            0,
            f"{name} was not measured: of its published "
            f"{device.peak(precision) / 1e12:g} TFLOP/s ({device.source}) "
            f"{100 * costs.rate(width) / costs.peak:.0f} % in layers of width {width}, "
            f"in narrower ones in proportion less",
        )
    memory, link = 1e9 * device.memory_gb, 1e9 * device.link_gb_s
    return Machines(name, count, memory, link, precision, costs, known.texts), notes


def _stage(
    work: Work, recipe: Recipe, shapes: Shapes, corpus: Corpus, machines: Machines
) -> dict[str, Any]:
    """Return what one stage needs."""
    settings, config, costs = work.settings, work.config, machines.costs
    batches = corpus.batches(recipe, settings)
    rows = float(np.mean([it.rows for it in batches]))
    chunk = getattr(settings, "chunk_size", None)
    operations = float(np.mean([_operations(work, it) for it in batches]))
    operations *= (TRAINING + 1) / TRAINING if chunk else 1
    tokens = float(np.mean([it.tokens for it in batches]))
    comparisons = len(work.kind.compared(settings))
    goals = goal_widths(work, recipe, shapes)
    compared = 2 * TRAINING * comparisons * rows**2 * config.dim
    trained = trained_parameters(config, settings.frozen, work.whole)
    count = machines.number
    spent = {
        "compute": operations / count / costs.rate(config.hidden_dim)
        + compared / costs.rate(max(costs.training)),
        "rows": tokens / count * _moved(config) * costs.table_s,
        "optimizer": trained * costs.optimizer_s + costs.update_s,
        "exchange": 2 * (count - 1) / count * FLOAT * trained / machines.link,
    }
    hosts = math.ceil(count / PER_HOST)
    each = max(sum(spent.values()), rows * machines.texts.read_s / hosts)
    steps = _updates(work, corpus, rows)
    longest = max(batches, key=lambda it: it.source + it.target)
    teacher = parameters(shapes.teacher) if shapes.teacher else 0
    loaded = 0
    if work.imitates and shapes.assistant:
        loaded = parameters(shapes.assistant)

    def memory(part: float, whole: float, devices: int) -> dict[str, float]:
        parts = stage_memory(
            config,
            Batch(part, longest.source, longest.target),
            whole,
            goals,
            comparisons,
            trained=trained,
            guides=teacher + loaded,
            devices=devices,
            precision=machines.precision,
            factor=costs.activations,
            working=costs.working,
            whole=work.whole,
        )
        return parts | {"process": costs.process_bytes}

    own = rows / count
    held = memory(min(own, chunk or own), rows, count)
    room = ROOM * machines.memory
    fits = sum(held.values()) <= room
    change: list[str] = []
    if settings.batch_size % count and not settings.token_budget:
        whole = -(-settings.batch_size // count) * count
        change.append(
            f"stages.{work.kind.name}.batch_size = {whole}, a multiple of {count}"
        )
    if count > 1 and settings.token_budget:
        change.append(f"stages.{work.kind.name}.token_budget left out")
    if not fits:

        def total(part: float, whole: float, devices: int) -> float:
            return sum(memory(part, whole, devices).values())

        change += changes(work.kind.name, settings, total, room, rows, count)
    return {
        "step": work.step,
        "updates": steps,
        "batch_size": round(rows),
        "tokens": round(tokens),
        "flops": steps * (operations + count * compared),
        "seconds": steps * each,
        "memory": {name: round(it) for name, it in held.items()},
        "memory_bytes": round(sum(held.values())),
        "fits": fits and not change,
        "change": change,
    }


def _operations(work: Work, batch: Batch) -> float:
    lengths = np.repeat([batch.source, batch.target], int(batch.rows))
    return step_operations(work.config, lengths, work.whole)


def _moved(config: EncoderConfig) -> int:
    """Return the numbers of a token that the embedding block gathers and makes."""
    return config.hidden_dim + (config.bottleneck_dim or 0)


def _updates(work: Work, corpus: Corpus, rows: float) -> int:
    settings = work.settings
    count = round(corpus.limited(settings.pairs_per_language))
    size = int(rows) if settings.token_budget else settings.batch_size
    return updates(work.kind.name, settings, FullBatches(count, size).steps)


def _pairs_read(work: Work, corpus: Corpus) -> float:
    """Return how many pairs of a stage its updates read."""
    rows = work.settings.batch_size
    pairs = corpus.limited(work.settings.pairs_per_language)
    updates_done = _updates(work, corpus, rows)
    return pairs if updates_done >= pairs // rows else rows * updates_done


def _guides(
    recipe: Recipe,
    shapes: Shapes,
    corpus: Corpus,
    machines: Machines,
    works: Sequence[Work],
) -> Iterator[dict[str, Any]]:
    """Yield what vectors of guides are computed before the stages, by one device."""
    both = recipe.teacher.multilingual
    yield _guide(
        "teacher",
        shapes.teacher,
        shapes.teacher_dim,
        corpus.pairs * corpus.distinct[both],
        corpus.teacher_lengths if both else corpus.teacher_lengths[:, 0],
        machines,
    )
    for name, source in (
        ("assistant", kinds.assistant_guides),
        ("embedding", kinds.embedding_guides),
    ):
        of = [work for work in works if work.kind.guides is source]
        if of and shapes.assistant:
            pairs = max(_pairs_read(it, corpus) for it in of)
            (dim, *_) = goal_widths(of[0], recipe, shapes).values()
            sentences = pairs * corpus.distinct[1]
            given = name, shapes.assistant, dim, sentences, corpus.lengths, machines
            yield _guide(*given, whole=name == "assistant")


def _guide(
    name: str,
    config: EncoderConfig | None,
    dim: int,
    sentences: float,
    lengths: np.ndarray,
    machines: Machines,
    whole: bool = True,
) -> dict[str, Any]:
    """Return what the vectors of one guide need."""
    padded = padded_to_multiple(lengths).ravel()
    operations = rate = 0.0
    if config is not None:
        each = step_operations(config, padded, whole) / TRAINING / len(padded)
        operations = sentences * each
        rate = operations / machines.costs.rate(config.hidden_dim, training=False)
    texts = machines.texts
    kept = sentences * (lengths.mean() * texts.tokenise_s + texts.store_s)
    return {
        "guide": name,
        "sentences": round(sentences),
        "dim": dim,
        "flops": operations,
        "seconds": float(rate + kept),
        "bytes": round(store_bytes(sentences, dim)),
    }


def _text_seconds(
    corpus: Corpus, texts: Texts, works: Sequence[Work]
) -> dict[str, float]:
    """Return seconds to clean the pairs and to tokenise them, once for each table."""
    cleaned, tokenised = corpus.pairs, corpus.pairs
    for corpora, limit in shared_tables(works):
        cleaned += corpus.pairs if corpora or limit else 0
        tokenised += corpus.limited(limit)
    each = float(corpus.lengths.sum(axis=1).mean())
    return {
        "read": cleaned * texts.clean_s,
        "tokenise": tokenised * each * texts.tokenise_s,
    }


def _stores(
    recipe: Recipe,
    shapes: Shapes,
    corpus: Corpus,
    works: Sequence[Work],
    guides: Sequence[dict[str, Any]],
) -> dict[str, int]:
    """Return bytes on disk by kind."""
    texts = text_bytes(corpus.pairs, *corpus.sizes)
    tokens = 0.0
    each = float(corpus.lengths.sum(axis=1).mean())
    for (corpora, limit), of in shared_tables(works).items():
        pairs = corpus.limited(limit)
        texts += text_bytes(pairs, *corpus.sizes) if corpora or limit else 0
        sides = len({goal for it in of for goal in goal_widths(it, recipe, shapes)})
        tokens += token_bytes(pairs, each, shapes.vocabulary_size, sides)
    own = [shapes.assistant] if shapes.assistant else []
    models = sum(parameters(it) for it in (*own, *shapes.students.values()))
    models += sum(parameters(work.config) for work in works)
    largest = max((parameters(work.config) for work in works), default=0)
    stores = {
        "texts": texts,
        "tokens": tokens,
        "guides": sum(it["bytes"] for it in guides),
        "encoders": FLOAT * models,
        "checkpoints": KEPT * (1 + SLOTS) * FLOAT * largest,
    }
    return {name: round(it) for name, it in stores.items()}


def _host(recipe: Recipe, shapes: Shapes) -> dict[str, int]:
    """Return what the first machine holds beside the stages, in bytes."""
    table = FLOAT * shapes.vocabulary_size**2 if fits_table(recipe) else 0
    return {"closed_form_bytes": table, "memory_bytes": own_memory()}
