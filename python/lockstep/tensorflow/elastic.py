"""Horovod's elastic state of TensorFlow: TensorFlowState, TensorFlowKerasState, run."""
from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence

import tensorflow as tf

from .. import elastic
from ..elastic import HorovodInternalError, ObjectState, State
from ..errors import LockstepError
from ..process import world
from .variables import broadcast_variables, optimizer_variables


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """function(state, ...) is called again after each loss, with the state of the last commit. A call that fails in a
    graph is an error of TensorFlow's; the group knows the error behind it."""
    @functools.wraps(function)
    def called(state: State, *arguments: Any, **options: Any) -> Any:
        try:
            return function(state, *arguments, **options)
        except tf.errors.OpError as error:
            failed: Optional[LockstepError] = world().take_failure()
            if failed is None:
                raise
            raise failed from error
    return elastic.run(called)


class _Variables(ObjectState):
    """Variables by their values, and other attributes pickled."""

    def tracked(self) -> Sequence[Any]:
        raise NotImplementedError

    def value(self, variable: Any) -> Any:
        return variable.numpy()

    def assign(self, variable: Any, value: Any) -> None:
        variable.assign(value)

    def save(self) -> None:
        self._values: List[Any] = [self.value(variable) for variable in self.tracked()]
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self.tracked(), self._values):
            self.assign(variable, value)
        super().restore()

    def sync_from(self, root: int) -> None:
        self.share(root)
        super().sync_from(root)

    def share(self, root: int) -> None:
        broadcast_variables(self.tracked(), root)


class TensorFlowState(_Variables):
    """Variables of TensorFlow, and attributes of any kind. Default: the global variables of TensorFlow 1's graph."""

    def __init__(self, variables: Optional[Sequence[Any]] = None, session: Any = None, **attributes: Any):
        self.variables = list(variables or tf.compat.v1.global_variables())
        self.session = session or tf.compat.v1.get_default_session()
        self._operations: dict = {}  # broadcasts of TensorFlow 1's graph by their roots
        super().__init__(**attributes)
        self.save()

    def tracked(self) -> Sequence[Any]:
        return self.variables

    def value(self, variable: Any) -> Any:
        return variable.numpy() if self.session is None else variable.eval(self.session)

    def assign(self, variable: Any, value: Any) -> None:
        if self.session is None:
            variable.assign(value)
        else:
            variable.load(value, self.session)

    def share(self, root: int) -> None:
        if self.session is None:
            super().share(root)
            return
        if root not in self._operations:
            with self.session.graph.as_default():
                self._operations[root] = broadcast_variables(self.variables, root)
        self.session.run(self._operations[root])


class TensorFlowKerasState(_Variables):
    """A built model of Keras, its optimizer, whose variables are made where they are not there, and other attributes."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **attributes: Any):
        if not model.built:
            raise ValueError("Model must be built first. Run `model.build(input_shape)`.")
        self.model, self.optimizer = model, optimizer or model.optimizer
        build = getattr(self.optimizer, "build", None) or getattr(self.optimizer, "_create_all_weights", None)
        if build and not getattr(self.optimizer, "built", False):
            build(model.trainable_variables)
        super().__init__(**attributes)
        self.save()

    def tracked(self) -> Sequence[Any]:
        return [*self.model.variables, *(optimizer_variables(self.optimizer) if self.optimizer is not None else ())]
