"""Storage that all nodes reach: a directory, or a prefix of an S3 bucket. An object is there whole, or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from obstore.store import S3Store

TEMPORARY = ".new-"
"""Begins the name of an object that is not yet whole."""


class Storage(Protocol):
    """Objects by name. Errors are OSErrors which name the place."""

    @property
    def place(self) -> str: ...
    def below(self, name: str) -> Storage: ...
    def make(self) -> None: ...
    def put(self, name: str, data: bytes | Path) -> None: ...
    def get(self, name: str) -> bytes: ...
    def names(self) -> list[str]: ...
    def remove(self, names: list[str]) -> None: ...
    def drop(self) -> None: ...


def at(place: str | os.PathLike[str]) -> Storage:
    """Returns the storage of a directory, or of an address such as `s3://bucket/prefix`."""
    text = os.fspath(place)
    if not text.startswith("s3://"):
        if "://" in text:
            raise ValueError(f"{text}: results go to a directory or to s3://bucket/prefix")
        return Directory(os.path.abspath(text))
    _, _, bucket, *prefix = text.rstrip("/").split("/")
    if not bucket or not any(prefix):
        raise ValueError(f"{text}: name bucket and prefix, as in s3://bucket/prefix")
    return Bucket(text.rstrip("/"))


@dataclass(frozen=True)
class Directory:
    """A directory, which is on one machine or shared by all nodes."""

    place: str

    def below(self, name: str) -> Directory:
        return Directory(os.path.join(self.place, name))

    def make(self) -> None:
        os.makedirs(self.place, exist_ok=True)

    def put(self, name: str, data: bytes | Path) -> None:
        """Renames a complete file; without `make`, the directory must exist."""
        temporary = os.path.join(self.place, f"{TEMPORARY}{uuid.uuid4().hex}")
        try:
            with open(temporary, "wb") as file:
                file.write(data if isinstance(data, bytes) else data.read_bytes())
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, os.path.join(self.place, name))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        # The new name is durable only with its directory.
        directory = os.open(self.place, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def get(self, name: str) -> bytes:
        return Path(self.place, name).read_bytes()

    def names(self) -> list[str]:
        """Returns all names, also temporary ones."""
        return sorted(os.listdir(self.place))

    def remove(self, names: list[str]) -> None:
        for name in names:
            Path(self.place, name).unlink(missing_ok=True)

    def drop(self) -> None:
        """Removes the place if it is empty."""
        try:
            os.rmdir(self.place)
        except OSError:
            pass


@dataclass(frozen=True)
class Bucket:
    """A prefix of an S3 bucket. Credentials are those of the process: variables `AWS_…`, or the instance's role."""

    place: str

    def below(self, name: str) -> Bucket:
        return Bucket(f"{self.place}/{name}")

    def make(self) -> None:
        pass

    def put(self, name: str, data: bytes | Path) -> None:
        with self._errors("write", name):
            _obstore().put(_store(self.place), name, data)

    def get(self, name: str) -> bytes:
        with self._errors("read", name):
            return _obstore().get(_store(self.place), name).bytes().to_bytes()

    def names(self) -> list[str]:
        with self._errors("list", ""):
            listed = _obstore().list(_store(self.place))
            return sorted(entry["path"] for entries in listed for entry in entries)

    def remove(self, names: list[str]) -> None:
        with self._errors("remove objects of", ""):
            if names:
                _obstore().delete(_store(self.place), names)

    def drop(self) -> None:
        pass

    @contextmanager
    def _errors(self, action: str, name: str) -> Generator[None]:
        from obstore import exceptions

        place = f"{self.place}/{name}".rstrip("/")
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(2, "there is no such object", place) from None
        except (exceptions.BaseError, OSError) as error:
            reason = str(error).strip().splitlines()[0]
            refused = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
            # Listing has only a generic error.
            is_refused = isinstance(error, refused) or "403 Forbidden" in reason or "401 Unauthorized" in reason
            hint = "; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy" if is_refused else ""
            kind = PermissionError if is_refused else OSError
            raise kind(f"cannot {action} {place}: {reason}{hint}") from error


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise ImportError('s3:// needs obstore: pip install "conche[ray]"') from None
    return obstore


@lru_cache
def _store(place: str) -> S3Store:
    _obstore()
    from obstore.store import S3Store

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    store: Any = S3Store
    return store.from_url(
        place,
        client_options={"allow_http": endpoint.startswith("http://"), "timeout": "60s"},
        retry_config={"max_retries": 8, "retry_timeout": timedelta(seconds=60)},
    )
