"""Keeping other libraries' bars and warnings off the terminal; ours are the only lines there."""

from __future__ import annotations

import warnings


def quiet() -> None:
    """Silence torch's and transformers' warnings and progress bars in this process."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module=r"(torch|transformers|accelerate|huggingface_hub)\b")
