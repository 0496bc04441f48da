"""The conformance suite for controllers written in Python.

    from conche.conformance import check

    def test_my_controller() -> None:
        check(MyController)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .controller import Controller, own

__all__ = ["NonConforming", "Violation", "check", "violations"]


@dataclass(frozen=True)
class Violation:
    """A property that a controller lacks."""

    check: str
    """Name of the check, such as `rto_follows_rtt`, as `conche_conformance::Check` documents it."""
    problem: str
    """Expectation and result, the shortest events that violate it, or a traceback."""

    def __str__(self) -> str:
        return f"{self.check}: {self.problem}"


class NonConforming(AssertionError):
    """A controller violates checks."""

    def __init__(self, name: str, found: list[Violation]) -> None:
        checks = "1 check" if len(found) == 1 else f"{len(found)} checks"
        super().__init__("\n\n".join([f"{name} violates {checks}", *map(str, found)]))
        self.violations = found


def violations(controller: Controller[Any, Any] | type[Controller[Any, Any]]) -> list[Violation]:
    """Runs the checks that apply to `Controller.features`; returns the violated ones."""
    return [Violation(check, problem) for check, problem in own(controller).violations()]


def check(controller: Controller[Any, Any] | type[Controller[Any, Any]]) -> None:
    """Raises NonConforming if a controller violates a check. A class is called without arguments."""
    if found := violations(controller):
        raise NonConforming(own(controller).name, found)
