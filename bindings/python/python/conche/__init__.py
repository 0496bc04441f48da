"""conche: a CoAP stack in Rust with selectable congestion control, and the lab that tests it.

- `conche.aio`: CoAP client and server for asyncio.
- `Experiment`, `run` and `open`: simulated experiments on congestion control, such as those of
  published papers, and their results as tables.

      import conche
      import polars

      results = conche.run("lossy-lan", controllers=["default", "cocoa"], quick=True)
      polars.DataFrame(results.values)
"""

from conche._conche import RunFailure, ScenarioError, __version__

from ._lab import Experiment, Failure, PlannedRun, Results, Table, open, run

__all__ = [
    "Experiment",
    "Failure",
    "PlannedRun",
    "Results",
    "RunFailure",
    "ScenarioError",
    "Table",
    "__version__",
    "open",
    "run",
]
