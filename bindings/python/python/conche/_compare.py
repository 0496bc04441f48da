"""Comparison of controllers over several experiments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from conche import _conche
from conche.controller import AnyController, each, select

from ._lab import MAX_SEED, Experiment, Labels, LocalArguments, Results, execute, labels, read, toml, whole

if TYPE_CHECKING:
    from typing_extensions import Never, Unpack

Source = str | PathLike[str] | Mapping[str, Any]
"""A scenario, as `Experiment` takes it, or `"networks"` for all networks of conche."""

HINTS = {
    "quick": "runs are quick without `full` and `replications`",
    "on": "it runs on threads of this machine",
}
"""Hints on arguments that `run` has and `compare` lacks."""


def compare(
    sources: Source | Iterable[Source] = (),
    *others: Never,
    controllers: AnyController | Iterable[AnyController] = (),
    baseline: str | None = None,
    full: bool = False,
    replications: int | None = None,
    seed: int | None = None,
    set: Mapping[str, str | int | float | bool | list[Any]] | None = None,
    only: Mapping[str, Labels] | None = None,
    **options: Unpack[LocalArguments],
) -> Results:
    """Runs controllers in all cells of experiments, and ranks them, as `conche compare` does.

        results = conche.compare(["gprs", "lossy-lan"], controllers=["default", "cocoa", Mine])
        polars.DataFrame(results.ranking)

    - `sources`: scenarios as `Experiment` takes them, or `"networks"`; by default all papers.
    - `controllers`: names, or controllers in Python; by default all of conche.
    - `baseline`: the controller to which ratios are, instead of the best one of each cell.
    - `full`: the replications of the scenarios. Without `full` and `replications`, runs are quick.
    - `set` and `only`: changes to every scenario, as by the methods of `Experiment`.
    - Further options are those of `Experiment.run`, except `on`.

    Each purpose of networks has a ranking of its own. A `regret` of 1 means that a controller is
    in no cell significantly worse than the best one, or than the baseline.

    Raises ScenarioError if a scenario is invalid or two have the same name, ValueError if the
    baseline is not among the controllers, and the exceptions of `Experiment.run`.
    """
    if others:
        raise TypeError("compare: pass several scenarios as a list, such as compare([\"gprs\", \"lossy-lan\"])")
    for option in options:
        if option not in LocalArguments.__annotations__:
            hint = HINTS.get(option, "help(conche.compare) lists all")
            raise TypeError(f"compare() has no argument `{option}`; {hint}")
    scenarios: dict[str, _conche.Scenario] = {}
    for scenario in _scenarios(sources):
        known = scenarios.setdefault(scenario.name, scenario)
        if known.text != scenario.text:
            raise _conche.ScenarioError(f"two scenarios are called `{scenario.name}`: give one another `name`")
    names, own = select(each(controllers) or [name for name, _ in _conche.controllers()])
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the controller `{name}` is there twice; name it once")
    compared: _conche.Compared = {
        "controllers": names,
        "baseline": baseline,
        "quick": not full and replications is None,
        "replications": None if replications is None else whole("replications", replications, 1, _conche.MAX_REPLICATIONS),
        "seed": None if seed is None else whole("seed", seed, 0, MAX_SEED),
        "set": [(path, toml(value)) for path, value in (set or {}).items()],
        "only": labels(only or {}),
    }
    every = list(scenarios.values())
    return execute(
        lambda directory, of_run, shown: _conche.Scenario.compare(every, compared, own, directory, of_run, shown),
        own,
        **options,
    )


def _scenarios(sources: Source | Iterable[Source]) -> Iterator[_conche.Scenario]:
    papers, networks = _conche.Scenario.names()
    # A mapping is one scenario, and other iterables are several.
    is_one = isinstance(sources, (str, PathLike, Mapping, Experiment))
    for source in cast("list[Source]", [sources] if is_one else list(sources)) or papers:
        for name in networks if source == "networks" else [source]:
            if isinstance(name, Experiment):
                hint = f"pass the source of {name!r}, and changes by `set` and `only`"
                raise TypeError(f"compare() takes scenarios, not Experiments: {hint}")
            yield read(name)
