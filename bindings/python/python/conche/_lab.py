"""Experiments, and their results as tables."""

from __future__ import annotations

import html
import json
import operator
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from conche import _conche
from conche._conche import ScenarioError
from conche.controller import STATE, AnyController, each, select, states

if TYPE_CHECKING:
    from typing_extensions import Unpack

Progress = bool | Callable[[int, int], object] | None
"""True for a bar if standard error is a terminal, or a function of the work done and all work."""

Labels = str | int | float | Iterable[str | int | float]
"""One label of an axis, or several; `*` matches any text."""

MAX_SEED = 2**64 - 1

LEVEL = 4
"""Frames from a warning of `execute` to the caller of `run`."""

SHOWN = 20
"""Values that a notebook shows."""


class LocalArguments(TypedDict, total=False):
    """Optional arguments of `compare`, without effect on results."""

    jobs: int | None
    progress: Progress
    output: str | PathLike[str] | None
    exchanges: bool
    series: float | timedelta | None
    overwrite: bool


class RunArguments(LocalArguments, total=False):
    """Optional arguments of `Experiment.run`, without effect on results."""

    on: Literal["threads", "ray"]


@dataclass(frozen=True)
class PlannedRun:
    """One replication of one cell, which is a combination of swept values."""

    id: str
    """Hash of all that its results depend on, as in `runs.ndjson`."""
    cell: str
    """Name of the cell, such as `cocoa/80`."""
    replication: int
    """From 0."""
    seed: int
    """Seed of its random numbers; the same in all cells."""
    work: int
    """Estimated duration, in a unit common to all runs."""


@dataclass(frozen=True)
class Failure:
    """A failed run. Values are of the other runs."""

    scenario: str
    cell: str
    replication: int
    seed: int
    problem: str


