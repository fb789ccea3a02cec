"""SavedModels made on the spot, in the shapes in which sentence encoders appear."""

import numpy as np
import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string)


def save(function, folder, *specs, training=False, signatures=None, **attributes):
    """Save a model that is called with `function`, and perhaps `training`."""
    root = tf.Module()
    root.__call__ = tf.function(function)
    for choice in ([True], [False]) if training else ([],):
        root.__call__.get_concrete_function(*specs, *choice)
    for name, value in attributes.items():
        setattr(root, name, value)
    tf.saved_model.save(root, str(folder), signatures=signatures)
    return folder


def letters(texts):
    """Return bytes, characters and the letters a of each text: plain NumPy."""
    return np.array([[len(t.encode()), len(t), t.count("a")] for t in texts], "float32")


def letters_in_graph(texts):
    """Return the same from a string tensor."""
    without = tf.strings.regex_replace(texts, "a", "")
    sizes = [
        tf.strings.length(texts),
        tf.strings.length(texts, unit="UTF8_CHAR"),
        tf.strings.length(texts) - tf.strings.length(without),
    ]
    return tf.cast(tf.stack(sizes, axis=1), tf.float32)
