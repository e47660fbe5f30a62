"""Fetching a safetensors model from the Hugging Face hub into its shared cache."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.fetch import Progress

# Weights as safetensors and what goes with them; never pickles, never code.
_WANTED = ["*.safetensors", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt"]
# Other formats of the same weights lie in folders of their own.
_UNWANTED = ["*/*", "consolidated*"]


def is_hub_id(name: str) -> bool:
    """Tell whether `name` is spelled like `organisation/model`."""
    return re.fullmatch(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}", name, re.ASCII) is not None


def fetch_from_hub(name: str, on_progress: Progress) -> Path:
    """Return the local folder of hub model `name`, downloading what is not there yet.

    The hub's own cache and settings (`HF_HOME`, `HF_TOKEN`, `HF_HUB_OFFLINE`) hold. Files that an
    earlier, interrupted download finished are kept. Raises ModelError when the hub cannot be
    reached or refuses, and before a download that the disk has no room for.
    """
    # Here, not above: it takes 0.3 s, and only hub models need it. It sets its own level when
    # it is imported; what it warns of, such as a line that is tried again, is no news to the user.
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()
    try:
        _check_space(name)
        return Path(_snapshot(name, tqdm_class=_silent_bar(on_progress)))
    except ModelError:
        raise
    except Exception as error:
        # Transports raise classes of their own; a full disk and a cut line end here as well.
        raise ModelError(_explanation(name, error)) from error


def hub_folder(name: str) -> Path | None:
    """Return the local folder of hub model `name`, or None; nothing is asked of the network."""
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(_snapshot(name, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError, OSError):
        return None


def _snapshot(name: str, **options: Any) -> Any:
    """Ask for the wanted files: their folder, or with `dry_run` what would be downloaded."""
    from huggingface_hub import snapshot_download

    patterns = {"allow_patterns": _WANTED, "ignore_patterns": _UNWANTED}
    return snapshot_download(name, **patterns, **options)


def _check_space(name: str) -> None:
    """Raise ModelError if what is still to be downloaded does not fit the disk."""
    from huggingface_hub import constants
    from huggingface_hub.errors import DryRunError

    try:
        files = _snapshot(name, dry_run=True, tqdm_class=_silent_bar(None))
    except DryRunError:
        return  # Offline: what is here has to do.
    needed = sum(file.file_size for file in files if file.will_download)
    cache = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(p for p in (cache, *cache.parents) if p.exists())).free
    if free < needed:
        raise ModelError(
            f"{name} needs {needed / 1e9:.1f} GB in {cache}; {free / 1e9:.1f} GB is free. "
            "Make room there, or set HF_HOME to a folder on another disk."
        )


def _explanation(name: str, error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return (
            f"{name} is only given to people who accepted its terms on huggingface.co. "
            "Accept them there and set HF_TOKEN."
        )
    if isinstance(error, RepositoryNotFoundError):
        return f"The hub has no model {name!r}, or it is private. Check the name, or set HF_TOKEN."
    return (
        f"{name} could not be fetched ({_reason(error)}). Check the network, or pass the path of a "
        ".gguf file or of a folder with safetensors."
    )


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    cause = error.__cause__
    if isinstance(error, LocalEntryNotFoundError) and isinstance(cause, HfHubHTTPError):
        return f"the hub answers with {cause.response.status_code}"
    if isinstance(error, LocalEntryNotFoundError):
        return "the hub cannot be reached"
    return str(error).strip().split("\n")[0][:200] or type(error).__name__


def _silent_bar(on_progress: Progress | None) -> type[Any]:
    """Return a progress bar class for the hub that draws nothing and reports bytes on disk."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    class SilentBar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            self._reports = str(options.get("desc")).startswith("Reconstructing")
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            if self._reports and on_progress:
                on_progress(int(self.n), int(self.total or self.n))

    return SilentBar
