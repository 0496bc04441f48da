"""conche: a CoAP stack in Rust with selectable congestion control, and the lab that tests it.

- `conche.aio`: CoAP client and server for asyncio.
- `conche.gym`: environments for agents that choose retransmission timeouts.
- `Experiment`, `run` and `open`: simulated experiments on congestion control, such as those of
  published papers, and their results as tables.
- `papers` and `networks`: names of conche's experiments.
- `compare`: rankings of controllers over many experiments.
- `controllers`, `parameters` and `configured`: conche's controllers.
- `controller` and `conformance`: controllers in Python, and their tests.
- `cite`: references for publications.

      import conche
      import polars

      results = conche.run("lossy-lan", controllers=["default", "cocoa"], quick=True)
      polars.DataFrame(results.values)
"""

from conche._conche import RunFailure, ScenarioError, __version__

from . import conformance
from ._cite import cite
from ._compare import compare
from ._lab import Experiment, Failure, PlannedRun, Results, Table, networks, open, papers, run
from ._parameters import Parameter, configured, controllers, parameters

__all__ = [
    "Experiment",
    "Failure",
    "Parameter",
    "PlannedRun",
    "Results",
    "RunFailure",
    "ScenarioError",
    "Table",
    "__version__",
    "cite",
    "compare",
    "configured",
    "conformance",
    "controllers",
    "networks",
    "open",
    "papers",
    "parameters",
    "run",
]
