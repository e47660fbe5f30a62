"""axe-core, which tox installs with npm."""

from __future__ import annotations

from pathlib import Path

from tests.ui.chat import Chat

AXE = Path(__file__).parents[1] / "node" / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async () => (await axe.run(document)).violations
  .filter((fault) => ["serious", "critical"].includes(fault.impact))
  .flatMap(({ id, nodes }) => nodes.map((n) => [id, n.html.slice(0, 160), n.failureSummary]))"""


def faults(chat: Chat) -> list[list[str]]:
    """What axe-core takes to be serious or critical."""
    if not chat.page.evaluate("'axe' in window"):
        chat.page.evaluate(AXE.read_text("utf-8") + ";undefined")
    found: list[list[str]] = chat.page.evaluate(RUN)
    return found
