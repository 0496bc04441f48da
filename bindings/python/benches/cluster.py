"""Compares results and duration of one command, threads, shards and Ray.

    python bindings/python/benches/cluster.py --conche target/release/conche

Runs the reproduction `anrw18 --quick` in all these ways, with killed workers, a removed node and a
killed driver, and prints the SHA-256 of each table; exits with 1 if any differs. Then measures
Ray's overhead on about `--seconds` of work against as many threads, and the time that a chunk and a
run take beyond their simulation. For figures, leave the machine alone, and build in release mode.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import conche
import ray
from ray.cluster_utils import Cluster

SCENARIO = "anrw18"
STORE_BYTES = 128 << 20


def hashes(directory: Path) -> dict[str, str]:
    """SHA-256 of each file of results; the manifest has times."""
    files = (file for file in sorted(directory.rglob("*")) if file.is_file() and file.name != "manifest.json")
    return {str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@contextmanager
def cluster(*cores: int) -> Iterator[Any]:
    """A cluster on this machine, with a node for each number of cores."""
    options = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": cores[0], **options})
    for count in cores[1:]:
        made.add_node(num_cpus=count, object_store_memory=STORE_BYTES)
    made.wait_for_nodes()
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@contextmanager
def connected(*cores: int) -> Iterator[Any]:
    with cluster(*cores) as made:
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield made


class Ways:
    """The ways to the same results."""

    def __init__(self, command: str, directory: Path) -> None:
        self.command = command
        self.directory = directory
        self.experiment = conche.Experiment(SCENARIO).quick()

    def by_command(self, out: Path) -> None:
        subprocess.run([self.command, "reproduce", SCENARIO, "--quick", "--quiet", "-o", out], check=True, stdout=subprocess.DEVNULL)

    def by_shards(self, count: int, out: Path) -> None:
        parts = [self.directory / f"{count}-{number}" for number in range(1, count + 1)]
        for number, part in enumerate(parts, 1):
            run = [self.command, "reproduce", SCENARIO, "--quick", "--quiet", "--shard", f"{number}/{count}", "-o", part]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        merge = [self.command, "merge", "--quiet", *parts, "-o", out]
        subprocess.run(merge, check=True, stdout=subprocess.DEVNULL)

    def by_threads(self, out: Path) -> None:
        self.experiment.run(output=out)

    def by_ray(self, workers: int, out: Path) -> None:
        with connected(workers):
            self.experiment.run(on="ray", output=out)

    def with_deaths(self, out: Path) -> None:
        """Kills the driver after its first chunks, then workers and a node under the next driver."""
        with cluster(2, 2) as made:
            run = [sys.executable, "-m", "conche.ray", "run", SCENARIO, "--quick", "--address", made.address, "-o", str(out)]
            with subprocess.Popen(run, stderr=subprocess.DEVNULL) as driver:
                committed(out, 3)
                driver.send_signal(signal.SIGKILL)
            with subprocess.Popen(run, stderr=subprocess.PIPE, text=True) as driver:
                killed = threading.Thread(target=kill_workers, args=(made, 3), daemon=True)
                killed.start()
                killed.join()
                made.remove_node(next(iter(made.worker_nodes)), allow_graceful=False)
                _, shown = driver.communicate()
            kept = next((line for line in shown.splitlines() if line.endswith("are stored")), "nothing is stored")
            print(f"  after the driver's death: {kept}; then 3 workers and a node died")
            if driver.returncode != 0:
                raise RuntimeError(shown)


def committed(out: Path, count: int) -> None:
    while len(list(out.glob("chunks-*/*.chunk"))) < count:
        time.sleep(0.02)


def kill_workers(made: Any, count: int) -> None:
    raylets = {node.all_processes["raylet"][0].process.pid for node in made.list_all_nodes()}
    killed: set[int] = set()
    while len(killed) < count:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                is_worker = parent in raylets and (process / "cmdline").read_bytes().startswith(b"ray::conche")
            except OSError:
                continue
            if is_worker and int(process.name) not in killed and len(killed) < count:
                os.kill(int(process.name), signal.SIGKILL)
                killed.add(int(process.name))
                time.sleep(1)


def compare_results(command: str, directory: Path) -> bool:
    ways = Ways(command, directory)
    named: dict[str, Callable[[Path], None]] = {
        "command": ways.by_command,
        "shard 1/1": lambda out: ways.by_shards(1, out),
        "8 shards": lambda out: ways.by_shards(8, out),
        "threads": ways.by_threads,
        "Ray, 1 worker": lambda out: ways.by_ray(1, out),
        "Ray, 2 workers": lambda out: ways.by_ray(2, out),
        "Ray, 4 workers": lambda out: ways.by_ray(4, out),
        "Ray, 4 workers, killed": ways.with_deaths,
    }
    expected: dict[str, str] = {}
    is_same = True
    for number, (name, run) in enumerate(named.items()):
        out = directory / f"way-{number}"
        began = time.monotonic()
        run(out)
        found = hashes(out)
        expected = expected or found
        verdict = "same" if found == expected else "DIFFERENT"
        is_same &= found == expected
        print(f"{name}: {time.monotonic() - began:.1f} s, {verdict}")
        for file, digest in found.items():
            print(f"  {digest}  {file}", flush=True)
    return is_same


def measure_overhead(directory: Path, seconds: float, workers: int, rounds: int) -> None:
    began = time.monotonic()
    few = conche.Experiment(SCENARIO).quick()
    few.run(output=directory / "few", jobs=workers)
    each = (time.monotonic() - began) * workers / few_replications(few)
    replications = max(1, round(seconds / each))
    experiment = few.replications(replications)
    runs = len(experiment.plan())
    print(f"{runs} runs, {replications} replications, {workers} workers")
    ratios: list[float] = []
    for number in range(rounds):
        began = time.monotonic()
        experiment.run(output=directory / f"threads-{number}", jobs=workers)
        threads_s = time.monotonic() - began
        began = time.monotonic()
        with connected(workers):
            started_s = time.monotonic() - began
            began = time.monotonic()
            experiment.run(on="ray", output=directory / f"ray-{number}")
            ray_s = time.monotonic() - began
        ratios.append(ray_s / threads_s)
        print(f"threads {threads_s:.1f} s, Ray {ray_s:.1f} s ({ratios[-1] - 1:+.1%}), its start {started_s:.1f} s", flush=True)
    print(f"overhead: {median(ratios) - 1:+.1%} (median), bar +10 %")


def few_replications(experiment: conche.Experiment) -> int:
    return 1 + max(run.replication for run in experiment.plan())


def measure_chunks(directory: Path) -> None:
    """Times the steps of a chunk without Ray, and an empty Ray task."""
    from conche.ray import _chunk, _storage, _task  # pyright: ignore[reportPrivateUsage]

    experiment = conche.Experiment(SCENARIO).quick()
    plan = experiment.plan()
    storage = _storage.at(directory / "chunks")
    storage.make()
    options: Any = {"jobs": 1, "exchanges": False, "series": None, "overwrite": False}
    work = _task.Work(ray.cloudpickle.dumps(experiment), options, storage, _task.VERSION)
    collected = experiment._scenario.collected(directory / "collected", options)  # pyright: ignore[reportPrivateUsage]
    shortest = sorted(plan, key=lambda run: run.work)
    for count in (1, 10, 100):
        runs_s, stored_s, added_s, size = [], [], [], 0
        for number in range(9):
            ids = [run.id for run in shortest[number * count : (number + 1) * count]]
            done = _task.run_chunk(work, ids)
            part = directory / f"part-{count}-{number}"
            part.mkdir()
            began = time.monotonic()
            _chunk.unpack(storage.get(_chunk.name(ids)), part)
            collected.add(part)
            added_s.append(time.monotonic() - began)
            runs_s.append(done.runs_s)
            stored_s.append(done.task_s - done.runs_s)
            size = done.size
        print(
            f"chunk of {count} runs (medians of 9): {size / count:.0f} bytes a run, {median(runs_s):.3f} s, "
            f"packing and storing {1e3 * median(stored_s):.1f} ms, driver {1e3 * median(added_s):.1f} ms"
        )
    with connected(1):
        empty: Any = ray.remote(_empty).options(num_cpus=1)
        ray.get(empty.remote())
        began = time.monotonic()
        ray.get([empty.remote() for _ in range(500)])
        print(f"empty Ray task: {(time.monotonic() - began) / 500 * 1e3:.2f} ms")


def _empty() -> None:
    pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conche", required=True, help="the command")
    parser.add_argument("--seconds", type=float, default=200, help="CPU time of the measurement of overhead")
    parser.add_argument("--workers", type=int, default=2, help="threads and Ray workers that it compares")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["bytes", "overhead", "chunks"])
    given = parser.parse_args()
    is_same = True
    with tempfile.TemporaryDirectory(prefix="conche-bench-") as name:
        if given.only in (None, "bytes"):
            is_same = compare_results(given.conche, Path(name))
        if given.only in (None, "chunks"):
            measure_chunks(Path(name))
        if given.only in (None, "overhead"):
            measure_overhead(Path(name), given.seconds, given.workers, given.rounds)
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
