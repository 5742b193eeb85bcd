"""Secrets taken out of texts that people will read: error messages, evidence, log lines."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MASK", "redact_text"]

MASK: Final = "***"
"""What stands where a secret stood."""

_USERINFO: Final = re.compile(r"(?<=://)[^\s/@\"'<>]+@")
_SCHEME: Final = re.compile(
    r"\b(Bearer|Basic)(\s+)(?=[A-Za-z._~+/*=-]*[0-9*._+/=-])[A-Za-z0-9._~+/*=-]{6,}", re.IGNORECASE
)
_NAMED: Final = re.compile(
    r"""
    (?P<name>
        (?:api[_-]?key|access[_-]?key|secret(?:[_-]?(?:access[_-]?)?key)?|passwd|password)
      | (?:access|auth|bearer|client|id|refresh|session)[_-]?(?:token|secret)
      | authorization | x-goog-signature | (?<=[?&])(?:key|sig|signature|token)
    )
    (?P<mark> ["']? \s* [=:] \s* ["']? )
    (?! (?:Bearer|Basic) \s )
    (?P<value> [^\s"'&,;<>(){}\[\]]+ )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VENDOR: Final = re.compile(
    r"""
    (?<![A-Za-z0-9])
    (?: (?:sk|pk|rk|csk|xai|pplx|nvapi|glpat|xox[abprs])-[A-Za-z0-9_*.-]{6,}[A-Za-z0-9_*-]
      | (?:sk|pk|rk|gsk|hf|r8|fw|ghp|gho|ghs|github_pat)_[A-Za-z0-9_*-]{12,}
      | AIza[A-Za-z0-9_*-]{16,}
      | (?:AKIA|ASIA)[A-Z0-9]{12,}
      | ya29\.[A-Za-z0-9_.-]{10,}
      | eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*
    ) [A-Za-z0-9_*-]*
    """,
    re.VERBOSE,
)
_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{30,}={1,2}(?!=)")
_LONG: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{32,}")


def redact_text(text: str) -> str:
    """`text` with everything that looks like a secret replaced by ``***``.

    What counts: user and password in a URL, credentials behind `Bearer` and `Basic`, values named as keys, tokens or
    passwords, keys by their vendor's prefix, JSON web tokens, padded base64, and unbroken runs of 32 or more letters
    and digits. Words, paths, UUIDs and shorter identifiers stay. Redacting twice changes nothing more.
    """
    text = _USERINFO.sub(f"{MASK}@", text)
    text = _SCHEME.sub(rf"\1\g<2>{MASK}", text)
    text = _NAMED.sub(rf"\g<name>\g<mark>{MASK}", text)
    text = _VENDOR.sub(MASK, text)
    text = _BASE64.sub(MASK, text)
    return _LONG.sub(_mask_mixed, text)


def _mask_mixed(found: re.Match[str]) -> str:
    """A long run of letters only is a word, one of digits only a number."""
    run = found[0]
    return run if run.isalpha() or run.isdigit() else MASK
