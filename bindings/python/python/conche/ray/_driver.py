"""The driver: divides the runs into chunks, and makes results of their objects."""

from __future__ import annotations

import hashlib
import importlib
import os
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, cast

import conche
from conche import _conche
from conche._lab import warn_of_failures, whole

from . import _chunk, _storage, _task
from ._progress import Progress
from ._storage import Storage

SHORTEST_S, LONGEST_S = 1.0, 30.0
"""Bounds of a chunk's duration, except that of a single run."""
CHUNKS_LEFT = 8
"""A chunk is at most this part of the work left to its worker, so that all workers end together."""
GROWTH = 8
"""A chunk is at most this many times as large as the largest finished one."""
QUEUED = 2
"""Tasks submitted for each core: one runs, one waits."""
ATTEMPTS = 3
"""Attempts of a chunk; of several runs, one less before it is split."""
CONNECT_S = 10.0
"""Wait for a connection to the cluster."""
MANIFEST = "manifest.json"
RESULTS = (*_chunk.FILES, MANIFEST, "figures.ndjson", "runs.parquet")


@dataclass(frozen=True, slots=True)
class Planned:
    """A run of the plan."""

    id: str
    cell: str
    seed: int
    work: int


@dataclass
class Batch:
    """Runs of one task."""

    runs: list[Planned]
    attempts: int = 0

    @property
    def ids(self) -> list[str]:
        return [run.id for run in self.runs]

    @property
    def work(self) -> int:
        return sum(run.work for run in self.runs)


def run(
    experiment: conche.Experiment,
    *,
    output: str | PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool | Callable[[int, int], object] | None = None,
    exchanges: bool = False,
    series: float | timedelta | None = None,
    overwrite: bool = False,
) -> conche.Results:
    """Runs an experiment on Ray: `Experiment.run(on="ray")`."""
    ray = connected()
    options: _conche.RunOptions = {
        "jobs": 1,
        "exchanges": exchanges,
        "series": series.total_seconds() if isinstance(series, timedelta) else series,
        "overwrite": False,
    }
    jobs = None if jobs is None else whole("jobs", jobs, 1, 2**32 - 1)
    temporary = None
    if output is None or os.fspath(output).startswith("s3://"):
        temporary = tempfile.TemporaryDirectory(prefix="conche-", ignore_cleanup_errors=True)
    target = _storage.at(temporary.name if temporary and output is None else cast(str, output))
    local = Path(temporary.name) if temporary else Path(target.place)
    is_remote = not isinstance(target, _storage.Directory)
    if is_remote:
        fetch_results(target, local, overwrite)
    collect_options: _conche.RunOptions = {**options, "jobs": None, "overwrite": overwrite and not is_remote}
    scenario = experiment._scenario  # pyright: ignore[reportPrivateUsage]
    collected = scenario.collected(local, collect_options)
    plan = [Planned(run, cell, seed, work) for run, cell, _, seed, work in scenario.plan()]
    storage = target.below(f"chunks-{key(plan, options)}")
    work = _task.Work(ray.cloudpickle.dumps(experiment), options, storage, _task.VERSION)
    with ExitStack() as ended:
        shown = Progress(progress, len(plan), sum(run.work for run in plan))
        ended.callback(shown.close)
        campaign = Campaign(ray, work, plan, collected, jobs, shown)
        campaign.prepare(is_given=output is not None, overwrite=overwrite)
        ended.callback(campaign.cancel)
        campaign.work_off()
        collected.finish(list(campaign.failures.items()))
    if is_remote:
        upload_results(local, target)
    left = [name for name in storage.names() if name.startswith(_storage.TEMPORARY)]
    storage.remove(campaign.stored + left)
    storage.drop()
    results = conche.Results(local, temporary)
    warn_of_failures(results)
    return results


