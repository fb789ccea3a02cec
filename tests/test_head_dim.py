"""Encoders whose heads are not as wide as the hidden width divided by their number.

The formula is that of onnxruntime, in test_export_onnx.py.
"""

import numpy as np
import pytest
from random_encoder import TEXTS, random_encoder

import keras_msd as msd

pytestmark = pytest.mark.usefixtures("no_graphs")

# Three heads of 10 beside a width of 16, and a unit that is repeated.
THIN = {"num_heads": 3, "head_dim": 10, "num_layers": 2, "repeats": 2}


@pytest.mark.parametrize(
    ("activation", "normalize_first"),
    [("gelu_erf", False), ("gelu_tanh", True)],
)
def test_with_the_usual_dimension_it_is_the_usual_network(
    tokenizer, activation, normalize_first
):
    fields = {"activation": activation, "normalize_first": normalize_first}
    usual = random_encoder(
        tokenizer, **THIN | fields | {"num_heads": 4, "head_dim": None}
    )
    own = usual.with_config(head_dim=4)
    assert "keras_hub" in type(usual.model.get_layer("body").blocks[0]).__module__
    assert "keras_hub" not in type(own.model.get_layer("body").blocks[0]).__module__
    own.set_weights(usual.weights())
    np.testing.assert_allclose(own.encode(TEXTS), usual.encode(TEXTS), atol=1e-6)


def test_it_is_copied_into_students(tokenizer):
    whole = random_encoder(tokenizer, **THIN | {"repeats": 1})
    student = msd.build_student(
        whole, unit_layers=1, bottleneck_dim=8, unit_from="last"
    )
    assert student.config.head_dim == 10
    for path, value in student.weights().items():
        if path.startswith("body/"):
            expected = whole.weights()[path.replace("block_0", "block_1")]
            np.testing.assert_array_equal(value, expected)
