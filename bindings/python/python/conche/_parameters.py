"""Parameters of conche's controllers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from conche import _conche

Value = float | int | bool | str
"""Times are in seconds."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a controller."""

    name: str
    """Name, in the terms of the source."""
    default: Value
    """Value in production."""
    bounds: tuple[Value, Value] | None
    """Smallest and largest value, if it is a number."""
    words: tuple[str, ...]
    """All values, if they are words."""
    unit: str | None
    """`s` or `bytes/s`."""
    about: str
    """Effect."""
    source: str
    """RFC, draft or paper that defines it."""


def controllers() -> list[str]:
    """Returns the names of conche's controllers, which experiments, clients and servers accept."""
    return [name for name, _ in _conche.controllers()]


def parameters(controller: str) -> list[Parameter]:
    """Returns the parameters of a controller.

        weak_k = next(each for each in conche.parameters("cocoa") if each.name == "weak_k")

    Raises ValueError if no controller has this name.
    """
    return [
        Parameter(name, default, bounds, tuple(words), unit, about, source)
        for name, default, bounds, words, unit, about, source in _conche.parameters(controller)
    ]


def configured(controller: str, /, **values: Value | timedelta) -> str:
    """Returns the name of a controller with these parameters, for experiments, clients and servers.

        conche.configured("cocoa", weak_k=2, max_rto=30)  # "cocoa:weak_k=2,max_rto=30s"

    Times are in seconds. Times are rounded to a microsecond, factors to a thousandth. Raises
    ValueError if a parameter is unknown or a value out of range.
    """
    known = {parameter.name: parameter for parameter in parameters(controller)}
    texts = [(name, _text(name, known.get(name), value)) for name, value in values.items()]
    return _conche.configured(controller, texts)


def _text(name: str, parameter: Parameter | None, value: Value | timedelta) -> str:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (int, float, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name}: a number, a bool, a word or a timedelta, not {value!r}")
    if parameter is None or isinstance(value, str):
        return str(value)
    if parameter.unit == "s":
        return f"{_decimal(value, 6)}s"
    if isinstance(parameter.default, float):
        return _decimal(value, 3)
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _decimal(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".")
