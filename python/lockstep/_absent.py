"""Horovod's names that Lockstep does not have: each is one error that says what to use instead."""
from __future__ import annotations

from typing import Any, Callable, Dict

from .errors import AbsentNameError

INSIDE = "it is a part of Horovod's inside"
SCRIPT = "docs/tutorials/keras-script.md goes through a script of it line by line: init() and DistributedOptimizer take its place"


def absent(module: str, names: Dict[str, str]) -> Callable[[str], Any]:
    """The __getattr__ of a module: names and what to say of them."""
    def get(name: str) -> Any:
        if name in names:
            raise AbsentNameError(f"{module}.{name} is not there: {names[name]}")
        raise AttributeError(f"module '{module}' has no attribute '{name}'")
    return get
