"""Campaigns on a Ray cluster of two nodes on this machine, and on moto's S3 server."""

from __future__ import annotations

import hashlib
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import conche
import pytest
from conftest import LIMIT
from test_examples import load
from test_lab import SCENARIO

ray: Any = pytest.importorskip("ray")
cluster_utils: Any = pytest.importorskip("ray.cluster_utils")
moto: Any = pytest.importorskip("moto.server")

from conche.ray import _chunk, _driver, _storage, _task  # noqa: E402  # pyright: ignore[reportPrivateUsage]

BUCKET = "results"
STORE_BYTES = 80 << 20
LONG = conche.Experiment(SCENARIO).set("duration", "15min").replications(12)
"""48 runs of a tenth of a second or more."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    request = __import__("urllib.request").request.Request(f"http://{host}:{port}/{BUCKET}", method="PUT")
    __import__("urllib.request").request.urlopen(request).close()
    yield f"s3://{BUCKET}"
    server.stop()


@pytest.fixture(scope="module")
def cluster(server: str) -> Iterator[Any]:
    node = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def of_command(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return hashes(LONG.run(output=tmp_path_factory.mktemp("threads")).directory)


def hashes(directory: Path) -> dict[str, str]:
    """SHA-256 of each file of results; the manifest has times."""
    files = (file for file in directory.rglob("*") if file.is_file() and file.name != "manifest.json")
    return {str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def on_ray(output: Path | str, experiment: conche.Experiment = LONG, **options: Any) -> dict[str, str]:
    results = experiment.run(on="ray", output=output, **options)
    return hashes(results.directory)


def workers(cluster: Any) -> list[int]:
    """Process IDs of the cluster's workers that run a chunk."""
    raylets = {node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()}
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in raylets and (process / "cmdline").read_bytes().startswith(b"ray::conche"):
                found.append(int(process.name))
        except OSError:
            pass
    return found


