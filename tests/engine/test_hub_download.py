"""Downloads through huggingface_hub itself, from a hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.fake_hub import COMMIT, FakeHub, fake_hub

ROOT = Path(__file__).parents[2]
WEIGHTS = {f"model-0000{i}-of-00002.safetensors": bytes(100_000 * i) for i in (1, 2)}
LARGEST = "model-00002-of-00002.safetensors"
OTHERS = {"pytorch_model.bin": b"pickle", "model.py": b"code", "consolidated.safetensors": b"x"}
# In a process of its own: the library reads its environment once.
PROGRAM = """
import json, shutil, sys
from engine import hub
from engine.errors import ModelError
free = {free}
if free is not None:
    usage = shutil.disk_usage("/")
    hub.shutil.disk_usage = lambda path: usage._replace(free=free)
seen = []
try:
    found = str(hub.fetch_from_hub("org/model", lambda *progress: seen.append(progress)))
except ModelError as error:
    found = f"ModelError: {{error}}"
here = hub.hub_folder("org/model")
print(json.dumps([found, seen, here and str(here)]))
"""


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub(FakeHub({"config.json": b"{}", **WEIGHTS, **OTHERS})) as hub:
        yield hub


class Fetched:
    """What a download ended with: its folder or refusal, its progress, and what is here."""

    def __init__(self, hub: FakeHub, home: Path, free: int | None = None, **more: str) -> None:
        settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_TOKEN": "", **more}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(free=free)],
            env={**os.environ, **settings},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        # Nothing is drawn, and no traceback is shown.
        assert done.stderr == ""
        self.found, self.seen, self.here = json.loads(done.stdout)

    @property
    def refusal(self) -> str:
        """What the user is told."""
        assert self.found.startswith("ModelError: ")
        return str(self.found.removeprefix("ModelError: "))


def test_weights_are_fetched_with_progress_and_neither_pickles_nor_code(
    hub: FakeHub, tmp_path: Path
) -> None:
    fetched = Fetched(hub, tmp_path)
    folder = Path(fetched.found)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(["config.json", *WEIGHTS])
    assert all((folder / name).read_bytes() == data for name, data in WEIGHTS.items())
    total = sum(map(len, WEIGHTS.values())) + 2
    assert fetched.seen[-1] == [total, total]
    done = [progress[0] for progress in fetched.seen]
    assert done == sorted(done)
    assert fetched.here == fetched.found


def test_a_second_time_no_file_is_sent(hub: FakeHub, tmp_path: Path) -> None:
    first = Fetched(hub, tmp_path)
    hub.asked.clear()
    assert Fetched(hub, tmp_path).found == first.found
    assert hub.sent() == []


def test_a_cut_line_is_resumed_in_the_middle_of_a_file(hub: FakeHub, tmp_path: Path) -> None:
    # The library writes 10 MiB at a time; what it has of the next piece is lost.
    hub.files[LARGEST] = bytes(24 << 20)
    hub.cuts[LARGEST] = 1
    fetched = Fetched(hub, tmp_path)
    assert (Path(fetched.found) / LARGEST).read_bytes() == hub.files[LARGEST]
    assert f"{LARGEST} bytes={10 << 20}-" in hub.sent()


def test_a_lost_file_is_said_and_the_files_that_are_whole_are_kept(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.refusals[f"GET /org/model/resolve/{COMMIT}/{LARGEST}"] = (400, "")
    fetched = Fetched(hub, tmp_path)
    assert fetched.refusal.startswith("org/model could not be fetched (")
    assert fetched.refusal.endswith(
        "). Check the network, or pass the path of a .gguf file or of a folder with safetensors."
    )
    assert fetched.here is None
    hub.refusals.clear()
    hub.asked.clear()
    assert Path(Fetched(hub, tmp_path).found).is_dir()
    assert hub.sent() == [LARGEST]


def test_offline_what_is_here_is_taken(hub: FakeHub, tmp_path: Path) -> None:
    first = Fetched(hub, tmp_path)
    hub.asked.clear()
    assert Fetched(hub, tmp_path, HF_HUB_OFFLINE="1").found == first.found
    assert hub.asked == []
    assert Fetched(hub, tmp_path, HF_ENDPOINT="http://127.0.0.1:9").found == first.found


@pytest.mark.parametrize(
    "settings", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}]
)
def test_offline_without_it_is_said(hub: FakeHub, tmp_path: Path, settings: dict[str, str]) -> None:
    fetched = Fetched(hub, tmp_path, **settings)
    assert fetched.refusal.startswith("org/model could not be fetched (the hub cannot be reached).")
    assert fetched.here is None


@pytest.mark.parametrize(
    ("path", "status", "code", "said"),
    [
        (
            "/api/",
            404,
            "RepoNotFound",
            "The hub has no model 'org/model', or it is private. ",
        ),
        (
            "/api/",
            401,
            "RepoNotFound",
            "The hub has no model 'org/model', or it is private. ",
        ),
        ("/resolve/", 401, "GatedRepo", "org/model is only given to people who accepted its terms"),
        ("/resolve/", 403, "GatedRepo", "org/model is only given to people who accepted its terms"),
        ("/api/", 500, "", "org/model could not be fetched (the hub answers with 500). Check "),
    ],
)
def test_refusals_are_explained(
    hub: FakeHub, tmp_path: Path, path: str, status: int, code: str, said: str
) -> None:
    hub.refusals[path] = (status, code)
    assert Fetched(hub, tmp_path).refusal.startswith(said)


def test_a_disk_without_room_is_said_before_anything_is_sent(hub: FakeHub, tmp_path: Path) -> None:
    fetched = Fetched(hub, tmp_path, free=299_999)
    assert fetched.refusal == (
        f"org/model needs 0.0 GB in {tmp_path}/hub; 0.0 GB is free. "
        "Make room there, or set HF_HOME to a folder on another disk."
    )
    assert hub.sent() == []
    assert Path(Fetched(hub, tmp_path, free=300_002).found).is_dir()
