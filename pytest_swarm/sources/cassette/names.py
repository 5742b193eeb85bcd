"""Where the cassette of a test is: ``<directory>/<path of the module>/<test>.yaml``."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

__all__ = ["FORMS", "cassette_path", "find_cassette"]

FORMS: Final = ("yaml", "json")
LONGEST: Final = 80
"""Characters of one part of a name; file systems allow 255 bytes, and some tools less for whole paths."""
_DIGEST: Final = 10
_PLAIN: Final = re.compile(r"[a-z0-9_=+,-][a-z0-9_.=+,-]*", re.ASCII)
_ODD: Final = re.compile(r"[^A-Za-z0-9_.=+,-]+", re.ASCII)
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices."""


def cassette_path(directory: Path, nodeid: str, *, number: int = 0, form: str = "yaml") -> Path:
    """The file for a test, by its node id; always below `directory`, whatever the id holds.

    The same test always has the same file, and no two tests share one, also where upper and lower case are one. A part
    that is long or holds odd characters is shortened and told apart by a digest. `number` is that of a swarm within
    the test, from 1; 0 is the test itself.
    """
    module, _, rest = nodeid.partition("::")
    test, bracket, parameters = rest.partition("[")
    folders = [_safe(part) for part in module.removesuffix(".py").split("/") if part not in ("", ".")]
    name = _safe(test.replace("::", "."), room=LONGEST)
    if bracket:
        name += f"[{_safe(parameters.removesuffix(']'), room=LONGEST // 2)}]"
    if number:
        name += f".swarm-{number}"
    return directory.joinpath(*folders, f"{name}.{form}")


def find_cassette(directory: Path, nodeid: str, *, number: int = 0) -> Path | None:
    """The complete cassette of a test, in whichever form there is one; None where there is none."""
    paths = (cassette_path(directory, nodeid, number=number, form=form) for form in FORMS)
    return next((path for path in paths if path.is_file()), None)


def _safe(text: str, room: int = LONGEST) -> str:
    """`text` if any file system tells it from every other text, else what is readable of it with a digest."""
    if len(text) <= room and _PLAIN.fullmatch(text) and not text.endswith(".") and not _RESERVED.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    readable = _ODD.sub("-", text).strip("-.")[: room - _DIGEST - 1].strip("-.")
    return f"{readable}-{digest}" if readable else digest
