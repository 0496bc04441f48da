"""What a worker does."""

from __future__ import annotations

import pickle
import socket
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import conche
from conche import _conche
from conche._lab import warn_of_changed
from conche.controller import states

from . import _chunk
from ._storage import Storage

VERSION = f"{conche.__version__}, lab {_conche.LAB_VERSION}"
"""Version of the package, and of the simulator and its metrics."""


class OtherVersion(RuntimeError):
    """A node has another version of conche."""


@dataclass(frozen=True)
class Work:
    """The same for all chunks of a campaign."""

    experiment: bytes
    """Pickled."""
    options: _conche.RunOptions
    storage: Storage
    version: str


@dataclass(frozen=True)
class Done:
    """Description of a finished chunk, without its results."""

    events: int
    runs_s: float
    """Duration of the runs."""
    task_s: float
    """Duration of the task: the runs, packing and storing."""
    size: int
    """Bytes of the object."""


def run_chunk(work: Work, ids: list[str]) -> Done:
    """Runs the runs with these IDs, and commits them as one object."""
    began = time.monotonic()
    check_version(work.version)
    with tempfile.TemporaryDirectory(prefix="conche-ray-") as name:
        directory = Path(name)
        before = time.monotonic()
        chunk = run_part(restored(work.experiment), directory, work.options, ids)
        runs_s = time.monotonic() - before
        data = _chunk.pack(chunk, directory)
        work.storage.put(_chunk.name(ids), data)
    return Done(chunk.events, runs_s, time.monotonic() - began, len(data))


def run_part(experiment: conche.Experiment, directory: Path, options: _conche.RunOptions, ids: list[str]) -> _chunk.Chunk:
    scenario = experiment._scenario  # pyright: ignore[reportPrivateUsage]
    own = scenario.state()[3]
    before = states(own)
    events, cpu_s, failures = scenario.run_part(directory, options, ids)
    warn_of_changed(before, own)
    return _chunk.Chunk(ids, failures, events, cpu_s)


@lru_cache(maxsize=1)
def restored(experiment: bytes) -> conche.Experiment:
    return pickle.loads(experiment)


def probe(version: str, storage: Storage, name: str) -> None:
    """Writes an object, to see whether the driver can read it."""
    check_version(version)
    storage.put(name, name.encode())


def check_version(version: str) -> None:
    if version != VERSION:
        node = socket.gethostname()
        raise OtherVersion(f"node {node} has conche {VERSION}, the driver {version}: install one version on all nodes")


