"""An experiment on a Ray cluster."""

from __future__ import annotations

import sys

# ANCHOR: run
import conche


def campaign(output: str) -> conche.Results:
    experiment = conche.Experiment("lossy-lan").quick().controllers("default", "cocoa")
    return experiment.run(on="ray", output=output, progress=True)
# ANCHOR_END: run


if __name__ == "__main__":
    # ANCHOR: failures
    results = campaign(sys.argv[1])
    for failure in results.failures:
        print(failure.cell, failure.replication, failure.seed, failure.problem)
    # ANCHOR_END: failures
