"""What goes wrong, as exceptions. Their text is the line that the program prints."""

from __future__ import annotations


class Error(Exception):
    """Something that could not be done. ``str(error)`` is one line: what was being done, to what, what was wrong, what would help."""

    def __init__(self, text: str, doing: str = "", object: str = "", problem: str = "", hint: str = "") -> None:
        super().__init__(text)
        self.doing = doing
        """What was being done: ``"reading model.safetensors"``."""
        self.object = object
        """To what: a path, a parameter; may be empty."""
        self.problem = problem
        """What was wrong."""
        self.hint = hint
        """What would help; may be empty."""

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str, str, str]]:
        return type(self), (str(self), self.doing, self.object, self.problem, self.hint)


class BadInput(Error, ValueError):
    """A file, a setting or a text is at fault. The program ends with status 2 here."""


class Failure(Error, RuntimeError):
    """A device, a disk or memory is at fault. The program ends with status 1 here."""
