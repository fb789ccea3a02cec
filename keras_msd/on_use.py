"""Functions whose module is imported when they are first called."""

import inspect
from collections.abc import Callable
from typing import Any


class OnUse:
    """A function whose module is imported when it is called."""

    def __init__(self, find: Callable[[], Callable[..., Any]]) -> None:
        self.find = find

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.find())

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Call it."""
        return self.find()(*given, **options)
