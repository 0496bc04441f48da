"""Runs a campaign on Ray: `python -m conche.ray run SCENARIO -o DIR`."""

from __future__ import annotations

import argparse
import sys

import conche
from conche._conche import RunFailure

from ._driver import connect

EXAMPLES = """\
examples:
  python -m conche.ray run yard.toml -o results                                on this machine
  python -m conche.ray run yard.toml --address auto -o s3://bucket/yard        on the cluster of this machine
  python -m conche.ray run anrw18 --quick --set nodes.client.count=20 -o out   changed as by `conche run`

An interrupted campaign continues by the same command.
"""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m conche.ray", description="Campaigns on Ray.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run the experiment of a scenario",
        description="Runs the experiment of a scenario, with the results of `conche run -o`.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("scenario", metavar="SCENARIO", help="a file, or the name of a paper or network")
    run.add_argument("-o", "--output", required=True, metavar="DIR", help="directory that all nodes reach, or s3://bucket/prefix")
    run.add_argument("--address", metavar="ADDRESS", help="Ray cluster, as auto or HOST:PORT; by default of RAY_ADDRESS or this machine")
    run.add_argument("--set", action="append", default=[], type=assignment, metavar="PATH=VALUE", help="change a value; repeatable")
    run.add_argument("--only", action="append", default=[], type=assignment, metavar="AXIS=LABELS", help="select runs; repeatable")
    run.add_argument("--controllers", metavar="NAMES", help="run these controllers instead of the schemes")
    run.add_argument("--quick", action="store_true", help="run at most 3 replications, and fewer or shorter runs")
    run.add_argument("--replications", "--runs", type=int, metavar="N", help="replications of each run")
    run.add_argument("--seed", type=int, metavar="N", help="seed of all random numbers")
    run.add_argument("-j", "--jobs", type=int, metavar="N", help="runs at the same time; by default one per core of the cluster")
    run.add_argument("--exchanges", action="store_true", help="keep every exchange")
    run.add_argument("--series", type=float, metavar="SECONDS", help="keep time series in this interval of simulated time")
    run.add_argument("--overwrite", action="store_true", help="remove earlier results")
    run.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    return top


def assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise argparse.ArgumentTypeError(f"{text}: give NAME=VALUE")
    return name, value


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    only: dict[str, list[str]] = {}
    for axis, labels in given.only:
        only.setdefault(axis, []).extend(label.strip() for label in labels.split(","))
    try:
        if given.address is not None:
            connect(given.address)
        results = conche.run(
            given.scenario,
            controllers=given.controllers.split(",") if given.controllers else (),
            replications=given.replications,
            quick=given.quick,
            seed=given.seed,
            set=dict(given.set),
            only=only,
            on="ray",
            output=given.output,
            jobs=given.jobs,
            progress=not given.quiet,
            exchanges=given.exchanges,
            series=given.series,
            overwrite=given.overwrite,
        )
    except (OSError, ValueError, ImportError, RunFailure) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return 130
    for failure in results.failures:
        place = f"{failure.scenario}: {failure.cell}, replication {failure.replication}, seed {failure.seed}"
        print(f"{place} failed: {failure.problem}", file=sys.stderr)
    if not given.quiet:
        print(f"the results are in {given.output}", file=sys.stderr)
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
