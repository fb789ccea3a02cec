"""A run's settings in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_msd.data.pair import ENGLISH, language_pair
from keras_msd.evaluate.rows import asked_sets
from keras_msd.files import read_toml
from keras_msd.recipes.stages.kinds import SQUARED, STAGE_KINDS
from keras_msd.report.score_rows import in_order, plain

WORDS = read_toml(Path(__file__).with_name("words.toml"))
OF_RECURRENT = ("unit_layers", "layers", "guide")  # mean nothing for thin, deep ones
OF_SETS = ("sets", "languages", "splits", "sts", "split", "retrieval", "un", "bucc")
OF_BRANCH = ("body_weight", "branch_scale")

# Sections that are said in a part of their own, or elsewhere on the page.
SAID = ("recipe", "scale", "budget", "teacher", "data", "tokenizer", "assistant",
        "student", "stages", "starts", "evaluate")  # fmt: skip
Section = dict[str, Any]


def settings_in_words(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    """Return `(part, sentence)` for each part of a recipe that says something.

    What a run does not use is left out, such as the optimizer of a skipped stage. All
    else is said: the well-known settings in phrases, any other by its key.
    """
    students, stages = students_of(recipe), recipe.get("stages", {})
    ran = stages_that_run(recipe)
    left_out = ", ".join(plain(name) for name in stages if name not in ran)
    seed = recipe.get("recipe", {}).get("seed")
    parts = [
        ("Teacher", _join("", recipe.get("teacher", {}), WORDS["teacher"])),
        ("Data", _data(recipe.get("data", {}))),
        ("Tokenizer", _tokenizer(recipe.get("tokenizer", {}))),
        ("Assistant", _assistant(recipe.get("assistant", {}))),
        *((f"Student {name}".strip(), _student(it)) for name, it in students.items()),
        ("Closed forms", _starts(recipe)),
        *((f"Stage {plain(name)}", _stage(name, it)) for name, it in ran.items()),
        ("Stages not run", left_out and f"{left_out}."),
        ("Losses", _losses(ran)),
        ("Scores", _scores(recipe)),
        ("Seed", "" if seed is None else f"{seed}, of all draws but that of pairs."),
        *(
            (plain(name).capitalize(), _join("", {name: section}, {}))
            for name, section in _without(recipe, *SAID).items()
        ),
    ]
    return [(part, text) for part, text in parts if text]


def value_in_words(value: Any) -> str:
    """Return a value of a recipe without the signs of TOML."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        said = (f"{plain(key)} {value_in_words(part)}" for key, part in value.items())
        return ", ".join(said)
    return f"{value:,}" if isinstance(value, int) else str(value)


def stages_that_run(recipe: Section) -> dict[str, Section]:
    """Return the settings of the stages that some model of a recipe goes through."""
    students, stages = students_of(recipe), recipe.get("stages", {})
    return {key: stages[key] for key in stages if _runs(key, stages, students)}


def students_of(recipe: Section) -> dict[str, Section]:
    """Return the settings of each student, "" for the one without a name."""
    student = recipe.get("student", {})
    if student.get("kind") == "none":
        return {}
    shared, variants = _without(student, "variants"), student.get("variants", {})
    return {"": shared} | {name: shared | variant for name, variant in variants.items()}


def _runs(name: str, stages: Section, students: dict[str, Section]) -> bool:
    if name == "reduce_teacher" and not stages[name].get("widths"):
        thin_deep = _each("teach_thin_deep", stages, students)
        if "synchronized" not in [stage.get("feature") for stage in thin_deep]:
            return False
    return not all(stage.get("skip") for stage in _each(name, stages, students))


def _each(name: str, stages: Section, students: dict[str, Section]) -> list[Section]:
    """Return the settings of a stage for every student."""
    shared = stages.get(name, {})
    # Of a stage that was registered when the run was made, nothing may be known now.
    kind = STAGE_KINDS[name] if name in STAGE_KINDS else None
    imitates = kind and kind.needs_assistant and kind.trains == "student"
    if not students and not imitates:
        return [shared]
    changes = [student.get("stages", {}) for student in students.values()]
    return [shared | change.get(name, {}) for change in changes]


def _data(data: Section) -> str:
    if not data:
        return ""
    kind: str = data.get("kind", "pairs")
    start = WORDS["corpora"].get(kind, kind)
    if corpora := data.get("corpora"):
        start += f" ({', '.join(corpora)})"
    codes = data.get("languages", [])
    others = [code for code in codes if language_pair(code)[0] != ENGLISH]
    if languages := [code for code in codes if code not in others]:
        start += f"; English with {_counted(languages)}"
    if others:
        start += f"; without English {', '.join(others)}"
    said = _without(data, "kind", "languages", "corpora")
    if data.get("temperature") == float("inf"):
        said["temperature"] = "infinity, all files equally often"
    if not data.get("sts_train_rows"):
        said.pop("sts_train_rows", None)
    return _join(start, said, WORDS["data"])


