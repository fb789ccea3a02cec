"""A run's settings in words."""

from typing import Any

from keras_msd.report.phrases import ASSISTANT, DATA, EVALUATE, STAGE, STUDENT
from keras_msd.report.rows import plain

# Sections that are said below, in a part of their own or elsewhere on the page.
SAID = ("recipe", "scale", "budget", "teacher", "data", "tokenizer", "assistant",
        "student", "stages", "starts", "evaluate")  # fmt: skip
OF_RECURRENT = ("unit_layers", "layers")  # mean nothing for thin, deep ones
OF_BRANCH = ("body_weight", "branch_scale")
OF_STUDENTS = ("align_embedding", "teach_student", "contrastive_learning")


def settings_in_words(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    """Return `(part, sentence)` for each part of a recipe that says something.

    What a run does not use is left out, such as the optimizer of a skipped stage. All
    else is said: the well-known settings in phrases, any other by its key.
    """
    students, stages = _students(recipe), recipe.get("stages", {})
    ran = {name: own for name, own in stages.items() if _runs(name, stages, students)}
    left_out = ", ".join(plain(name) for name in stages if name not in ran)
    seed = recipe.get("recipe", {}).get("seed")
    parts = [
        ("Teacher", _teacher(recipe.get("teacher", {}))),
        ("Data", _data(recipe.get("data", {}))),
        ("Tokenizer", _tokenizer(recipe.get("tokenizer", {}))),
        ("Assistant", _assistant(recipe.get("assistant", {}))),
        *((f"Student {name}".strip(), _student(own)) for name, own in students.items()),
        ("Closed forms", _starts(recipe)),
        *((f"Stage {plain(name)}", _stage(name, own)) for name, own in ran.items()),
        ("Stages not run", left_out and f"{left_out}."),
        ("Losses", _losses(ran)),
        ("Scores", _scores(recipe.get("evaluate", {}))),
        ("Seed", "" if seed is None else f"{seed}, of all draws but that of pairs."),
    ]
    for name in [name for name in recipe if name not in SAID]:
        parts.append((plain(name).capitalize(), _join("", {name: recipe[name]})))
    return [(part, text) for part, text in parts if text]


def value_in_words(value: Any) -> str:
    """Return a value of a recipe without the signs of TOML."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        said = (f"{plain(key)} {value_in_words(one)}" for key, one in value.items())
        return ", ".join(said)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _students(recipe: dict[str, Any]) -> dict[str, dict[str, Any]]:
    own = dict(recipe.get("student", {}))
    variants = own.pop("variants", {})
    if own.get("kind") == "none":
        return {}
    return {"": own} | {name: own | variant for name, variant in variants.items()}


def _runs(name: str, stages: dict[str, Any], students: dict[str, Any]) -> bool:
    if name == "reduce_teacher" and not stages[name].get("widths"):
        apart = _each("teach_thin_deep", stages, students)
        if "synchronized" not in [one.get("feature") for one in apart]:
            return False
    return not all(one.get("skip") for one in _each(name, stages, students))


def _each(
    name: str, stages: dict[str, Any], students: dict[str, Any]
) -> list[dict[str, Any]]:
    own = stages.get(name, {})
    if not students and name not in OF_STUDENTS:
        return [own]
    return [own | one.get("stages", {}).get(name, {}) for one in students.values()]


def _teacher(own: dict[str, Any]) -> str:
    guide = "knows all languages, its vector of each side is the guide"
    return _join("", own, source="source {}", dim="width {}", multilingual=guide)


def _data(own: dict[str, Any]) -> str:
    if not own:
        return ""
    own = dict(own)
    languages, corpora = own.pop("languages", []), own.pop("corpora", [])
    kind = own.pop("kind", "pairs")
    start = {
        "made": "sentences that the project makes itself",
        "folder": "corpora of the data folder",
    }.get(kind, kind)
    if corpora:
        start += f" ({', '.join(corpora)})"
    if languages:
        start += f"; English with {_counted(languages)}"
    if own.get("temperature") == float("inf"):
        own["temperature"] = "infinity, all files equally often"
    if not own.get("sts_train_rows"):
        own.pop("sts_train_rows", None)
    return _join(start, own, **DATA)


def _tokenizer(own: dict[str, Any]) -> str:
    source = {
        "train": "trained on the pairs",
        "assistant": "the assistant's own",
        "teacher": "the teacher's own",
    }
    rest = {key: value for key, value in own.items() if key != "source"}
    kind = own.get("source", "")
    return _join(source.get(kind, kind), rest, vocabulary_size="{} pieces")


def _assistant(own: dict[str, Any]) -> str:
    source = own.get("source", "new")
    if source != "new":
        return "" if source == "none" else f"{source}."
    rest = {key: value for key, value in own.items() if key != "source"}
    return _join("new" if own else "", rest, **ASSISTANT)


def _student(own: dict[str, Any]) -> str:
    own = dict(own)
    kind = own.pop("kind", "recurrent")
    changes = [
        f"{plain(stage)}: {value_in_words(change)}"
        for stage, change in own.pop("stages", {}).items()
    ]
    if kind == "thin_deep":
        start = "a thin, deep encoder"
        own = {key: value for key, value in own.items() if key not in OF_RECURRENT}
    elif kind == "recurrent" and own:
        start = _unit(own.pop("unit_layers", None), own.pop("repeats", None))
        if "bottleneck_dim" not in own:
            start += "; the assistant's whole word table"
    else:
        start = "" if kind == "recurrent" else kind
    if changes:
        own["changes"] = ", ".join(changes)
    return _join(start, own, **STUDENT)


def _unit(layers: int | None, repeats: int | None) -> str:
    run = f"{repeats} times" if repeats else "until its depth is the assistant's"
    plural = "" if layers == 1 else "s"
    return f"a unit of {layers} layer{plural} of the assistant, run {run}"


def _starts(recipe: dict[str, Any]) -> str:
    own, assistant = dict(recipe.get("starts", {})), recipe.get("assistant", {})
    new = assistant.get("source", "new") == "new"
    begun = {one.get("start") for one in _students(recipe).values()}
    halved = "svd" in begun
    branched = assistant.get("word_branch") if new else halved
    fitted = new and (branched or assistant.get("start", "random") != "random")
    fitted = fitted or "ridge" in begun
    if not own.get("closed_form") and not fitted:
        own.pop("ridge", None)
    if not branched:
        own = {key: own[key] for key in own if key not in OF_BRANCH}
    return _join(
        "",
        own,
        closed_form="scored in rows of their own",
        ridge="ridge {}",
        body_weight="body of a grown assistant weighs {}",
        branch_scale="word branch weighs {} in a student's table",
    )


def _stage(name: str, own: dict[str, Any]) -> str:
    own = {key: value for key, value in own.items() if key != "dims"}
    length = [f"{own.pop(key):,} {key}" for key in ("epochs", "steps") if key in own]
    start = " or ".join(length) + (", whichever ends first" if len(length) > 1 else "")
    if "warmup_steps" in own:
        own.pop("warmup", None)
    if name == "reduce_teacher" and not own.get("widths"):
        start = f"for students whose feature is synchronized; {start}"
    return _join(start, own, **STAGE)


def _losses(stages: dict[str, Any]) -> str:
    summed = [plain(name) for name, own in stages.items() if own.get("dims") == "sum"]
    squared = "squared errors are means over the batch and over the dimensions"
    if summed:
        squared += f", but sums over the dimensions in {', '.join(summed)}"
    said = {
        squared: {*OF_STUDENTS, "teach_assistant", "teach_thin_deep"},
        "the contrastive term is a mean over the batch": {"contrastive_learning"},
        "AMS is a mean over the batch of the sum of both directions, the logit term a "
        "mean over all pairs of a batch": {"teach_thin_deep"},
        "cosine and gold score are compared by the mean of squares over the batch": {
            "regress_similarity"
        },
    }
    found = [text for text, names in said.items() if names & set(stages)]
    return "; ".join([*found, "computed in float32."]) if found else ""


def _scores(own: dict[str, Any]) -> str:
    if "sts" not in own:
        return ""
    own = dict(own)
    text = (
        f"cross-lingual: mean over languages of Spearman x100 between gold and the "
        f"cosine of an English sentence 1 with another language's sentence 2, on "
        f"{own.pop('sts')} {own.pop('split', '')}"
    )
    if languages := own.pop("languages", []):
        text += f" ({', '.join(languages)})"
    text += "; monolingual: within each language"
    if retrieval := own.pop("retrieval", []):
        text += f"; retrieval: precision at 1 x100, both ways, {_counted(retrieval)}"
    return _join(text, own, **EVALUATE)


def _counted(languages: list[str]) -> str:
    plural = "" if len(languages) == 1 else "s"
    return f"{len(languages)} language{plural}: {', '.join(languages)}"


def _join(first: str, own: dict[str, Any], /, **phrases: str) -> str:
    keys = [*phrases, *(key for key in own if key not in phrases)]
    found = [first] if first else []
    for key in keys:
        # Not `in ([], False)`, because 0.0 equals False.
        if key in own and own[key] is not False and own[key] not in ([], {}):
            phrase = phrases.get(key, f"{plain(key)} {{}}")
            found.append(phrase.format(value_in_words(own[key])))
    return "; ".join(found) + "." if found else ""
