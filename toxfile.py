"""tox's inline plugin: environments with the same dependencies share one folder.

tox 4 removes a folder that another environment made, and installing torch takes longer than most
of the test runs. Here the folder's name stands for the environment's; dependencies that differ
still lead to a new folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tox.plugin import impl
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class _SharedInfo(Info):
    """What tox remembers of a folder, without the name of the environment that made it."""

    @contextmanager
    def compare(
        self, value: Any, section: str, sub_section: str | None = None
    ) -> Iterator[tuple[bool, Any]]:
        """Compare as tox does; see its `Info`."""
        if section == "ToxEnv":
            value = {**value, "name": self._path.parent.name}
        with super().compare(value, section, sub_section) as result:
            yield result


class SharedVirtualEnv(VirtualEnvRunner):
    """A virtual environment that others with the same `env_dir` may use; not with `tox -p`."""

    @staticmethod
    def id() -> str:
        """Return the name for tox.ini's `runner`."""
        return "shared"

    @property
    def cache(self) -> Info:
        """Return what is known of the folder."""
        return _SharedInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    """Tell tox of the runner."""
    register.add_run_env(SharedVirtualEnv)
