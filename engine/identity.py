"""Fingerprints that tell whether two servers run the same: hashes of what they name."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from engine.config import EngineConfig
from engine.messages import Ready

logger = logging.getLogger("mashbox.engine")

# What the cache holds and when it may be used again; changes with the code that decides it.
_CACHE_POLICY = "slots and host memory, blocks of 32 tokens, by tenant"


@dataclass(slots=True)
class Identity:
    """The fingerprints of one loaded model.

    `deployment_id` names the programs and their shapes, `component_set_sha` the contents of
    weights, tokenizer and chat template, `cache_namespace` what cached prompts are valid for.
    """

    deployment_id: str
    component_set_sha: str | None = None
    cache_namespace: str | None = None


def identify(config: EngineConfig, ready: Ready) -> Identity:
    """Give what is known at once; a thread reads the weights again and fills in the rest."""
    shapes = [config.ctx, config.slots, config.prefill_chunk]
    identity = Identity(
        _digest([config.model.id, ready.device, ready.dtype, ready.runtime, shapes])
    )
    # A daemon: a server that stops does not wait for gigabytes to be hashed.
    threading.Thread(
        target=hash_components,
        args=(identity, config, _without_vocabulary(ready)),
        name="identity",
        daemon=True,
    ).start()
    return identity


def _without_vocabulary(ready: Ready) -> Ready:
    """Put a hash for the tokenizer: megabytes that the thread would keep and copy."""
    digest = hashlib.sha256(ready.tokenizer_json.encode()).hexdigest()
    return replace(ready, tokenizer_json=digest)


def hash_components(identity: Identity, config: EngineConfig, ready: Ready) -> None:
    """Read the weights and fill in what depends on them; what cannot be read leaves it None."""
    try:
        files = [(name, _sha256(path)) for name, path in _weight_files(config.model.path)]
    except OSError as error:
        return logger.warning(
            "The weights cannot be read for their fingerprint: %s, %s.",
            error.filename,
            error.strerror,
        )
    # Tokenizer and template are hashed as the worker reads them, not as files.
    sha = _digest([files, ready.tokenizer_json, ready.chat_template])
    identity.cache_namespace = _digest([config.model.id, sha, ready.dtype, _CACHE_POLICY])
    # Set last: whoever sees it finds the namespace too.
    identity.component_set_sha = sha


def _weight_files(path: Path) -> Iterator[tuple[str, Path]]:
    """The files that hold the model, each with the name that counts; a lone file's does not."""
    if not path.is_dir():
        yield "", path
        return
    for file in sorted(path.glob("*.safetensors")):
        yield file.name, file
    yield "config.json", path / "config.json"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
