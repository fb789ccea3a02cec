"""Names of the tensors in a .tflite file, read with TensorFlow's flatbuffer classes."""

from pathlib import Path

from tensorflow.lite.python import schema_py_generated as schema


def tensor_names(file: Path) -> tuple[list[bytes], list[bytes]]:
    """Return the names of inputs and outputs, and those of all other tensors.

    The file is read where it lies, not through the classes that wrote it.
    """
    model = schema.Model.GetRootAs(file.read_bytes(), 0)
    graph = model.Subgraphs(0)
    assert model.SubgraphsLength() == 1 and graph.TensorsLength() > 50
    names = [graph.Tensors(i).Name() or b"" for i in range(graph.TensorsLength())]
    ends = {*graph.InputsAsNumpy().tolist(), *graph.OutputsAsNumpy().tolist()}
    inner = [name for i, name in enumerate(names) if i not in ends]
    return [names[i] for i in sorted(ends)], inner


def check_names(file: Path) -> None:
    """Check that every tensor has a short name and that no two share one."""
    ends, inner = tensor_names(file)
    assert all(ends) and all(inner)
    assert len({*ends, *inner}) == len(ends) + len(inner)
    assert max(map(len, inner)) <= 3  # names of the traced graph would be dead weight