class Experiment:
    """The experiment of a scenario. It is immutable: each change returns a new one.

        results = conche.Experiment("anrw18").quick().only(scheme=["default", "cocoa"]).run()

    - `source`: the path of a scenario file; the text of a scenario, which has several lines; a
      mapping with the keys of a scenario; or the name of a paper or network, such as `"anrw18"` or
      `"lossy-lan"`. Files that a scenario names are beside its file, and beside a text in the
      working directory.

    The same scenario and changes give the same results as `conche run` with the same options, byte
    by byte, with any number of threads. Experiments are equal if their runs are. A pickled one
    contains the files that its scenario names.

    Raises ScenarioError if the scenario is invalid; its text has the place. Raises OSError if the
    file cannot be read.
    """

    __slots__ = ("_scenario",)

    _scenario: _conche.Scenario

    def __init__(self, source: str | PathLike[str] | Mapping[str, Any]) -> None:
        self._scenario = read(source)

    def _changed(self, scenario: _conche.Scenario) -> Experiment:
        changed = Experiment.__new__(Experiment)
        changed._scenario = scenario
        return changed

    def set(self, path: str, value: str | int | float | bool | list[Any]) -> Experiment:
        """Changes the value at a path, as `conche run --set` does.

            experiment.set("nodes.client.count", 20).set("links.up.wire.rate", "30kbit/s")

        Points of a sweep override it. Raises ScenarioError if the path does not exist or the value
        is invalid.
        """
        return self._changed(self._scenario.set(path, toml(value)))

    def only(self, **axes: Labels) -> Experiment:
        """Selects runs by the labels of axes, as `conche run --only` does.

            experiment.only(loss=["0%", "5%"], scheme="cocoa*")

        Further labels of an axis are added to the earlier ones. Raises ScenarioError if no run is
        left, or a label does not exist.
        """
        scenario = self._scenario
        for axis, chosen in labels(axes):
            scenario = scenario.only(axis, chosen)
        return self._changed(scenario)

    def controllers(self, *controllers: AnyController | Iterable[AnyController]) -> Experiment:
        """Replaces the schemes by these controllers or lists of them, such as `"cocoa:weak_k=1"`, classes or instances
        of `conche.controller.Controller`, or schemes of the scenario; without any, by the
        scenario's schemes.

            experiment.controllers("default", Smooth, Smooth(gain=0.5))

        Raises ScenarioError if one is unknown, or two have the same name, and ValueError if results
        of one could not be told apart from those of another version.
        """
        chosen = [one for given in controllers for one in each(given)]
        return self._changed(self._scenario.controllers(*select(chosen)))

    def quick(self) -> Experiment:
        """Runs at most 3 replications, and fewer or shorter runs: the intervals are wide."""
        return self._changed(self._scenario.quick())

    def replications(self, number: int) -> Experiment:
        """Sets the replications of each cell, at least 1."""
        return self._changed(self._scenario.replications(whole("replications", number, 1, _conche.MAX_REPLICATIONS)))

    def seed(self, seed: int) -> Experiment:
        """Sets the seed of all random numbers, from 0 to 2**64 - 1."""
        return self._changed(self._scenario.seed(whole("seed", seed, 0, MAX_SEED)))

    @property
    def name(self) -> str:
        """Short name, in its values."""
        return self._scenario.name

    @property
    def title(self) -> str:
        """Title."""
        return self._scenario.title

    @property
    def text(self) -> str:
        """Text of the scenario in TOML, without the changes."""
        return self._scenario.text

    def plan(self) -> list[PlannedRun]:
        """Returns all runs, by cell and replication."""
        return [PlannedRun(*run) for run in self._scenario.plan()]

    def run(
        self,
        *,
        on: Literal["threads", "ray"] = "threads",
        jobs: int | None = None,
        progress: Progress = None,
        output: str | PathLike[str] | None = None,
        exchanges: bool = False,
        series: float | timedelta | None = None,
        overwrite: bool = False,
    ) -> Results:
        """Runs the experiment, and returns its results.

        - `on`: `"ray"` runs it on a Ray cluster, as `conche.ray` describes.
        - `jobs`: threads, or runs of the cluster at the same time; by default one per core.
        - `progress`: True shows a bar if standard error is a terminal; on Ray, lines otherwise. A function is called with
          the work done and all work, in a unit of estimated duration.
        - `output`: directory of the results, which has the files of `conche run -o`. Runs that it
          has are not repeated: tables have the runs of this call, also after one with other
          controllers or cells. With `overwrite`, its results are removed first. Without `output`,
          the results are in a temporary directory until the Results are no longer used. On Ray, a
          directory that all nodes reach, or `"s3://bucket/prefix"`.
        - `exchanges`: keeps every exchange, for `Results.exchanges`.
        - `series`: keeps time series in this interval of simulated time, in seconds, for
          `Results.series`.

        Other threads of Python run meanwhile. Ctrl-C raises KeyboardInterrupt at once; runs in
        progress end in the background, and `output` keeps them: the same call continues.

        Raises ScenarioError if the scenario cannot run, RunFailure if all runs failed, ValueError
        if a number is out of range or `output` has results of another scenario, and OSError if
        `output` cannot be written. If some runs failed, it gives a RuntimeWarning, and
        `Results.failures` has them.
        """
        if on == "ray":
            from conche import ray

            return ray.run(
                self,
                output=output,
                jobs=jobs,
                progress=progress,
                exchanges=exchanges,
                series=series,
                overwrite=overwrite,
            )
        if on != "threads":
            raise ValueError(f'on={on!r}: "threads" or "ray"')
        return execute(
            self._scenario.run,
            self._scenario.state()[3],
            jobs=jobs,
            progress=progress,
            output=output,
            exchanges=exchanges,
            series=series,
            overwrite=overwrite,
        )

    def __reduce__(self) -> tuple[Callable[..., Experiment], tuple[object, ...]]:
        return _restored, self._scenario.state()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and (self is other or self.plan() == other.plan())

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<conche.Experiment {' '.join(filter(None, [self.name, self._scenario.options]))}>"


