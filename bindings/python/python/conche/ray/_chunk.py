"""A chunk of runs as one object: a line of JSON, a tar of the run's files, and the SHA-256 of both."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path

FILES = ("runs.ndjson", "exchanges.parquet", "series.parquet")
SUFFIX = ".chunk"
DIGEST = hashlib.sha256().digest_size


class Damaged(ValueError):
    """An object is not a whole chunk."""


@dataclass(frozen=True)
class Chunk:
    """Description of a chunk."""

    ids: list[str]
    failures: list[tuple[str, str]]
    """ID and problem of each failed run."""
    events: int
    cpu_s: float


def name(ids: list[str]) -> str:
    """Returns the name of the object with these runs."""
    return hashlib.sha256("".join(sorted(ids)).encode()).hexdigest()[:32] + SUFFIX


def pack(chunk: Chunk, directory: Path) -> bytes:
    """Packs the files of a part of the results."""
    packed = io.BytesIO()
    packed.write(json.dumps(asdict(chunk)).encode() + b"\n")
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as files:
        for file in FILES:
            if (directory / file).exists():
                files.add(directory / file, file)
    return packed.getvalue() + hashlib.sha256(packed.getbuffer()).digest()


def unpack(data: bytes, directory: Path) -> Chunk:
    """Writes the files into a directory, which must exist. Raises Damaged."""
    body, digest = memoryview(data)[:-DIGEST], data[-DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise Damaged("its checksum is wrong")
    head, _, tar = bytes(body).partition(b"\n")
    described = json.loads(head)
    described["failures"] = [(run, problem) for run, problem in described["failures"]]
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:gz") as files:
        for file in files.getnames():
            content = files.extractfile(file)
            if file in FILES and content is not None:
                (directory / file).write_bytes(content.read())
    return Chunk(**described)
