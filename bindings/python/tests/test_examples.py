"""The examples, which the guide quotes, do what it says."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import conche
import nbclient
import nbformat
import polars
import pytest
from conche import conformance
from conftest import LIMIT

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


def test_notebook(tmp_path: Path) -> None:
    text = (EXAMPLES / "notebook.py").read_text()
    cells = re.findall(r"# ANCHOR: \w+\n(.*?)# ANCHOR_END", text, re.DOTALL)
    cells += ["results", "from IPython.display import SVG\nSVG(results.figure('due_p95_s'))"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [[output for output in cell.outputs if "name" not in output or output.name != "stderr"] for cell in notebook.cells]
    assert outputs[0] == []
    assert all(text in outputs[1][0].text for text in ("default", "cocoa", "20"))
    assert outputs[2][0].text.splitlines() == ["5 2 runs", "20 2 runs"]
    assert "<th>95 % interval</th>" in outputs[3][0].data["text/html"]
    assert outputs[4][0].data["image/svg+xml"].startswith("<svg")


def test_tune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    example = load("tune")
    monkeypatch.setattr(example, "TRAINING", ["lossy-lan"])
    monkeypatch.setattr(example, "REPORT", ["gprs"])
    report = example.main(trials=2)
    assert report["purpose"].to_list() == ["judgement"] * len(report)
    assert {"default", "cocoa"} < set(report["controller"])
    assert "2 trials, seed 1: cocoa:strong_k=" in capsys.readouterr().out


def test_controller() -> None:
    rule = load("controller").LastRtt
    conformance.check(rule)
    experiment = conche.Experiment("lossy-lan").quick().only(loss="20%").controllers("basic", rule)
    values = polars.DataFrame(experiment.run().values)
    in_rust, in_python = (values.filter(polars.col("scheme") == name)["measured"] for name in ("basic", "LastRtt"))
    assert in_rust.to_list() == in_python.to_list() != []


def test_episode(capsys: pytest.CaptureFixture[str]) -> None:
    load("episode")
    assert " decisions in " in capsys.readouterr().out


def test_agent() -> None:
    agent = load("agent")
    network, again = agent.train(150, seed=1), agent.train(150, seed=1)
    assert all((one == other).all() for one, other in zip(network.weights, again.weights, strict=True))
    table = agent.judge(network, ["leo"], 2)
    assert set(table["scheme"]) == {"default", "cocoa", "dqn"}
    assert table["measured"].is_finite().all() and table["ci95_low"].is_finite().all()
