"""Doing something to a module as soon as somebody imports it, without importing it for those who do not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["forget_imports", "on_import"]

Action = Callable[[ModuleType], None]


def on_import(name: str, action: Action) -> None:
    """Call `action` with the module `name`: now if it is loaded, else right after it has been."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    _FINDER.waiting[name] = action
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def forget_imports() -> None:
    """Wait for no module any more."""
    _FINDER.waiting.clear()
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


class _Finder(MetaPathFinder):
    """Finds nothing by itself: has the others find a module that is waited for, and adds the action to its loading."""

    def __init__(self) -> None:
        self.waiting: dict[str, Action] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Acting(spec.loader, self.waiting.pop(fullname))
                return spec
        return None


class _Acting(Loader):
    """The loader of one module, which acts when the module is loaded and leaves no trace on it."""

    def __init__(self, loader: Loader, action: Action) -> None:
        self._loader = loader
        self._action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._action(module)


_FINDER = _Finder()