def during(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_those_of_threads(cluster: Any, tmp_path: Path, jobs: int) -> None:
    experiment = conche.Experiment(SCENARIO)
    expected = hashes(experiment.run(output=tmp_path / "threads", exchanges=True, series=1.0).directory)
    assert {"exchanges.parquet", "series.parquet"} < expected.keys()
    calls: list[tuple[int, int]] = []
    progress = lambda done, total: calls.append((done, total))  # noqa: E731
    found = on_ray(tmp_path / "ray", experiment, jobs=jobs, exchanges=True, series=1.0, progress=progress)
    assert found == expected
    assert calls[-1][0] == calls[-1][1] > 0
    # Complete results are only read again.
    assert on_ray(tmp_path / "ray", experiment, exchanges=True, series=1.0) == expected


OWN = """\
import sys

import conche
import ray
from conche.controller import Controller, Peer


class Slow(Controller):
    def __init__(self, rto=10.0):
        self.rto = rto

    def peer(self, now):
        return Peer(rto=self.rto)


if __name__ == "__main__":
    file, address, threads, output = sys.argv[1:]
    experiment = conche.Experiment(file).controllers("default", Slow, Slow(rto=3.0))
    experiment.run(output=threads)
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    results = experiment.run(on="ray", output=output)
    assert results.failures == [], results.failures
"""


def test_a_controller_of_the_main_program(cluster: Any, tmp_path: Path) -> None:
    scenario, program = tmp_path / "yard.toml", tmp_path / "main.py"
    scenario.write_text(SCENARIO)
    program.write_text(OWN)
    outputs = [tmp_path / "threads", tmp_path / "ray"]
    command = [sys.executable, program, scenario, cluster.address, *outputs]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    in_threads, on_cluster = map(hashes, outputs)
    assert on_cluster == in_threads
    assert "Slow(rto=3.0)" in (outputs[1] / "yard.txt").read_text()


def test_the_example_of_the_guide(cluster: Any, tmp_path: Path) -> None:
    results = load("cluster").campaign(str(tmp_path))
    assert results.failures == [] and len(results.values) > 0


def test_killed_workers_are_replaced(cluster: Any, tmp_path: Path, of_command: dict[str, str]) -> None:
    killed: set[int] = set()

    def kill() -> None:
        deadline = time.monotonic() + LIMIT
        while len(killed) < 3 and time.monotonic() < deadline:
            for pid in workers(cluster)[:1]:
                if pid not in killed:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
            time.sleep(0.3)

    killer = during(kill)
    found = on_ray(tmp_path)
    killer.join()
    assert found == of_command and len(killed) == 3


def test_a_node_is_removed(cluster: Any, tmp_path: Path, of_command: dict[str, str]) -> None:
    def remove() -> None:
        while not any(tmp_path.glob("chunks-*/*.chunk")):
            time.sleep(0.05)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    remover = during(remove)
    found = on_ray(tmp_path)
    remover.join()
    cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    cluster.wait_for_nodes()
    assert found == of_command


def command(cluster: Any, tmp_path: Path, output: str) -> list[str]:
    file = tmp_path / "yard.toml"
    file.write_text(SCENARIO)
    changes = ["--set", "duration=15min", "--replications", "12"]
    return [sys.executable, "-m", "conche.ray", "run", str(file), *changes, "--address", cluster.address, "-o", output]


@pytest.mark.parametrize("place", ["directory", "s3"])
def test_a_killed_driver_continues(
    cluster: Any, server: str, tmp_path: Path, of_command: dict[str, str], place: str
) -> None:
    output = f"{server}/killed" if place == "s3" else str(tmp_path / "out")

    def committed() -> int:
        """Runs in committed chunks."""
        names = [name for name in storage.names() if name.endswith(_chunk.SUFFIX)]
        return sum(len(_chunk.unpack(storage.get(name), tmp_path).ids) for name in names)

    plan = LONG.plan()
    planned = [_driver.Planned(run.id, run.cell, run.seed, run.work) for run in plan]
    options: Any = {"exchanges": False, "series": None}
    storage = _storage.at(output).below(f"chunks-{_driver.key(planned, options)}")
    with subprocess.Popen(command(cluster, tmp_path, output), stderr=subprocess.PIPE, text=True) as driver:
        while (not Path(storage.place).exists() and place != "s3") or committed() < 4:
            assert driver.poll() is None, driver.communicate()[1]
            time.sleep(0.05)
        driver.kill()
    before = committed()
    # What a dying process leaves behind is no chunk.
    storage.put(f"{_storage.TEMPORARY}left", b"half")
    storage.put(f"{'0' * 32}{_chunk.SUFFIX}", b"damaged")
    again = subprocess.run(command(cluster, tmp_path, output), stderr=subprocess.PIPE, text=True, check=True)
    kept = re.search(rf"(\d+) of {len(plan)} runs are stored", again.stderr)
    assert kept is not None and before <= int(kept[1]) < len(plan)
    results = conche.open(output) if place != "s3" else LONG.run(on="ray", output=output)
    assert hashes(results.directory) == of_command
    assert [name for name in _storage.at(output).names() if name.startswith("chunks-")] == []


HOOKED = """
import sys
import conche
import ray

def hook():
    import errno, os, signal
    import conche.ray._storage
    import conche.ray._task
    if IS_FULL:
        def put(self, name, data):
            if name.endswith(".chunk"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return before(self, name, data)
        before = conche.ray._storage.Directory.put
        conche.ray._storage.Directory.put = put
        return
    def run_part(experiment, directory, options, ids):
        if POISON in ids:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(experiment, directory, options, ids)
    before, conche.ray._task.run_part = conche.ray._task.run_part, run_part

experiment = conche.Experiment(open(sys.argv[2]).read()).replications(12)
POISON, IS_FULL = experiment.plan()[0].id, sys.argv[3] == "full"
ray.init(sys.argv[1], runtime_env={"worker_process_setup_hook": hook}, log_to_driver=False, logging_level="ERROR")
try:
    results = experiment.run(on="ray", output=sys.argv[2] + ".out")
except OSError as error:
    print("error:", error)
else:
    for failure in results.failures:
        print("failed:", failure.cell, failure.seed, failure.problem)
"""


@pytest.mark.parametrize("defect", ["poison", "full"])
def test_a_run_that_kills_workers_fails_alone(cluster: Any, tmp_path: Path, defect: str) -> None:
    file = tmp_path / "yard.toml"
    file.write_text(SCENARIO)
    hooked = [sys.executable, "-c", HOOKED, cluster.address, str(file), defect]
    done = subprocess.run(hooked, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    # Ray adds lines of its own.
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(("error:", "failed:")))
    if defect == "full":
        assert line.endswith("No space left on device")
        return
    poisoned = conche.Experiment(SCENARIO).replications(12).plan()[0]
    assert line.startswith(f"failed: {poisoned.cell} {poisoned.seed} its worker died 3 times")
    assert len(conche.open(f"{file}.out").failures) == 1


def test_two_drivers_of_a_directory_are_refused(cluster: Any, tmp_path: Path) -> None:
    experiment = conche.Experiment(SCENARIO)
    options: Any = {"jobs": None, "exchanges": False, "series": None, "overwrite": False}
    first = experiment._scenario.collected(tmp_path, options)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(OSError, match="another conche writes into"):
        on_ray(tmp_path, experiment)
    del first
    assert on_ray(tmp_path, experiment)


def test_results_go_to_s3(cluster: Any, server: str, of_command: dict[str, str]) -> None:
    assert on_ray(f"{server}/yard") == of_command
    storage = _storage.at(f"{server}/yard")
    assert set(storage.names()) == {*of_command, "manifest.json"}
    assert hashlib.sha256(storage.get("runs.ndjson")).hexdigest() == of_command["runs.ndjson"]
    assert on_ray(f"{server}/yard", overwrite=True) == of_command


def test_a_node_must_reach_the_output(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_storage.Directory, "make", lambda _: None)
    with pytest.raises(OSError, match=r"node .* does not reach .*: use a shared directory or s3://"):
        on_ray(tmp_path)


def test_a_node_must_have_this_version(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_task, "VERSION", "9.9.9, lab 1")
    with pytest.raises(_task.OtherVersion, match=r"has conche .*, the driver 9\.9\.9"):
        on_ray(tmp_path)


class Refusing(http.server.BaseHTTPRequestHandler):
    """S3 of other credentials."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_wrong_credentials_are_named(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        thread = during(refusing.serve_forever)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{refusing.server_port}")
        with pytest.raises(PermissionError, match=r"s3://refused/place.*AWS_ACCESS_KEY_ID"):
            on_ray("s3://refused/place")
        refusing.shutdown()
        thread.join()


def test_places_and_addresses_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="to a directory or to s3://bucket/prefix"):
        _storage.at("gs://bucket/prefix")
    with pytest.raises(ValueError, match="name bucket and prefix"):
        _storage.at("s3://bucket")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "conche\[ray\]"'):
        on_ray(tmp_path)


def test_no_cluster_is_at_the_address(tmp_path: Path) -> None:
    unused = [sys.executable, "-m", "conche.ray", "run", "lossy-lan", "--address", "127.0.0.1:9", "-o", str(tmp_path)]
    done = subprocess.run(unused, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 1 and "there is no Ray cluster at 127.0.0.1:9" in done.stderr


def test_a_chunk_is_whole_or_damaged(tmp_path: Path) -> None:
    (tmp_path / "runs.ndjson").write_text("{}\n")
    chunk = _chunk.Chunk(["a", "b"], [("b", "it panicked")], 7, 0.5)
    data = _chunk.pack(chunk, tmp_path)
    (tmp_path / "again").mkdir()
    assert _chunk.unpack(data, tmp_path / "again") == chunk
    assert (tmp_path / "again/runs.ndjson").read_text() == "{}\n"
    for damaged in (data[:-1], data[:-40], data[1:], b"", data.replace(b'"b"', b'"c"', 1)):
        with pytest.raises(_chunk.Damaged):
            _chunk.unpack(damaged, tmp_path)
