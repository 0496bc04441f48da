"""Experiments of the lab, and their results in dataframe libraries."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import conche
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import LIMIT

SCENARIO = """\
schema = 1
name = "yard"
title = "Meters in a yard"
replications = 2
seed = 1
duration = "5s"
schemes = [
    { name = "default", controller = "default" },
    { name = "cocoa", controller = "cocoa" },
]
values = [
    { column = "due_s", metric = "due-time-of-all", statistic = { percentile = 95 } },
    { column = "failed_percent", metric = "loss" },
]
nodes = [{ name = "meter", count = 2 }, { name = "server" }]

[[links]]
name = "radio"
between = ["meter", "server"]
wire = { rate = "250kbit/s", delay = "10ms", loss = "20%" }

[[traffic]]
name = "read"
from = "meter"
to = "server"

[[sweep]]
name = "meters"
path = "nodes.meter.count"
values = [2, 4]
"""

SAME_AS_COMMAND = {
    "figures.ndjson": "baf0b5965bdac917b89498acc164c238ca9af26fb8cbe7c9fc867af76c1f64dc",
    "yard.txt": "db3c70507b912f56710f6249cf5f4b2662f0f3fee150c52a97a486eeb0234989",
    "runs.parquet": "250399b9ce7bbaf9c26c4c0f4a8b1d029c5bd804f85d017477310428ea7be999",
}
"""SHA-256 of the files of `conche run yard.toml --quick --set links.radio.wire.delay=20ms -o DIR`."""


@pytest.fixture(scope="module")
def results() -> conche.Results:
    return conche.Experiment(SCENARIO).run(exchanges=True, series=timedelta(seconds=1))


def test_files_are_those_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "yard.toml"
    file.write_text(SCENARIO)
    experiment = conche.Experiment(file).quick().set("links.radio.wire.delay", "20ms")
    assert experiment.run(output=tmp_path / "out", jobs=1).directory == tmp_path / "out"
    found = {name: hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() for name in SAME_AS_COMMAND}
    assert found == SAME_AS_COMMAND


def test_an_experiment_is_immutable_and_has_a_plan() -> None:
    experiment = conche.Experiment(SCENARIO)
    assert (experiment.name, experiment.title, experiment.text) == ("yard", "Meters in a yard", SCENARIO)
    plan = experiment.plan()
    assert len(plan) == 8 and len({run.id for run in plan}) == 8
    assert {run.cell for run in plan} == {"default/2", "default/4", "cocoa/2", "cocoa/4"}
    changed = experiment.only(meters=4).controllers("cocoa:weak_k=1").replications(3).seed(7)
    assert {run.cell for run in changed.plan()} == {"cocoa:weak_k=1/4"}
    assert [run.replication for run in changed.plan()] == [0, 1, 2]
    assert experiment.plan() == plan
    assert repr(changed) == (
        "<conche.Experiment yard --runs 3 --seed 7 --controllers cocoa:weak_k=1 --only meters=4>"
    )


def test_an_experiment_is_pickled_with_its_files(tmp_path: Path) -> None:
    changed = conche.Experiment(SCENARIO).only(meters=4).controllers("cocoa:weak_k=1").replications(3).seed(7)
    changed = changed.quick().set("links.radio.wire.delay", "20ms")
    again = pickle.loads(pickle.dumps(changed))
    assert again == changed and hash(again) == hash(changed) and repr(again) == repr(changed)
    assert changed != conche.Experiment(SCENARIO) != SCENARIO
    (tmp_path / "rates.csv").write_text("time_s,bit_per_s\n0,250000\n20,0\n")
    wire, traced = 'wire = { rate = "250kbit/s",', 'trace = { rates = { csv = "rates.csv" } }\nwire = {'
    (tmp_path / "yard.toml").write_text(SCENARIO.replace(wire, traced))
    traced = conche.Experiment(tmp_path / "yard.toml")
    pickled = pickle.dumps(traced)
    (tmp_path / "rates.csv").unlink()
    assert pickle.loads(pickled) == traced != conche.Experiment(SCENARIO)


@pytest.mark.parametrize("name", ["anrw18", "etfa14", "lossy-lan"])
def test_a_named_experiment_is_pickled(name: str) -> None:
    assert pickle.loads(pickle.dumps(conche.Experiment(name).quick())) == conche.Experiment(name).quick()


def test_a_mapping_is_a_scenario() -> None:
    keys: dict[str, Any] = {
        "schema": 1,
        "name": "mapped",
        "title": "Keys of a mapping",
        "seed": 1,
        "replications": 1,
        "duration": "5s",
        "schemes": [{"name": "default", "controller": "default"}],
        "values": [{"column": "failed_percent", "metric": "loss"}],
        "nodes": [{"name": "client", "count": 2}, {"name": "server"}],
        "links": [{"name": "l", "between": ["client", "server"], "wire": {"delay": "10ms"}}],
        "traffic": [{"name": "t", "from": "client", "to": "server"}],
    }
    results = conche.run(keys)
    assert pyarrow.table(results.values)["measured"].to_pylist() == [0]
    with pytest.raises(conche.ScenarioError, match="widht"):
        conche.Experiment(keys | {"widht": 1})
    with pytest.raises(conche.ScenarioError, match="not JSON serializable"):
        conche.Experiment(keys | {"name": object()})


def test_papers_and_networks_have_names(tmp_path: Path) -> None:
    assert conche.Experiment("anrw18").name == "anrw18"
    assert conche.Experiment("lossy-lan").quick().plan()
    with pytest.raises(FileNotFoundError, match="did you mean `lossy-lan`"):
        conche.Experiment("lossy-lam")
    with pytest.raises(FileNotFoundError, match="no file, paper or network"):
        conche.Experiment(tmp_path / "none.toml")


def test_errors_have_the_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(SCENARIO.replace('delay = "10ms"', 'delay = "10 parsecs"'))
    with pytest.raises(conche.ScenarioError, match=r"bad\.toml, line 20: .*10 parsecs") as error:
        conche.Experiment(file)
    assert isinstance(error.value, ValueError)
    experiment = conche.Experiment(SCENARIO)
    with pytest.raises(conche.ScenarioError, match="nodes.metre"):
        experiment.set("nodes.metre.count", 3)
    with pytest.raises(conche.ScenarioError, match="99"):
        experiment.only(meters=99)
    with pytest.raises(conche.ScenarioError, match="cocoaa"):
        experiment.controllers("cocoaa")
    with pytest.raises(TypeError, match="not dict"):
        experiment.set("nodes.meter.count", {})  # type: ignore[arg-type]
    for wrong in ({"jobs": 0}, {"jobs": 1_000_000}, {"series": 0.0}, {"series": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            experiment.run(**wrong)  # type: ignore[arg-type]


def test_tables_are_those_of_the_files(results: conche.Results) -> None:
    runs = pyarrow.table(results.runs)
    stored = pyarrow.parquet.read_table(results.directory / "runs.parquet")
    assert runs.replace_schema_metadata() == stored.replace_schema_metadata()
    assert len(results.runs) == runs.num_rows > 0 and results.runs.columns == runs.column_names
    assert polars.DataFrame(results.runs).shape == (runs.num_rows, runs.num_columns)
    assert pyarrow.table(results.exchanges).num_rows > 0
    assert set(pyarrow.table(results.series)["scheme"].to_pylist()) >= {"default", "cocoa"}


def test_values_are_a_table(results: conche.Results) -> None:
    frame: pandas.DataFrame = pyarrow.table(results.values).to_pandas()
    assert len(frame) == 8 and set(frame["scheme"]) == {"default", "cocoa"}
    assert set(frame["axis.meters"]) == {2, 4}
    failed = polars.DataFrame(results.values).filter(polars.col("column") == "failed_percent")
    assert failed["axis.meters"].to_list() == [2, 4, 2, 4]
    assert failed["unit"].unique().to_list() == ["%"] and failed["runs"].to_list() == [2] * 4
    assert len(results.claims) == 0 and results.failures == []
    shown = results._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.count("<tr>") == 9 and "cocoa/4" in shown


def test_claims_have_an_outcome_and_a_verdict() -> None:
    claims = polars.DataFrame(conche.run("etfa14", quick=True, replications=1).claims)
    verdicts = claims.filter(polars.col("column").str.ends_with("_holds"))
    assert 0 < len(verdicts) == len(claims) // 2
    # One replication has no interval to judge by.
    assert verdicts["measured"].unique().to_list() == [0.5]


def test_a_figure_and_a_page_are_drawn(results: conche.Results) -> None:
    figure = results.figure("due_s")
    assert figure.startswith("<svg") and "cocoa" in figure
    assert "cocoa" not in results.figure("due_s", only={"scheme": "default"})
    with pytest.raises(ValueError, match="failed_percent"):
        results.figure("speed")
    assert "Meters in a yard" in results.html()


def test_a_directory_is_continued_and_opened(tmp_path: Path) -> None:
    experiment = conche.Experiment(SCENARIO).only(meters=4)
    calls: list[tuple[int, int]] = []
    first = experiment.run(output=tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0
    again = conche.open(tmp_path)
    assert pyarrow.table(again.values) == pyarrow.table(first.values)
    with pytest.raises(FileNotFoundError, match="exchanges"):
        again.exchanges  # noqa: B018
    journal = (tmp_path / "runs.ndjson").read_bytes()
    experiment.run(output=tmp_path)
    assert (tmp_path / "runs.ndjson").read_bytes() == journal
    other = conche.Experiment(SCENARIO.replace("Meters", "Lamps"))
    with pytest.raises(ValueError, match="another scenario"):
        other.run(output=tmp_path)
    with pytest.raises(OSError, match="no result directory"):
        conche.open(tmp_path / "none")


def test_a_temporary_directory_lives_as_long_as_its_tables() -> None:
    results = conche.run(SCENARIO, only={"meters": 2}, controllers=["default"], replications=1)
    directory, runs = results.directory, results.runs
    del results
    gc.collect()
    assert pyarrow.table(runs).num_rows > 0
    del runs
    gc.collect()
    assert not directory.exists()


def test_an_error_of_progress_ends_the_experiment(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise LookupError(f"at {done} of {total}")

    with pytest.raises(LookupError):
        conche.run(SCENARIO, output=tmp_path, progress=stop)


INTERRUPTED = """
import os, sys, conche
experiment = conche.Experiment(sys.argv[1]).set("duration", "100h").replications(1000)
begun = lambda done, total: print("begun", flush=True)
try:
    experiment.run(jobs=1, progress=begun, output=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(7)
"""


def test_ctrl_c_interrupts_an_experiment(tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("sends SIGINT")
    command = [sys.executable, "-c", INTERRUPTED, SCENARIO.replace('"5s"', '"50s"'), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        journal = tmp_path / "out/runs.ndjson"
        while not journal.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT)
    assert output.splitlines()[-1] == "interrupted" and process.returncode == 7


def test_wrong_numbers_and_options_are_explained(tmp_path: Path) -> None:
    experiment = conche.Experiment(SCENARIO).only(meters=4)
    options: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"jobs": -1}, ValueError, "jobs: a whole number from 1 to 1024, not -1"),
        ({"jobs": 1.5}, TypeError, "jobs: a whole number"),
        ({"jobs": "2"}, TypeError, "jobs: a whole number"),
        ({"series": "1"}, TypeError, "series: an interval above 0"),
        ({"series": 0}, ValueError, "series: an interval above 0"),
        ({"on": "gpu"}, ValueError, '"threads" or "ray"'),
        ({"output": "s3://bucket"}, ValueError, 'on="ray"'),
    ]
    for wrong, error, text in options:
        with pytest.raises(error, match=text):
            experiment.run(**wrong)
    for change in (experiment.seed, experiment.replications):
        with pytest.raises(ValueError, match="a whole number from"):
            change(-1)
    results = experiment.replications(1).run(output=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"run\(exchanges=True\)"):
        _ = results.exchanges
    with pytest.raises(FileNotFoundError, match=r"run\(series=1\)"):
        _ = results.series
    with pytest.raises(ValueError, match="overwrite=True"):
        conche.run("gprs", quick=True, output=tmp_path)


def test_names_of_experiments_are_listed() -> None:
    assert "anrw18" in conche.papers() and "lossy-lan" in conche.networks()
    with pytest.raises(FileNotFoundError, match="papers are etfa14.*networks are codel"):
        conche.Experiment("zzzzzz")