class Table:
    """A table with Arrow's PyCapsule interface, which dataframe libraries read.

        pyarrow.table(results.runs)
        polars.DataFrame(results.runs)
        pandas.DataFrame.from_arrow(results.runs)  # pandas 3

    Tables of files are read again by each of these calls, and may be larger than memory.
    """

    __slots__ = ("_owner", "_table")

    def __init__(self, table: _conche.ArrowTable, owner: object) -> None:
        self._table = table
        # A temporary directory lives as long as its tables.
        self._owner = owner

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._table.columns

    def __len__(self) -> int:
        return self._table.length

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the rows as a capsule; `requested_schema` has no effect."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<conche.Table of {len(self)} rows: {', '.join(self.columns)}>"


class Results:
    """The results of an experiment, in a directory. `Experiment.run` and `open` return them.

    The files are those of `conche run -o` or `conche compare -o`.
    """

    __slots__ = ("_directory", "_stored", "_temporary")

    def __init__(self, directory: Path, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self._directory = directory
        self._temporary = temporary
        self._stored = _conche.Stored.read(directory)

    @property
    def directory(self) -> Path:
        """Directory of the results; a temporary one is removed with the last reference to them."""
        return self._directory

    @property
    def failures(self) -> list[Failure]:
        """Failed runs."""
        return [Failure(*failure) for failure in self._stored.failures()]

    @property
    def values(self) -> Table:
        """One row for each measured value over all replications.

        `row` and `column` name it, `measured` is in `unit`, `ci95_low` to `ci95_high` is its 95 %
        confidence interval, which is null for one replication. Columns `axis.NAME` have its
        position in the experiment.
        """
        return Table(self._stored.values(), self._temporary)

    @property
    def claims(self) -> Table:
        """Two rows for each claim of a paper, with the columns of `values`, without a position.

        One is the compared value; the other, whose `column` ends in `_holds`, is the verdict: 1 if
        the claim holds, 0 if it does not, and 0.5 if the runs are inconclusive.
        """
        return Table(self._stored.claims(), self._temporary)

    @property
    def ranking(self) -> Table:
        """One row for each controller of `conche.compare`, the best first, for each purpose of scenarios.

        Ratios are factors by which a value is worse than that of the best controller, or of the
        `baseline`. `mean` is their geometric mean over all `cells`, with its 95 % confidence interval;
        `regret` the largest that differs significantly from 1. In `behind` and `ahead` cells the
        ratio is significantly above and below 1; in `dominated` of the `points`, another controller is
        better in every metric. Raises FileNotFoundError for results of one experiment.
        """
        return self._comparison(self._stored.ranking())

    @property
    def compared(self) -> Table:
        """One row for each metric, cell and controller of `conche.compare`, with its value and ratio.

        Raises FileNotFoundError for results of one experiment.
        """
        return self._comparison(self._stored.compared())

    def _comparison(self, table: _conche.ArrowTable | None) -> Table:
        if table is None:
            message = "no comparison; `conche.compare` and `conche compare` make one"
            raise FileNotFoundError(2, message, os.fspath(self._directory))
        return Table(table, self._temporary)

    @property
    def runs(self) -> Table:
        """One row for each run and value: `runs.parquet`."""
        return self._parquet("runs.parquet")

    @property
    def exchanges(self) -> Table:
        """One row for each exchange. Raises FileNotFoundError without `exchanges=True`."""
        return self._parquet("exchanges.parquet", "run(exchanges=True)")

    @property
    def series(self) -> Table:
        """Time series of clients and links. Raises FileNotFoundError without `series`."""
        return self._parquet("series.parquet", "run(series=1)")

    def _parquet(self, name: str, option: str = "run()") -> Table:
        path = self._directory / name
        if not path.exists():
            raise FileNotFoundError(2, f"{option} keeps this table", os.fspath(path))
        return Table(_conche.ArrowTable.parquet(path), self._temporary)

    def figure(self, column: str, *, only: Mapping[str, Labels] | None = None) -> str:
        """Draws a value over a numeric axis as an SVG image, with one line per scheme.

            results.figure("fct_median_s", only={"buffer": "inf"})

        Raises ValueError if the value does not exist, or an axis other than that of the numbers has
        several labels; its text names them.
        """
        return self._stored.figure(column, labels(only or {}))

    def html(self) -> str:
        """Returns the results as one HTML page, as `conche report` writes it."""
        return self._stored.html()

    def _failed(self) -> str:
        """Returns the number of failed runs and the first, or nothing."""
        failures = self.failures
        if not failures:
            return ""
        first = failures[0]
        of = first.problem.strip().rpartition("\n")[2]
        place = f"{first.scenario}, {first.cell}, replication {first.replication}"
        return f"{len(failures)} of {self._stored.runs} runs failed, the first in {place}: {of}"

    def _repr_html_(self) -> str:
        def factor(value: float | None) -> str:
            return "" if value is None else f"{value:.2f}"

        ranked = self._stored.ranked()
        standings = [
            (purpose or "", name, factor(regret), factor(mean), _between(interval, ".2f"))
            for purpose, name, regret, mean, interval in ranked
        ]
        ranking = _rows(("purpose", "controller", "regret", "mean", "95 % interval"), standings) if ranked else ""
        values, total = self._stored.first(SHOWN)
        first = [
            (row, column, f"{measured:.6g}", _between(interval, ".6g"), unit)
            for row, column, measured, interval, unit in values
        ]
        more = f"<p>{total - SHOWN} more values</p>" if total > SHOWN else ""
        failed = self._failed()
        note = f"<p>{html.escape(failed)}</p>" if failed else ""
        return f"{note}{ranking}{_rows(('row', 'column', 'measured', '95 % interval', 'unit'), first)}{more}"

    def __repr__(self) -> str:
        failed = self._failed()
        note = f"; {failed}" if failed else ""
        return f"<conche.Results of {', '.join(self._stored.names)} in {self._directory}{note}>"


def run(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    controllers: AnyController | Iterable[AnyController] = (),
    replications: int | None = None,
    quick: bool = False,
    seed: int | None = None,
    set: Mapping[str, str | int | float | bool | list[Any]] | None = None,
    only: Mapping[str, Labels] | None = None,
    **options: Unpack[RunArguments],
) -> Results:
    """Runs the experiment of a scenario: `Experiment`, its changes and `Experiment.run` in one.

        results = conche.run("lossy-lan", controllers=["default", "cocoa"], quick=True)
    """
    experiment = Experiment(source)
    for path, value in (set or {}).items():
        experiment = experiment.set(path, value)
    if chosen := each(controllers):
        experiment = experiment.controllers(*chosen)
    if quick:
        experiment = experiment.quick()
    if replications is not None:
        experiment = experiment.replications(replications)
    if seed is not None:
        experiment = experiment.seed(seed)
    # Last: the names of controllers are labels.
    return experiment.only(**(only or {})).run(**options)


def _between(interval: tuple[float, float] | None, form: str) -> str:
    return f"{interval[0]:{form}} to {interval[1]:{form}}" if interval else ""


def _rows(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def execute(
    start: Callable[[Path, _conche.RunOptions, Callable[[int, int], object] | None], object],
    own: Iterable[_conche.OwnController],
    *,
    jobs: int | None = None,
    progress: Progress = None,
    output: str | PathLike[str] | None = None,
    exchanges: bool = False,
    series: float | timedelta | None = None,
    overwrite: bool = False,
) -> Results:
    """Runs what `start` runs into a directory, with options of `Experiment.run`.

    Warns of failures, and of controllers in Python that runs have changed.
    """
    jobs = None if jobs is None else whole("jobs", jobs, 1, _conche.MAX_JOBS)
    interval = series.total_seconds() if isinstance(series, timedelta) else series
    if interval is not None and not isinstance(interval, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"series: an interval above 0, in seconds, not {series!r}")
    if output is not None and "://" in os.fspath(output):
        raise ValueError(f'output={output!r}: only runs with on="ray" write to an object store; name a directory')
    temporary = None
    if output is None:
        temporary = tempfile.TemporaryDirectory(prefix="conche-", ignore_cleanup_errors=True)
    directory = Path(temporary.name if temporary else cast("str | PathLike[str]", output))
    bar = _Bar() if progress is True and sys.stderr.isatty() else None
    shown = bar or (progress if callable(progress) else None)
    before = states(own)
    try:
        options: _conche.RunOptions = {
            "jobs": jobs,
            "exchanges": exchanges,
            "series": interval,
            "overwrite": overwrite,
        }
        start(directory, options, shown)
    finally:
        if bar is not None:
            bar.clear()
    warn_of_changed(before, own)
    results = Results(directory, temporary)
    warn_of_failures(results)
    return results


def whole(name: str, value: int, least: int, most: int) -> int:
    """Returns a whole number. Raises TypeError for others, and ValueError beyond the bounds."""
    expected = f"{name}: a whole number from {least} to {most}, not {value!r}"
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(expected) from None
    if not least <= number <= most:
        raise ValueError(expected)
    return number


def warn_of_changed(before: list[tuple[str, str]], own: Iterable[_conche.OwnController]) -> None:
    """Warns if runs have changed controllers in Python since they had these states."""
    for now, then in zip(states(own), before, strict=True):
        if now == then:
            continue
        text = f"{now[0]} changed its own attributes during runs: results may depend on their order; {STATE}"
        warnings.warn(text, RuntimeWarning, stacklevel=LEVEL)


def warn_of_failures(results: Results) -> None:
    """Warns if runs failed."""
    if failed := results._failed():  # pyright: ignore[reportPrivateUsage]
        warnings.warn(f"{failed}; see results.failures", RuntimeWarning, stacklevel=LEVEL)


def open(directory: str | PathLike[str]) -> Results:
    """Reads the results that `conche run -o`, another command with `-o` or `Experiment.run` has written.

    Raises OSError if the directory has no results or an invalid file.
    """
    return Results(Path(directory))


def papers() -> list[str]:
    """Returns the names of the papers that `Experiment` repeats."""
    return _conche.Scenario.names()[0]


def networks() -> list[str]:
    """Returns the names of conche's own networks, which `Experiment` takes."""
    return _conche.Scenario.names()[1]


def read(source: str | PathLike[str] | Mapping[str, Any]) -> _conche.Scenario:
    """Reads a scenario, as `Experiment` describes."""
    if isinstance(source, Mapping):
        try:
            text = json.dumps(source)
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"scenario: {error}") from None
        return _conche.Scenario.read(_conche.Scenario.toml(text))
    if isinstance(source, str) and "\n" in source:
        return _conche.Scenario.read(source)
    path = Path(source)
    named = _conche.Scenario.named(source) if isinstance(source, str) and not path.exists() else None
    if named is not None:
        return named
    try:
        return _conche.Scenario.read(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        near = get_close_matches(os.fspath(source), papers() + networks(), 1)
        names = f"papers are {', '.join(papers())}; networks are {', '.join(networks())}"
        hint = f"did you mean `{near[0]}`?" if near else names
        message = f"no file, paper or network has this name; {hint}"
        raise FileNotFoundError(2, message, os.fspath(source)) from None


def _restored(
    text: str, files: list[tuple[str, str]], effort: str, own: list[_conche.OwnController]
) -> Experiment:
    experiment = Experiment.__new__(Experiment)
    experiment._scenario = _conche.Scenario.restore(text, files, effort, own)  # pyright: ignore[reportPrivateUsage]
    return experiment


def toml(value: object) -> str:
    """Formats a value as `conche run --set` takes it. Raises TypeError for other types."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, list)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return repr(value)
    raise TypeError(f"a value is a str, a number, a bool or a list of these, not {type(value).__name__}")


def labels(axes: Mapping[str, Labels]) -> list[tuple[str, list[str]]]:
    """Returns labels by axis as texts."""
    def each(chosen: Labels) -> Iterator[str]:
        if isinstance(chosen, (str, int, float)):
            yield str(chosen)
        else:
            yield from map(str, chosen)

    return [(axis, list(each(chosen))) for axis, chosen in axes.items()]


class _Bar:
    """Progress on standard error."""

    WIDTH = 40

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        part = done / total
        full = "#" * int(part * self.WIDTH)
        elapsed = time.monotonic() - self._began
        print(f"\r{full:-<{self.WIDTH}} {part:4.0%}  {elapsed:.0f} s elapsed", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
