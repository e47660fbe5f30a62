"""The same weights in another GGUF type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

from bench.weights import write_gguf

MATRIX = np.linspace(-1, 1, 4 * 64, dtype=np.float32).reshape(4, 64)
VECTOR = np.arange(64, dtype=np.float32)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Q4_1 file with one matrix, one vector and two fields."""
    path, kind = tmp_path / "source.gguf", GGMLQuantizationType.Q4_1
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_token_list(["a", "b"])
    writer.add_tensor("matrix", quantize(MATRIX, kind), raw_dtype=kind)
    writer.add_tensor("vector", VECTOR)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", [GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0])
def test_matrices_change_their_type_and_nothing_else_does(
    source: Path, kind: GGMLQuantizationType, tmp_path: Path
) -> None:
    write_gguf(source, tmp_path / "target.gguf", kind)
    before, after = GGUFReader(source), GGUFReader(tmp_path / "target.gguf")
    assert {t.name: t.tensor_type.name for t in after.tensors} == {
        "matrix": kind.name,
        "vector": "F32",
    }
    for name in ("general.architecture", "llama.block_count", "tokenizer.ggml.tokens"):
        assert after.fields[name].contents() == before.fields[name].contents()
    old, new = (
        dequantize(reader.tensors[0].data, reader.tensors[0].tensor_type)
        for reader in (before, after)
    )
    tolerance = 0 if kind is GGMLQuantizationType.F32 else 1 / 127
    assert np.abs(old - new).max() <= tolerance
    assert np.array_equal(after.tensors[1].data, VECTOR)
