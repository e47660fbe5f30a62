"""Fetching a safetensors model from the Hugging Face hub into its shared cache."""

from __future__ import annotations

import logging
import re
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

    The hub's own cache and settings (`HF_HOME`, `HF_TOKEN`, `HF_HUB_OFFLINE`) hold. Raises
    ModelError when the hub cannot be reached or refuses.
    """
    # Here, not above: it takes 0.3 s, and only hub models need it.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        folder = snapshot_download(
            name,
            allow_patterns=_WANTED,
            ignore_patterns=_UNWANTED,
            tqdm_class=_silent_bar(on_progress),
        )
    except GatedRepoError as error:
        raise ModelError(
            f"{name} is only given to people who accepted its terms on huggingface.co. "
            "Accept them there and set HF_TOKEN."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"The hub has no model {name!r}, or it is private. Check the name, or set HF_TOKEN."
        ) from error
    except Exception as error:
        # Transports raise classes of their own; a full disk and a cut line end here as well.
        offline = isinstance(error, LocalEntryNotFoundError)
        reason = "the hub cannot be reached" if offline else str(error).strip().split("\n")[0]
        raise ModelError(
            f"{name} could not be fetched ({reason[:200] or type(error).__name__}). Check the "
            "network, or pass the path of a .gguf file or of a folder with safetensors."
        ) from error
    return Path(folder)


def hub_folder(name: str) -> Path | None:
    """Return the local folder of hub model `name`, or None; nothing is asked of the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                name,
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
                local_files_only=True,
            )
        )
    except (LocalEntryNotFoundError, OSError):
        return None


def _silent_bar(on_progress: Progress) -> type[Any]:
    """Return a progress bar class for the hub that draws nothing and reports bytes on disk."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    class SilentBar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            self._reports = str(options.get("desc")).startswith("Reconstructing")
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            if self._reports:
                on_progress(int(self.n), int(self.total or self.n))

    return SilentBar
