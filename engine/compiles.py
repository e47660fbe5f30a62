"""How many programs torch.compile has made in this process."""

from __future__ import annotations

import sys


def compiled_programs() -> int:
    """Programs so far, made anew for another shape too; 0 where the compiler was never loaded.

    Nothing here records CUDA graphs; whoever begins to has to count them in.
    """
    # Looked up, not imported: a worker without torch has to stay so.
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0
