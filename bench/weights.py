"""The default model's weights, the same for all servers: safetensors, and GGUF in F32 and Q8_0."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize, quantize

from engine.catalog import resolve
from engine.fetch import cache_dir, scratch_dir
from engine.loader import converted
from engine.model_files import read_header

_FILE_TYPES = {
    GGMLQuantizationType.F32: LlamaFileType.ALL_F32,
    GGMLQuantizationType.Q8_0: LlamaFileType.MOSTLY_Q8_0,
}
# Written anew, because they tell how the tensors lie in the file.
_OF_THE_FILE = ("general.architecture", "general.file_type", "general.quantization_version")


@dataclass(frozen=True, slots=True)
class Weights:
    """The same weights three times: float32 safetensors, float32 GGUF, and Q8_0 made of it."""

    folder: Path
    gguf_f32: Path
    gguf_q8: Path


def weights() -> Weights:
    """The default model's, dequantised and written at the first call."""
    path = resolve(None).path
    folder = converted(path, read_header(path), "float32", lambda done, total: None)
    f32, q8 = GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0
    return Weights(folder, _rewritten(path, f32), _rewritten(path, q8))


def _rewritten(source: Path, kind: GGMLQuantizationType) -> Path:
    target = cache_dir() / "bench" / f"{source.stem}-{kind.name}.gguf"
    if not target.exists():
        with scratch_dir(target.parent) as scratch:
            write_gguf(source, scratch / "model", kind)
            os.replace(scratch / "model", target)
    return target


def write_gguf(source: Path, target: Path, kind: GGMLQuantizationType) -> None:
    """Copy a GGUF file with its matrices as `kind` and everything else as F32."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", *_OF_THE_FILE)):
            _copy_field(writer, field)
    writer.add_file_type(_FILE_TYPES[kind])
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        wanted = kind if values.ndim > 1 else GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, quantize(values, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_field(writer: GGUFWriter, field: Any) -> None:
    kind = field.types[0]
    inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
