"""What a session records: which swarms, where, and what must be in no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_swarm.sources.cassette.names import cassette_path, find_cassette
from pytest_swarm.sources.cassette.recorder import Recorder
from pytest_swarm.sources.cassette.redact import Redactor
from pytest_swarm.sources.cassette.scan import Scanner
from pytest_swarm.sources.cassette.writer import CassetteWriter

__all__ = ["Recordings"]


@dataclass(eq=False)
class Recordings:
    """Hands out a recorder for every swarm that is to be recorded."""

    directory: Path
    mode: str = "missing"
    """``missing``: a swarm without a complete cassette is recorded, whole, others are played. ``all``: every swarm is
    recorded, anew. ``check``: none is; a sample of each cassette is asked again."""
    form: str = "yaml"
    redact_fields: tuple[str, ...] = ()
    secrets: Callable[[], Mapping[str, str]] = dict
    """Gives the values that must be in no file, with whose they are; see `scan.live_secrets`."""
    worker: str = ""
    """The process's name among several that record at the same time."""
    session: str = ""
    """A name that all of them share."""
    _made: set[Path] = field(default_factory=set)

    def path(self, nodeid: str, number: int = 0) -> Path:
        """Where the cassette of a swarm is or will be."""
        return cassette_path(self.directory, nodeid, number=number, form=self.form)

    def existing(self, nodeid: str, number: int = 0) -> Path | None:
        """The complete cassette of a swarm, in whichever form; None where there is none."""
        return find_cassette(self.directory, nodeid, number=number)

    def wants(self, nodeid: str, number: int = 0) -> bool:
        """Whether a swarm is recorded now. One that this session has recorded is recorded again when it runs again."""
        if self.mode == "check":
            return False
        if self.mode == "all" or self.path(nodeid, number) in self._made:
            return True
        return self.existing(nodeid, number) is None

    def open(self, nodeid: str, number: int = 0) -> Recorder:
        """A recorder for a swarm. Nothing is on disk before its first exchange."""
        path = self.path(nodeid, number)
        self._made.add(path)
        writer = CassetteWriter(path, worker=self.worker, session=self.session)
        return Recorder(writer, Redactor(self.redact_fields), lambda: Scanner(self.secrets()))
