"""Comparisons of controllers, and parameters of controllers."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from pathlib import Path

import conche
import polars
import pytest
from conche.controller import Acknowledged, Controller, Flight, Peer
from test_lab import SCENARIO

YARD = SCENARIO.replace('metric = "due-time-of-all"', 'metric = "due-time-of-all", primary = true')

SAME_AS_COMMAND = {
    "comparison.ndjson": "a0021a49dd4dbc90e3e7195e14b86d585c5774b15e05ec8f9d8ab2068b12ddc5",
    "comparison.txt": "99376849501acf1c4b8d2165b4d7a8f75e5d5ba6aceba3e754fde92affd4dadf",
}
"""SHA-256 of the files of `conche compare yard.toml lossy-lan --controllers default,cocoa --baseline default --runs 2`."""


class Slow(Controller):
    """Ten seconds."""

    def peer(self, now: float) -> Peer:
        return Peer(rto=10)

    def acknowledged(self, peer: Peer, flight: Flight, event: Acknowledged) -> None:
        peer.rto = 10


def test_a_comparison_is_that_of_the_command(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    results = conche.compare(
        [YARD, "lossy-lan"],
        controllers=["default", "cocoa"],
        baseline="default",
        replications=2,
        output=tmp_path,
        progress=lambda so_far, total: done.append((so_far, total)),
    )
    found = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in SAME_AS_COMMAND}
    assert found == SAME_AS_COMMAND
    assert len({total for _, total in done}) == 1 and done == sorted(done) and done[-1][0] == done[-1][1]
    ranking = polars.DataFrame(results.ranking)
    assert ranking["controller"].to_list() == ["cocoa", "default"] * 2
    assert ranking["purpose"].to_list() == [None, None, "design", "design"]
    assert ranking.filter(controller="default")["mean"].to_list() == [1, 1]
    compared = polars.DataFrame(conche.open(tmp_path).compared)
    assert len(compared.filter(scenario="yard", controller="cocoa")) == 2
    page = results._repr_html_()
    assert "<td>design</td><td>cocoa</td>" in page and "2 more values" not in page.partition("</table>")[0]


def test_a_controller_in_python_is_compared_with_others() -> None:
    results = conche.compare(YARD, controllers=["default", Slow], set={"duration": "60s"})
    ranking = polars.DataFrame(results.ranking)
    assert ranking["controller"].to_list() == ["default", "Slow"]
    assert ranking["mean"][1] > ranking["mean"][0] >= 1


def test_one_controller_needs_no_list() -> None:
    for one in ("cocoa", Slow, Slow()):
        results = conche.compare([YARD, YARD], controllers=one, only={"meters": 2}, set={"seed": 3})
        assert len(results.ranking) == len(results.compared) == 1


def test_wrong_comparisons_are_explained() -> None:
    with pytest.raises(ValueError, match="baseline `bdp` is not compared; compared are default, cocoa"):
        conche.compare(YARD, controllers=["default", "cocoa"], baseline="bdp")
    with pytest.raises(TypeError, match="pass several scenarios as a list"):
        conche.compare("gprs", "lossy-lan")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"compare\(\) takes scenarios, not Experiments"):
        conche.compare([conche.Experiment(YARD)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"compare\(\) has no argument `quick`; runs are quick"):
        conche.compare(YARD, quick=True)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="`cocoa` is there twice"):
        conche.compare(YARD, controllers=["cocoa", "cocoa"])
    with pytest.raises(conche.ScenarioError, match="two scenarios are called `yard`"):
        conche.compare([YARD, YARD.replace("seed = 1", "seed = 2")], controllers="cocoa")
    with pytest.raises(conche.ScenarioError, match="primary"):
        conche.compare(SCENARIO, controllers="cocoa")
    with pytest.raises(ValueError, match="replications: a whole number from 1"):
        conche.compare(YARD, controllers="cocoa", replications=0)
    with pytest.raises(FileNotFoundError, match="no comparison"):
        _ = conche.run(YARD, quick=True).ranking


def test_parameters_are_described_and_set_by_name() -> None:
    assert {"default", "cocoa", "temper"} <= set(conche.controllers())
    for controller in conche.controllers():
        for parameter in conche.parameters(controller):
            assert parameter.about and parameter.source
            same = conche.configured(controller, **{parameter.name: parameter.default})
            assert same.startswith(f"{controller}:{parameter.name}=")
            for bound in parameter.bounds or parameter.words:
                conche.configured(controller, **{parameter.name: bound})
            if parameter.bounds is not None:
                low, high = parameter.bounds
                assert low <= parameter.default <= high
    assert conche.configured("cocoa") == "cocoa"
    assert conche.configured("cocoa", weak_k=2, max_rto=30) == "cocoa:weak_k=2,max_rto=30s"
    assert conche.configured("cocoa", max_rto=timedelta(minutes=1), weak_k=1) == "cocoa:max_rto=60s,weak_k=1"
    assert conche.configured("default", ack_random_factor=1.23456) == "default:ack_random_factor=1.235"
    experiment = conche.Experiment(YARD).controllers(conche.configured("default", ack_timeout=0.5))
    assert {run.cell for run in experiment.plan()} == {f"default:ack_timeout=0.5s/{meters}" for meters in (2, 4)}


def test_wrong_parameters_are_explained() -> None:
    with pytest.raises(ValueError, match="did you mean"):
        conche.parameters("cocao")
    with pytest.raises(ValueError, match="cocoa has no parameter `weak`"):
        conche.configured("cocoa", weak=1)
    for wrong in (-1.0, float("nan"), float("inf"), 1e9, "soon", "60s,weak_k=2"):
        with pytest.raises(ValueError, match="max_rto"):
            conche.configured("cocoa", max_rto=wrong)
    with pytest.raises(ValueError, match="weak_k"):
        conche.configured("cocoa", weak_k=1.5)
    assert conche.configured("cocoa", weak_k=2.0) == "cocoa:weak_k=2"
    with pytest.raises(TypeError, match="weak_k: a number.* not None"):
        conche.configured("cocoa", weak_k=None)  # type: ignore[arg-type]


def test_citations_are_those_of_the_repository() -> None:
    papers = ["anrw18", "etfa14", "commag16", "bdp19", "wiopt12"]
    cited = conche.cite(*papers)
    root = Path(__file__).parent.parent.parent.parent
    titles = re.findall(r'(?<!-)title: "(.*)"', (root / "CITATION.cff").read_text())
    assert sorted(titles) == sorted(re.findall(r"(?<!book)title = \{(.*)\}", cited))
    assert f"version = {{{conche.__version__}}}" in cited
    assert conche.cite("cocoa2014", "etfa14").count("@inproceedings{etfa14") == 1
    assert "draft-ietf-core-cocoa-03" in conche.cite("cocoa:weak_k=1")
    assert conche.cite("temper") == conche.cite() == conche.cite("conche")
    assert "Bormann, Carsten" in conche.cite("cocoa")
    with pytest.raises(TypeError, match=r"cite\(\) takes names"):
        conche.cite(["anrw18"])  # type: ignore[arg-type]
    for controller in conche.controllers():
        conche.cite(controller)
    with pytest.raises(ValueError, match="did you mean `anrw18`"):
        conche.cite("anrw81")