def connected() -> Any:
    """Returns the module ray, connected to a cluster."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise ImportError('campaigns on Ray need it: pip install "conche[ray]"') from None
    if not ray.is_initialized():
        connect(None)
    return ray


def connect(address: str | None) -> None:
    """Connects to the cluster at an address; by default of `RAY_ADDRESS`, of this machine, or a new one."""
    ray: Any = importlib.import_module("ray")
    where = address or os.environ.get("RAY_ADDRESS")
    try:
        # Ray itself waits for minutes.
        host, separator, port = (where or "").removeprefix("ray://").rpartition(":")
        if separator and port.isdecimal():
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        # Output of workers is none of the results.
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        hint = "start one by `ray start --head`, or leave the address away for this machine alone"
        raise ConnectionError(f"there is no Ray cluster at {where}: {error}; {hint}") from error


def key(plan: list[Planned], options: _conche.RunOptions) -> str:
    """Names the objects of a campaign: others have other runs or tables."""
    text = "".join(run.id for run in plan) + f"{options['exchanges']} {options['series']}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def fetch_results(target: Storage, local: Path, overwrite: bool) -> None:
    """Gets earlier results, which the campaign continues."""
    if overwrite:
        target.remove(list(RESULTS))
        return
    names = [name for name in target.names() if not name.startswith("chunks-")]
    for name in names if MANIFEST in names else []:
        path = local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(target.get(name))


def upload_results(local: Path, target: Storage) -> None:
    """Puts the results, the manifest last."""
    files = [file for file in sorted(local.rglob("*")) if file.is_file()]
    for file in sorted(files, key=lambda file: file.name == MANIFEST):
        target.put(file.relative_to(local).as_posix(), file)


class Campaign:
    """The tasks of an experiment."""

    def __init__(
        self,
        ray: Any,
        work: _task.Work,
        plan: list[Planned],
        collected: _conche.Collected,
        jobs: int | None,
        progress: Progress,
    ) -> None:
        self.ray = ray
        self.work = work
        self.shared: Any = ray.put(work)
        self.storage = work.storage
        self.plan = plan
        self.collected = collected
        self.jobs = jobs
        self.progress = progress
        self.failures: dict[str, str] = {}
        self.stored: list[str] = []
        self.pending: deque[Planned] = deque()
        self.again: deque[Batch] = deque()
        self.in_flight: dict[Any, Batch] = {}
        self.task: Any = ray.remote(_task.run_chunk).options(num_cpus=1, max_retries=0, name="conche")
        self.cores = 1
        self.looked = float("-inf")
        self.work_left = 0
        self.work_done = 0
        self.spent_s = 0.0
        self.largest = 0

    def prepare(self, is_given: bool, overwrite: bool) -> None:
        """Checks storage and nodes, and takes the objects of an earlier driver."""
        self.storage.make()
        if overwrite:
            self.storage.remove(self.storage.names())
        self.check_nodes(is_given)
        for name in self.storage.names():
            if name.endswith(_chunk.SUFFIX) and not self.collect(name):
                self.storage.remove([name])
        missing = (self.plan[place] for place in self.collected.missing())
        pending = [run for run in missing if run.id not in self.failures]
        # The longest first, to balance workers at the end.
        pending.sort(key=lambda run: -run.work)
        self.pending.extend(pending)
        self.work_left = sum(run.work for run in pending)
        self.progress.begin(len(self.plan) - len(pending), self.work_left)

    def check_nodes(self, is_given: bool) -> None:
        """Each node must have this conche, and reach the storage."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe = self.ray.remote(_task.probe)
        probes: list[tuple[str, str, Any]] = []
        for node in self.ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                options = {"num_cpus": 0, "max_retries": 2, "scheduling_strategy": strategy}
                name = f"{_storage.TEMPORARY}{node['NodeID']}"
                ref = probe.options(**options).remote(_task.VERSION, self.storage, name)
                probes.append((f"node {node['NodeManagerAddress']} ({node['NodeManagerHostname']})", name, ref))
        hint = "a shared directory or s3://" if is_given else "output= with a shared directory or s3://"
        problems = [self.problem_of(node, name, ref, hint) for node, name, ref in probes]
        for problem in filter(None, problems):
            raise problem
        self.storage.remove([name for _, name, _ in probes])

    def problem_of(self, node: str, name: str, probe: Any, hint: str) -> Exception | None:
        try:
            self.ray.get(probe)
            self.storage.get(name)
        except self.ray.exceptions.RayTaskError as error:
            return self.explained(error, node, hint)
        except FileNotFoundError:
            return self.unreachable(node, hint)
        except self.ray.exceptions.RayError as error:
            return RuntimeError(f"{node} runs no tasks: {error}")
        return None

    def explained(self, error: Any, where: str, hint: str) -> Exception:
        cause = error.cause
        if isinstance(cause, _task.OtherVersion):
            return cause
        if isinstance(cause, FileNotFoundError):
            return self.unreachable(where, hint)
        if isinstance(cause, OSError):
            return type(cause)(f"{where}: {cause}")
        if isinstance(cause, ImportError) or "No module named 'conche" in str(error):
            return ImportError(f"{where} lacks this package: install conche {_task.VERSION} on all nodes")
        return RuntimeError(f"{where}: {error}")

    def unreachable(self, where: str, hint: str) -> OSError:
        return OSError(f"{where} does not reach {self.storage.place}: use {hint}")

    def collect(self, name: str) -> bool:
        """Adds the runs of an object to the results; False if it is missing or damaged."""
        try:
            data = self.storage.get(name)
        except FileNotFoundError:
            return False
        with tempfile.TemporaryDirectory(prefix="conche-ray-") as directory:
            try:
                chunk = _chunk.unpack(data, Path(directory))
            except _chunk.Damaged:
                return False
            if len(chunk.failures) < len(chunk.ids):
                self.collected.add(Path(directory))
        self.failures.update(chunk.failures)
        self.stored.append(name)
        return True

    def work_off(self) -> None:
        while self.pending or self.again or self.in_flight:
            self.submit()
            ready, _ = self.ray.wait(list(self.in_flight), num_returns=1, timeout=0.5)
            if ready:
                ready, _ = self.ray.wait(list(self.in_flight), num_returns=len(self.in_flight), timeout=0)
            for ref in ready:
                self.take(ref)
            self.progress.show(self.work_left, min(len(self.in_flight), self.cores))

    def submit(self) -> None:
        if time.monotonic() - self.looked > 2:
            self.looked = time.monotonic()
            cores = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            self.cores = min(cores, self.jobs or cores)
        bound = self.cores if self.jobs else QUEUED * self.cores
        while len(self.in_flight) < bound and (self.again or self.pending):
            batch = self.again.popleft() if self.again else self.next()
            self.in_flight[self.task.remote(self.shared, batch.ids)] = batch

    def next(self) -> Batch:
        """Takes runs of a duration that the finished ones let expect; at first one run."""
        most = 0
        if self.work_done and self.spent_s:
            rate = self.work_done / self.spent_s
            expected_s = self.work_left / rate / self.cores / CHUNKS_LEFT
            most = min(int(rate * min(max(expected_s, SHORTEST_S), LONGEST_S)), GROWTH * self.largest)
        runs = [self.pending.popleft()]
        size = runs[0].work
        while self.pending and size + self.pending[0].work <= most:
            size += self.pending[0].work
            runs.append(self.pending.popleft())
        return Batch(runs)

    def take(self, ref: Any) -> None:
        """Takes a finished task, or tries its runs again."""
        batch = self.in_flight.pop(ref)
        name = _chunk.name(batch.ids)
        problem = "its object is damaged or missing"
        events = 0
        try:
            done: _task.Done = self.ray.get(ref)
            events = done.events
            self.work_done += batch.work
            self.spent_s += done.task_s
            self.largest = max(self.largest, batch.work)
        except self.ray.exceptions.RayTaskError as error:
            explained = self.explained(error, "a node", "a shared directory or s3://")
            if batch.attempts + 1 >= ATTEMPTS or isinstance(explained, (_task.OtherVersion, ImportError)):
                raise explained from error
            # No run has caused it, but a full disk, for example, which another node may not have.
            self.again.append(Batch(batch.runs, batch.attempts + 1))
            return
        except self.ray.exceptions.RayError as error:
            problem = str(error).strip().splitlines()[0]
        # A worker can have died after it has committed its object.
        if self.collect(name):
            self.work_left -= batch.work
            self.progress.add(len(batch.runs), events)
        else:
            self.try_again(batch, problem)

    def try_again(self, batch: Batch, problem: str) -> None:
        attempts = batch.attempts + 1
        if len(batch.runs) == 1 and attempts >= ATTEMPTS:
            (run,) = batch.runs
            self.failures[run.id] = f"its worker died {attempts} times: {problem}"
            self.work_left -= run.work
            self.progress.add(1, 0)
        elif len(batch.runs) > 1 and attempts >= ATTEMPTS - 1:
            half = len(batch.runs) // 2
            # One attempt each, until the run is found.
            self.again.extend(Batch(runs, ATTEMPTS - 2) for runs in (batch.runs[:half], batch.runs[half:]))
        else:
            self.again.append(Batch(batch.runs, attempts))

    def cancel(self) -> None:
        """Ends the tasks of an interrupted campaign."""
        for ref in self.in_flight:
            self.ray.cancel(ref, force=True)
