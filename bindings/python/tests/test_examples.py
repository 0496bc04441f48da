"""The examples, which the guide quotes, do what it says."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import conche
import polars
import pytest
from conche import conformance

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # By which inspect finds the source of a class.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_thermometer(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncio.run(load("thermometer").main()) == ["20.5", "21.0"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2.05 20.5 0.") and lines[1:3] == ["kitchen 20.5", "cellar 11.0"]
    assert lines[3].endswith("the server answers 4.04 Not Found: no thermometer is in the attic")


def test_secured() -> None:
    assert asyncio.run(load("secured").main()) == ["hello, lamp-7", "hello, 63"]


def test_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    late = load("notebook").late
    assert set(late["scheme"]) == {"default", "cocoa"} and set(late["axis.loss_percent"]) == {1, 5, 20}
    assert capsys.readouterr().out.splitlines()[-2:] == ["5 2 runs", "20 2 runs"]


def test_controller() -> None:
    rule = load("controller").LastRtt
    conformance.check(rule)
    experiment = conche.Experiment("lossy-lan").quick().only(loss="20%").controllers("basic", rule)
    values = polars.DataFrame(experiment.run().values)
    in_rust, in_python = (values.filter(polars.col("scheme") == name)["measured"] for name in ("basic", "LastRtt"))
    assert in_rust.to_list() == in_python.to_list() != []
