"""A run's settings in words."""

from typing import Any

from keras_msd.report.rows import plain


def settings_in_words(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    """Return `(part, sentence)` for each part of a recipe that says something."""
    parts = [
        ("Teacher", _teacher(recipe.get("teacher", {}))),
        ("Data", _data(recipe.get("data", {}))),
        ("Tokenizer", _tokenizer(recipe.get("tokenizer", {}))),
        ("Assistant", _assistant(recipe.get("assistant", {}))),
        ("Student", _student(recipe.get("student", {}))),
    ]
    variants = recipe.get("student", {}).get("variants", {})
    for name, own in variants.items():
        shared = {k: v for k, v in recipe["student"].items() if k != "variants"}
        parts.append((f"Student {name}", _student(shared | own)))
    stages = recipe.get("stages", {})
    parts += [(f"Stage {plain(name)}", _stage(own)) for name, own in stages.items()]
    parts += [("Losses", _losses(stages)), ("Scores", _scores(recipe))]
    return [(part, text) for part, text in parts if text]


def _teacher(own: dict[str, Any]) -> str:
    return _join(f"source {own.get('source')}", own, dim="width {}")


def _data(own: dict[str, Any]) -> str:
    languages = own.get("languages", [])
    start = {
        "made": "sentences that the project makes itself",
        "folder": "corpora of the data folder",
    }.get(own.get("kind", ""), "pairs")
    if own.get("corpora"):
        start += f" ({', '.join(own['corpora'])})"
    if languages:
        start += f"; English with {len(languages)} languages: {', '.join(languages)}"
    return _join(
        start,
        own,
        pairs_per_language="at most {} pairs a language",
        pairs_per_file="at most {} pairs a file",
        max_length="at most {} tokens a sentence",
        seed="seed {}",
    )


def _tokenizer(own: dict[str, Any]) -> str:
    source = {"train": "trained on the pairs", "assistant": "the assistant's own"}
    return _join(
        source.get(own.get("source", ""), ""), own, vocabulary_size="{} pieces"
    )


def _assistant(own: dict[str, Any]) -> str:
    source = own.get("source", "new")
    if source != "new":
        return f"{source}."
    return _join(
        "new" if own else "",
        own,
        start="start: {}",
        num_layers="{} layers",
        hidden_dim="width {}",
        num_heads="{} heads",
        intermediate_dim="feed-forward width {}",
        bottleneck_dim="word table of width {}",
        projection_dim="projected to {}",
        normalize_first="layer normalisation in front of each block: {}",
        word_branch="word branch: {}",
        dropout="dropout {}",
        pooling="{} pooling",
    )


def _student(own: dict[str, Any]) -> str:
    if not own:
        return ""
    repeats = own.get("repeats")
    layers = own.get("unit_layers")
    unit = (
        f"a unit of {layers} layer{'' if layers == 1 else 's'} of the assistant, run "
    )
    unit += f"{repeats} times" if repeats else "until its depth is the assistant's"
    if "bottleneck_dim" not in own:
        unit += "; the assistant's whole word table"
    for stage, change in own.get("stages", {}).items():
        changes = ", ".join(f"{key} {_value(value)}" for key, value in change.items())
        own = own | {"changes": [*own.get("changes", []), f"{plain(stage)}: {changes}"]}
    return _join(
        unit,
        own,
        bottleneck_dim="word table of width {}",
        start="start: {}",
        layers="layers of the {} assistant",
        changes="of its own, {}",
    )


def _stage(own: dict[str, Any]) -> str:
    if own.get("skip"):
        return "skipped"
    length = [f"{own[key]:,} {key}" for key in ("epochs", "steps") if key in own]
    return _join(
        " or ".join(length) + (", whichever ends first" if len(length) > 1 else ""),
        own,
        batch_size="batches of {}",
        learning_rate="learning rate {}",
        warmup="warm-up over {} of the steps",
        schedule="{} schedule",
        weight_decay="weight decay {}",
        clip_norm="gradient norm at most {}",
        target="contrastive target: {}",
        temperature="temperature {}",
        kd_weight="weight of the squared errors {}",
        contrastive_weight="weight of the contrastive term {}",
        frozen="not trained: {}",
        per_token="per token: {}",
    )


def _losses(stages: dict[str, Any]) -> str:
    if not stages:
        return ""
    summed = [plain(name) for name, own in stages.items() if own.get("dims") == "sum"]
    text = "squared errors are means over the batch and over the dimensions"
    if summed:
        text += f", but sums over the dimensions in {', '.join(summed)}"
    return (
        text + "; the contrastive term is a mean over the batch; computed in float32."
    )


def _scores(recipe: dict[str, Any]) -> str:
    own = recipe.get("evaluate", {})
    if "sts" not in own:
        return ""
    text = (
        f"cross-lingual: mean over languages of Spearman x100 between gold and the "
        f"cosine of an English sentence 1 with another language's sentence 2, on "
        f"{own['sts']} {own.get('split', '')}; monolingual: within each language"
    )
    if own.get("retrieval"):
        text += f"; retrieval: precision at 1 x100, both ways, {len(own['retrieval'])} "
        text += f"languages: {', '.join(own['retrieval'])}"
    return text + "."


def _join(first: str, own: dict[str, Any], /, **phrases: str) -> str:
    if not own:
        return ""
    found = [first] if first else []
    for key, phrase in phrases.items():
        # Not `in ([], False)`, because 0.0 equals False.
        if key in own and own[key] is not False and own[key] != []:
            found.append(phrase.format(_value(own[key])))
    return "; ".join(found) + "."


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
