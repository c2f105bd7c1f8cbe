"""Names of things that users choose by name, open from outside: by a call, or by entry points of other packages."""

import difflib
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar, final

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*(/[a-z0-9]+([-_.][a-z0-9]+)*)*")


@final
class Registry(MutableMapping[str, T], Generic[T]):
    """A mapping from names to what they stand for, with entries of other packages.

    The built-in entries come first, then entry points of installed packages, then what was registered by a call. An
    entry point is found when the names are first listed, or when a name is asked for that is not built in; what it
    points to is imported only when it is asked for. Of two entries of one name the earlier holds, with a warning.

    Args:
        kind: What an entry is, in messages: "problem".
        group: The group of entry points: "mico.problems".
        entries: The built-in entries.
        check: Is called with the name and the value of every entry that comes from outside. It raises a ValueError
            for what cannot be an entry, and returns the entry.

    Examples:
        >>> shapes = Registry("shape", "example.shapes", {"circle": "round"})
        >>> shapes.register("square", "angular")
        'angular'
        >>> list(shapes), shapes["square"]
        (['circle', 'square'], 'angular')
        >>> shapes.look_up("cirle")
        Traceback (most recent call last):
            ...
        ValueError: shape must be one of circle, square, got 'cirle': did you mean circle?
    """

    def __init__(
        self,
        kind: str,
        group: str,
        entries: Mapping[str, T] | None = None,
        *,
        check: Callable[[str, Any], T] | None = None,
    ):
        self.kind, self.group = kind, group
        self._check = check
        self._entries: dict[str, T | EntryPoint] = dict(entries or {})
        self._origin = dict.fromkeys(self._entries, "mico itself")
        self._is_complete = False

    def register(self, name: Any, value: T, *, replace: bool = False) -> T:
        """Add an entry.

        Args:
            name: Its name: lower case letters and digits, in words that `-`, `_`, `.` or `/` separate.
            value: The entry.
            replace: Whether it may take the place of an entry that was registered by a call before, as when a cell of
                a notebook runs again. Names that are built in, or that an installed package has, cannot be replaced.

        Returns:
            The entry.

        Raises:
            ValueError: If the name is taken or not of that form, or the value cannot be an entry.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(
                f"name must be lower case letters and digits, in words that '-', '_', '.' or '/' separate, got {name!r}"
            )
        self._find_entry_points()
        if name in self._entries and _is_same(self._entries[name], value):
            entry = self._entries[name] = self._checked(name, value)
            return entry
        if name in self._entries and not (replace and self._origin[name] == "a call"):
            hint = "; replace=True replaces it" if self._origin[name] == "a call" and not replace else ""
            raise ValueError(
                f"name must be one that no other {self.kind} has, got {name!r}, which was registered by "
                f"{self._origin[name]}{hint}"
            )
        entry = self._checked(name, value)
        self._entries[name], self._origin[name] = entry, "a call"
        return entry

    def look_up(self, name: Any, given_as: str | None = None) -> T:
        """The entry of a name, with an error that suggests names.

        Args:
            name: The name.
            given_as: The parameter that the error names; by default the kind.

        Returns:
            The entry.

        Raises:
            ValueError: If nothing has that name, or the package that has it cannot be imported.
        """
        if isinstance(name, str) and name in self:
            return self[name]
        names = list(self)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) if isinstance(name, str) else []
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"{given_as or self.kind} must be one of {', '.join(names)}, got {name!r}{hint}")

    def origin(self, name: str) -> str:
        """Who registered a name: "mico itself", "a call", or a package and its version."""
        if name not in self:
            raise KeyError(name)
        return self._origin[name]

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(name)
        found = self._entries[name]
        if isinstance(found, EntryPoint):
            found = self._entries[name] = self._loaded(found)
        return found

    def __setitem__(self, name: str, value: T) -> None:
        """Put an entry in the place of any other; `register` is the way that refuses names which are taken."""
        self._entries[name], self._origin[name] = value, "a call"

    def __delitem__(self, name: str) -> None:
        del self._entries[name], self._origin[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            self._find_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._find_entry_points()
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        self._find_entry_points()
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, {', '.join(self)})"

    def _find_entry_points(self) -> None:
        """List the entry points of the group once, without importing what they point to."""
        if self._is_complete:
            return
        self._is_complete = True
        for point in _entry_points(self.group):
            origin = _package(point)
            if not _NAME.fullmatch(point.name):
                warnings.warn(f"{origin}: {point.name!r} is no name of a {self.kind}, it is left out", stacklevel=4)
            elif point.name in self._entries:
                by = self._origin[point.name]
                if by != origin:  # one package can be found twice on the path
                    text = f"{origin}: the {self.kind} {point.name!r} is left out, {by} has one of that name"
                    warnings.warn(text, stacklevel=4)
            else:
                self._entries[point.name], self._origin[point.name] = point, origin

    def _loaded(self, point: EntryPoint) -> T:
        what = f"{self.kind} {point.name!r} of {self._origin[point.name]}"
        try:
            value = point.load()
        except Exception as error:  # whatever importing the code of others raises
            raise ValueError(f"{what} cannot be imported from {point.value!r}: {error}") from error
        try:
            return self._checked(point.name, value)
        except ValueError as error:
            raise ValueError(f"{what} cannot be used: {error}") from error

    def _checked(self, name: str, value: Any) -> T:
        return value if self._check is None else self._check(name, value)


def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # 10 ms, which a built-in name need not wait for

    return tuple(entry_points(group=group))


def _is_same(entry: Any, value: Any) -> bool:
    """Whether an entry is this value, or the entry point of it: a package may declare and register the same."""
    if isinstance(entry, EntryPoint):
        named = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
        there = getattr(sys.modules.get(entry.module), entry.attr, None)  # an object has no name of its own
        return entry.value == named or (there is not None and there is value)
    return entry is value


def _package(point: EntryPoint) -> str:
    found = point.dist
    return f"entry point {point.value!r}" if found is None else f"{found.name} {found.version}"