def _tokenizer(tokenizer: Section) -> str:
    source: str = tokenizer.get("source", "")
    said = _without(tokenizer, "source")
    return _join(WORDS["sources"].get(source, source), said, WORDS["tokenizer"])


def _assistant(assistant: Section) -> str:
    source, said = assistant.get("source", "new"), _without(assistant, "source")
    if assistant.get("start") == "body":
        start = f"a new body on the word table of {source}"
        return _join(start, _without(said, "start"), WORDS["encoder"])
    if source != "new":
        return "" if source == "none" else f"{source}."
    return _join("new" if assistant else "", said, WORDS["encoder"])


def _student(student: Section) -> str:
    kind: str = student.get("kind", "recurrent")
    said = _without(student, "kind", "stages")
    start = "" if kind == "recurrent" else kind
    if kind == "thin_deep":
        start = "a thin, deep encoder"
        said = _without(said, *OF_RECURRENT)
    elif kind == "recurrent" and said:
        start = _unit(said.pop("unit_layers", None), said.pop("repeats", None))
        if "bottleneck_dim" not in said:
            start += "; the assistant's whole word table"
    if changes := student.get("stages"):
        said["changes"] = ", ".join(
            f"{plain(stage)}: {value_in_words(change)}"
            for stage, change in changes.items()
        )
    return _join(start, said, WORDS["encoder"])


def _unit(layers: int | None, repeats: int | None) -> str:
    run = f"{repeats} times" if repeats else "until its depth is the assistant's"
    plural = "" if layers == 1 else "s"
    return f"a unit of {layers} layer{plural} of the assistant, run {run}"


def _starts(recipe: Section) -> str:
    said, assistant = dict(recipe.get("starts", {})), recipe.get("assistant", {})
    new = assistant.get("source", "new") == "new"
    begun = {student.get("start") for student in students_of(recipe).values()}
    branched = assistant.get("word_branch") if new else "svd" in begun
    fitted = new and (branched or assistant.get("start", "random") != "random")
    if not said.get("closed_form") and not fitted and "ridge" not in begun:
        said.pop("ridge", None)
    return _join("", said if branched else _without(said, *OF_BRANCH), WORDS["starts"])


def _stage(name: str, stage: Section) -> str:
    said = _without(stage, "dims")
    length = [f"{said.pop(key):,} {key}" for key in ("epochs", "steps") if key in said]
    start = " or ".join(length) + (", whichever ends first" if len(length) > 1 else "")
    if "warmup_steps" in said:
        said.pop("warmup", None)
    if "token_budget" in said:
        said.pop("batch_size", None)
    if name == "reduce_teacher" and not said.get("widths"):
        start = f"for students whose feature is synchronized; {start}"
    return _join(start, said, WORDS["stage"])


def _losses(stages: dict[str, Section]) -> str:
    known = [STAGE_KINDS[name] for name in stages if name in STAGE_KINDS]
    words = [text for kind in known for text in kind.loss_words.split("; ")]
    texts = dict.fromkeys(text for text in words if text)
    summed = [plain(name) for name, it in stages.items() if it.get("dims") == "sum"]
    but = f", but sums over the dimensions in {', '.join(summed)}" if summed else ""
    said = [f"{text}{but}" if text == SQUARED else text for text in texts]
    return "; ".join([*said, "computed in float32."]) if said else ""


def _scores(recipe: dict[str, Any]) -> str:
    sets = asked_sets(recipe)
    first = next((asked for asked in sets if asked.record.similarity), None)
    if first is None:
        return ""
    text = (
        f"cross-lingual: mean over languages of Spearman x100 between gold and the "
        f"cosine of an English sentence 1 with another language's sentence 2, on "
        f"{first.record.name} {first.split} ({', '.join(first.languages)}); "
        "monolingual: within each language"
    )
    for asked in sets:
        if asked is not first:
            split = "" if asked.split == asked.record.splits[0] else f" {asked.split}"
            every = "all languages of the data folder"
            languages = every if asked.every else _counted(asked.languages)
            text += f"; {asked.record.words}{split}, {languages}"
    return _join(text, _without(recipe["evaluate"], *OF_SETS), WORDS["evaluate"])


def _counted(languages: list[str]) -> str:
    plural = "" if len(languages) == 1 else "s"
    return f"{len(languages)} language{plural}: {', '.join(languages)}"


def _without(section: Section, *keys: str) -> Section:
    return {key: value for key, value in section.items() if key not in keys}


def _join(start: str, section: Section, phrases: Mapping[str, str]) -> str:
    said = [start] if start else []
    for key in in_order(section, phrases):
        # Not `in ([], False)`, because 0.0 equals False.
        if section[key] is not False and section[key] not in ([], {}):
            phrase = phrases.get(key, f"{plain(key)} {{}}")
            said.append(phrase.format(value_in_words(section[key])))
    return "; ".join(said) + "." if said else ""
