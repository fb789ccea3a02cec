"""Times the training step of every stage under JAX, and how much of the device it uses.

Called by gpu.sh in the folder of a pack; here, with no pack:

    KERAS_BACKEND=jax python benchmarks/gpu_run.py --pairs 64 --updates 5

A batch is random and has no padding. Utilisation is the formula's operations (products
of matrices, three times those of the forward pass) against the best measured product;
beside them stand the operations and bytes that XLA counts in its program. Where torch
and transformers are installed, the same step of stage 1 runs there, as
sentence-transformers would do it: BertModel, mean pooling, squared error, AdamW.
"""

import argparse
import json
import os
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from operations import best, jax_product, random_batch, step_operations

PEAK_SIDES = (2048, 4096, 8192)
UPDATES_AT_ONCE = 32
LONGEST_S = 2.0  # of a product of matrices that is still tried
SHAPE = {"hidden_dim": 384, "num_heads": 12, "intermediate_dim": 1536, "pad_id": 0}
# A small student, and one as deep as MiniLM with 64,000 pieces.
ENCODERS: dict[str, dict[str, int]] = {
    "lab student": {
        "vocabulary_size": 20_000, "bottleneck_dim": 128, "num_layers": 3,
        "repeats": 2, "projection_dim": 384,
    },
    "12 x 384": {"vocabulary_size": 64_000, "num_layers": 12},
}  # fmt: skip


def measured_peak(precision: str) -> float:
    """Return the TFLOP/s of the best product of matrices."""
    found: list[float] = []
    for side in PEAK_SIDES:
        if found and 2 * side**3 / max(found) / 1e9 > LONGEST_S:
            break
        found.append(best(jax_product(side, precision), side, 5))
    return max(found) / 1000


def stages(dim: int) -> dict[str, Any]:
    """Return what makes each stage of an encoder of that width."""
    from keras_msd import stages as made

    return {
        "teach_assistant": made.TeachAssistant,
        "align_embedding": made.AlignEmbedding,
        "teach_student": made.TeachStudent,
        "contrastive_learning": made.ContrastiveLearning,
        "teach_thin_deep": lambda model: made.TeachThinDeep(model, teacher_dim=dim),
        "classify_inference": made.ClassifyInference,
        "regress_similarity": made.RegressSimilarity,
    }


def timed(stage: Any, x: Any, y: Any, updates: int) -> tuple[float, float]:
    """Return the seconds that compiling took, and those of an update."""
    import keras

    class Repeated(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return updates

        def __getitem__(self, index: int) -> Any:
            return x, y

    def spent() -> float:
        began = time.perf_counter()
        stage.fit(batches, shuffle=False, verbose=0)
        return time.perf_counter() - began

    batches = Repeated()
    first, later = spent(), spent()
    return first - later, later / len(batches)


def program_cost(stage: Any, x: Any, y: Any) -> dict[str, float]:
    """Return the operations and bytes of the step, as XLA counts them."""
    import jax

    fixed, means = stage.non_trainable_variables, stage.metrics_variables
    parts = stage.trainable_variables, fixed, stage.optimizer.variables, means
    state = tuple([variable.value for variable in part] for part in parts)
    lowered = jax.jit(stage.train_step).lower(state, (x, y))
    cost = lowered.cost_analysis() or lowered.compile().cost_analysis()
    counted = {"gflop": cost["flops"], "gigabytes": cost["bytes accessed"]}
    return {name: round(value / 1e9, 3) for name, value in counted.items()}


def measured(fields: dict[str, int], given: Any, peak: float) -> dict[str, Any]:
    """Return a row for each stage of one encoder."""
    from keras_msd.models import EncoderConfig, build_model
    from keras_msd.training import make_optimizer
    from keras_msd.training.precision import computing_in

    config = EncoderConfig(**SHAPE | fields, max_length=given.tokens, dropout=0.0)
    lengths = np.full(2 * given.pairs, given.tokens)
    rows = {}
    made = stages(config.dim)
    for name in given.stages or made:
        with computing_in(given.precision):
            stage = made[name](build_model(config))
        at_once = min(given.updates, UPDATES_AT_ONCE)
        optimizer = make_optimizer(1e-4, steps=10_000)
        stage.compile(optimizer, steps_per_execution=at_once)
        x, y = random_batch(stage, config, given.pairs, given.tokens)
        compiling, each = timed(stage, x, y, given.updates)
        count = step_operations(config, lengths, name != "align_embedding")
        rows[name] = {
            "compile_seconds": round(compiling, 1),
            "milliseconds": round(1000 * each, 2),
            "sentences_per_second": round(len(lengths) / each),
            "utilisation": round(count / each / peak / 1e12, 3),
            "formula_gflop": round(count / 1e9, 3),
            "program": program_cost(stage, x, y),
        }
    return rows


def in_torch(fields: dict[str, int], given: Any) -> dict[str, float]:
    """Return the time of the same step of stage 1 in torch, on a GPU if it has one."""
    import torch
    from transformers import BertConfig, BertModel

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = BertModel(
        BertConfig(
            vocab_size=fields["vocabulary_size"],
            hidden_size=SHAPE["hidden_dim"],
            num_attention_heads=SHAPE["num_heads"],
            intermediate_size=SHAPE["intermediate_dim"],
            num_hidden_layers=fields["num_layers"] * fields.get("repeats", 1),
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        add_pooling_layer=False,
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    shape = 2 * given.pairs, given.tokens
    ids = torch.randint(1, fields["vocabulary_size"], shape, device=device)
    goals = torch.randn(shape[0], SHAPE["hidden_dim"], device=device)

    def update() -> None:
        with torch.autocast(device, torch.bfloat16, given.precision == "bfloat16"):
            vectors = model(ids).last_hidden_state.float().mean(1)
        torch.nn.functional.mse_loss(vectors, goals).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def spent(updates: int) -> float:
        began = time.perf_counter()
        for _ in range(updates):
            update()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    spent(2)
    each = spent(given.updates) / given.updates
    rate = round(shape[0] / each)
    return {"milliseconds": round(1000 * each, 2), "sentences_per_second": rate}


def main() -> None:
    """Measure, print a table, write and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--updates", type=int, default=96)
    parser.add_argument(
        "--encoders", nargs="+", default=list(ENCODERS), choices=ENCODERS
    )
    parser.add_argument("--stages", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--precision", default="bfloat16", help="or float32")
    parser.add_argument("--peak-tflops", type=float, help="else measured")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    given = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "jax"
    import jax

    if unknown := set(given.stages or ()) - stages(1).keys():
        known = ", ".join(stages(1))
        parser.error(f"--stages must be of {known}. Received: {min(unknown)}.")
    peak = given.peak_tflops or measured_peak(given.precision)
    torch = find_spec("torch") is not None and find_spec("transformers") is not None
    result: dict[str, Any] = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "peak_tflops": round(peak, 4),
        **{key: getattr(given, key) for key in ("pairs", "tokens", "precision")},
        "encoders": {},
    }
    head = "compile s", "ms", "sentences/s", "MFU"
    print(f"{'':36}" + "".join(f"{name:>13}" for name in head))
    for encoder in given.encoders:
        fields = ENCODERS[encoder]
        rows = measured(fields, given, peak)
        if torch:
            rows["torch, stage 1"] = in_torch(fields, given)
        result["encoders"][encoder] = rows
        for name, row in rows.items():
            columns = "compile_seconds", "milliseconds", "sentences_per_second"
            cells = [str(row.get(key, "")) for key in (*columns, "utilisation")]
            print(f"{f'{encoder}, {name}':36}" + "".join(f"{it:>13}" for it in cells))
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
