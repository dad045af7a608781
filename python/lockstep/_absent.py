"""Horovod's names that Lockstep does not have: each is one error that says what to use instead."""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional, Sequence

from .errors import AbsentNameError

INSIDE = "it is a part of Horovod's inside"
SCRIPT = "docs/tutorials/keras-script.md goes through a script of it line by line: init() and DistributedOptimizer take its place"


_reasons: Dict[str, str] = {}  # by names with their modules


class _Finder:
    """Finds no module. `from lockstep.torch import NAME` looks for one of that name when the module has none: it says why."""

    @staticmethod
    def find_spec(name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> None:
        if name in _reasons:
            raise ImportError(f"{name} is not there: {_reasons[name]}", name=name)


sys.meta_path.append(_Finder)  # type: ignore[arg-type]


def absent(module: str, names: Dict[str, str]) -> Callable[[str], Any]:
    """The __getattr__ of a module: names and what to say of them."""
    _reasons.update((f"{module}.{name}", reason) for name, reason in names.items())
    vars(sys.modules[module]).setdefault("__path__", [])  # without one Python looks for no module in it

    def get(name: str) -> Any:
        if name in names:
            raise AbsentNameError(f"{module}.{name} is not there: {names[name]}")
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    return get
