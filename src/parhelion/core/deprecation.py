"""Deprecated public names. They work for one more version and warn with the replacement.

old = deprecated_alias("old", new)                          # a function or a class
class Weather:
    but = deprecated_method("but", "replace")               # a method or an attribute
__getattr__ = deprecated_names(__name__, {"read_turns": "read_frames"})   # names of a module
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar, cast

REMOVED_IN = "0.3"
"""Version in which the deprecated names will be removed."""

Function = TypeVar("Function", bound=Callable[..., Any])


def warn_deprecated(old: str, new: str, *, stacklevel: int = 2) -> None:
    """Warn that `old` is deprecated and that `new` replaces it; `stacklevel` 2 is the caller of the caller."""
    warnings.warn(
        f"{old} is deprecated and will be removed in version {REMOVED_IN}; use {new} instead",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


def deprecated_alias(old: str, new: Function, *, use: str = "") -> Function:
    """Return a function that warns and calls `new`; `use` is the name in the warning, by default that of `new`."""

    @functools.wraps(new)
    def alias(*args: Any, **options: Any) -> Any:
        warn_deprecated(f"{old}()", use or f"{new.__name__}()")
        return new(*args, **options)

    alias.__name__, alias.__doc__ = old, f"Deprecated: use `{use or new.__name__}`."
    return cast(Function, alias)


class deprecated_method:
    """Method, property or attribute of a class under its old name."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new
        self.__doc__ = f"Deprecated: use `{new}`."

    def __get__(self, instance: Any, owner: type) -> Any:
        warn_deprecated(f"{owner.__name__}.{self._old}", f"{owner.__name__}.{self._new}")
        return getattr(owner if instance is None else instance, self._new)


def deprecated_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module-level `__getattr__` that resolves old names with a warning.

    A value is a name in the same module, or `package.module:name` for another module.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, new = names[name].rpartition(":")
        warn_deprecated(f"{module}.{name}", f"{place or module}.{new}")
        return getattr(import_module(place) if place else sys.modules[module], new)

    return find


def keyword_only(*names: str, stacklevel: int = 2) -> Callable[[Function], Function]:
    """Decorator that still accepts extra positional arguments for the keyword arguments `names`, with a warning."""

    def decorate(function: Function) -> Function:
        most: int = cast(Any, function).__code__.co_argcount

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            extra = args[most:]
            if not extra or len(extra) > len(names):
                return function(*args, **options)
            given = dict(zip(names, extra, strict=False))
            for name in given:
                if name in options:
                    raise TypeError(f"{function.__qualname__}() got multiple values for argument {name!r}")
            words = ", ".join(f"{name}=" for name in given)
            warn_deprecated(
                f"{function.__qualname__}() with {', '.join(given)} by position", words, stacklevel=stacklevel
            )
            return function(*args[:most], **given, **options)

        return cast(Function, call)

    return decorate
