from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from engine import loader
from engine.config import EngineConfig, ModelSource
from engine.errors import ModelError
from engine.loader import LoadedModel, choose_device, choose_dtype, load_model
from engine.model_files import read_header
from tests.engine.model_folders import CONTEXT, TEMPLATE, edit_json, write_folder, write_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MASHBOX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def ignore(done: int, total: int) -> None: ...


def load(path: Path, **settings: Any) -> LoadedModel:
    return load_model(EngineConfig(ModelSource("tiny", path), CONTEXT, **settings), ignore)


def test_folder_gives_model_and_everything_the_text_side_needs(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    config = EngineConfig(ModelSource("tiny", folder), CONTEXT, device="cpu")
    loaded = load_model(config, lambda *progress: seen.append(progress))
    model, ready = loaded.model, loaded.ready
    assert not model.training
    assert model.config._attn_implementation == "sdpa"
    assert (ready.device, ready.dtype, ready.bits_per_weight) == ("cpu", "float32", 32.0)
    assert ready.weight_bytes == sum(p.nbytes for p in model.parameters())
    assert ready.chat_template == TEMPLATE
    assert ready.special_tokens["bos_token"] == "<|im_start|>"
    assert Tokenizer.from_str(ready.tokenizer_json).encode("<|im_end|>a").tokens[0] == "<|im_end|>"
    assert seen[-1] == (ready.weight_bytes, ready.weight_bytes)
    shares = [done / total for done, total in seen]
    assert len(seen) > 5 and shares == sorted(shares) and shares[0] == 0


def test_end_of_turn_of_the_template_ends_an_answer(folder: Path) -> None:
    assert load(folder).ready.eos_token_ids == (0, 2)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert load(folder).ready.eos_token_ids == (0,)


def test_end_ids_of_generation_config_count(folder: Path) -> None:
    edit_json(folder / "generation_config.json", eos_token_id=[0, 7])
    assert load(folder).ready.eos_token_ids == (0, 2, 7)


def test_jinja_file_wins_over_tokenizer_config(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", chat_template="from the config")
    assert load(folder).ready.chat_template == TEMPLATE
    (folder / "chat_template.jinja").unlink()
    assert load(folder).ready.chat_template == "from the config"


def test_model_without_template_has_none(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    assert load(folder).ready.chat_template is None


def test_weights_stay_mapped_from_the_file(folder: Path) -> None:
    loaded = load(folder)
    mapped = Path("/proc/self/maps").read_text()
    assert str(folder / "model.safetensors") in mapped
    assert loaded.model.lm_head.weight.data_ptr() == (
        loaded.model.model.embed_tokens.weight.data_ptr()
    )


def test_wanted_dtype_is_used(folder: Path) -> None:
    loaded = load(folder, dtype="bfloat16")
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.ready.dtype == "bfloat16"


def test_auto_is_float32_on_the_cpu_and_bfloat16_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (choose_device("auto"), choose_dtype("auto", "auto")) == ("cpu", "float32")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (choose_device("auto"), choose_dtype("auto", "auto")) == ("cuda", "bfloat16")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:7", "mps", "meta", ""])
def test_device_that_is_not_there_is_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("cuda:1") == "cuda:1"
    with pytest.raises(ModelError, match=r"device"):
        choose_device(device)


def test_several_gpus_share_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert loader._device_map("cuda") == "auto"
    assert loader._device_map("cuda:1") == {"": "cuda:1"}
    assert loader._device_map("cpu") == {"": "cpu"}


def test_unknown_dtype_is_refused() -> None:
    with pytest.raises(ModelError, match="There is no dtype 'int3'"):
        choose_dtype("int3", "cpu")


def test_half_precision_on_a_cpu_is_refused_with_what_to_take() -> None:
    with pytest.raises(ModelError, match=r"graphics cards. Use --dtype bfloat16"):
        choose_dtype("float16", "cpu")
    assert choose_dtype("bfloat16", "cpu") == "bfloat16"


def test_unknown_architecture_is_one_sentence(folder: Path) -> None:
    edit_json(folder / "config.json", model_type="nobody", architectures=["NobodyForCausalLM"])
    with pytest.raises(ModelError, match=r"^tiny cannot be loaded: [^\n]*nobody[^\n]*\.$"):
        load(folder)


def test_code_in_the_folder_is_not_run(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    mapping = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
    edit_json(folder / "config.json", model_type="evil", auto_map=mapping)
    with pytest.raises(ModelError, match="tiny cannot be loaded"):
        load(folder)


def test_missing_tokenizer_is_one_sentence(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"^tiny's tokenizer[^\n]*\.$"):
        load(folder)


def test_gguf_is_converted_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    first = load(path)
    assert first.ready.eos_token_ids == (0, 2)
    assert first.ready.chat_template == TEMPLATE
    assert Tokenizer.from_str(first.ready.tokenizer_json).encode("\n\n1").tokens == ["ĊĊ", "1"]
    kept = list((cache / "converted").iterdir())
    assert len(kept) == 1 and kept[0].name.startswith("m-float32-")
    monkeypatch.setattr(loader, "_convert", None)
    again = load(path)
    assert torch.equal(again.model.lm_head.weight, first.model.lm_head.weight)


def test_changed_gguf_is_converted_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def convert(path: Path, target: Path, dtype: str, *rest: Any) -> None:
        made.append(dtype)
        (target / "done").touch()

    monkeypatch.setattr(loader, "_convert", convert)
    path = write_gguf(tmp_path / "m.gguf")
    header = read_header(path)
    folders = [loader.converted(path, header, "float32", ignore) for _ in range(2)]
    os.utime(path, (1, 1))
    folders.append(loader.converted(path, header, "float32", ignore))
    folders.append(loader.converted(path, header, "bfloat16", ignore))
    assert made == ["float32", "float32", "bfloat16"]
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3
    assert all((f / "done").exists() for f in folders)


def test_conversions_that_nobody_used_for_long_are_removed_by_the_next_one(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "_convert", lambda path, target, *rest: (target / "done").touch())
    path = write_gguf(tmp_path / "m.gguf")
    header = read_header(path)
    used = loader.converted(path, header, "float32", ignore)
    unused = used.with_name("unused")
    unused.mkdir()
    for folder in (used, unused):
        os.utime(folder, (1, 1))
    assert loader.converted(path, header, "float32", ignore) == used
    loader.converted(path, header, "bfloat16", ignore)
    assert used.exists()
    assert not unused.exists()


def test_failed_conversion_says_why_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"tokenizer.ggml.pre": "bloom"})
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} cannot be loaded: the way its tokenizer splits")
    assert str(caught.value).endswith("Use the model's safetensors folder.")
    assert list((cache / "converted").iterdir()) == []


def test_interrupted_conversion_leaves_no_process_and_no_files(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    class Popen(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Popen)
    path = write_gguf(tmp_path / "m.gguf")
    with pytest.raises(KeyboardInterrupt):
        loader.converted(path, read_header(path), "float32", interrupt)
    assert started[0].returncode is not None
    assert list((cache / "converted").iterdir()) == []


def test_full_disk_is_noticed_before_converting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    path = write_gguf(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match="Set MASHBOX_CACHE_DIR to another disk"):
        loader.converted(path, read_header(path), "float32", ignore)


def test_second_of_two_converters_uses_the_firsts_folder(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    (theirs / "config.json").write_text(json.dumps({"first": True}))
    (mine / "config.json").touch()
    loader._publish(mine, theirs)
    assert json.loads((theirs / "config.json").read_text()) == {"first": True}


def test_loading_prints_nothing(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from engine.config import EngineConfig, ModelSource\n"
        "from engine.loader import load_model\n"
        "source = ModelSource('tiny', Path(sys.argv[1]))\n"
        "load_model(EngineConfig(source, 128, dtype='bfloat16'), lambda done, total: None)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
