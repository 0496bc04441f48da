"""Campaigns on Ray: `pip install "conche[ray]"`.

    import conche

    results = conche.Experiment("anrw18").run(on="ray", output="s3://bucket/anrw18")

`Experiment.run` connects to the cluster of `ray.init`, of the variable `RAY_ADDRESS` or of this
machine, and starts one on this machine otherwise. `python -m conche.ray run` is the command.

The runs are divided into chunks, each a task. It puts its runs as one object into the storage of
the results; once this object is there, the chunk is never repeated. The driver makes results of the
objects, with the bytes of `conche run -o`.
"""

from ._driver import run

__all__ = ["run"]
