"""Distil a small encoder from a teacher on parallel text, then search with it.

    python examples/distil_and_search.py out                       # example sentences
    python examples/distil_and_search.py out --pairs news.en-de.tsv help.en-fr.tmx

The teacher may read only English: the encoder learns its vector of the English side
for both sides. A tenth of the sentences is held out, to measure how often the nearest
sentence is the translation.
"""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import keras_msd as msd


def main(arguments: Sequence[str] | None = None) -> float:
    """Write the encoder to a folder, and return P@1 x 100 on the held-out pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the encoder")
    parser.add_argument("--pairs", nargs="+", help="parallel files; else examples")
    parser.add_argument("--teacher", default="default", help="see load_teacher")
    parser.add_argument("--limit", type=int, default=6000, help="maximum number")
    parser.add_argument("--pieces", type=int, default=2000, help="vocabulary size")
    parser.add_argument("--updates", type=int, default=600, help="training steps")
    options = parser.parse_args(arguments)

    given = options.pairs
    corpus = msd.data.read_pairs(given) if given else msd.data.example_pairs()
    pairs = list(dict.fromkeys(islice(corpus, options.limit)))
    sources = list(dict.fromkeys(pair.source for pair in pairs))
    tenth = set(sources[::10])
    first = {pair.source: pair for pair in reversed(pairs)}
    held_out = [first[source] for source in sources[::10]]
    pairs = [pair for pair in pairs if pair.source not in tenth]

    teacher = msd.load_teacher(options.teacher)
    store = msd.data.GuideStore(teacher, options.out / "teacher_vectors")
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    tokenizer = msd.tokenizers.train_unigram(texts, options.pieces)
    student = msd.new_encoder(
        tokenizer,
        num_layers=1,
        repeats=3,  # one layer, run three times with the same weights
        bottleneck_dim=64,
        hidden_dim=192,
        num_heads=6,
        intermediate_dim=768,
        projection_dim=teacher.dim,
        max_length=64,
    )

    guides = {"teacher": (store, "source")}
    updates = options.updates
    batches = msd.data.PairBatches(
        pairs, student, guides, batch_size=64, epochs=updates, steps=updates
    )
    stage = msd.stages.TeachAssistant(student, dims="sum")
    stage.compile(msd.training.make_optimizer(2e-3, steps=updates))
    stage.fit(batches, shuffle=False)
    student.save(options.out / "encoder")

    sentences = [(pair.source, pair.target) for pair in held_out]
    score = msd.evaluate.retrieval(student, sentences)["precision"]
    print(f"{student.num_parameters:,} parameters; P@1 on held-out pairs {score:.1f}")
    query = held_out[0].target
    print(f"Query: {query}")
    for match in msd.search(student, query, [p.source for p in held_out], top=3):
        print(f"  {match.cosine:.3f}  {match.sentence}")
    return score


if __name__ == "__main__":
    main()
