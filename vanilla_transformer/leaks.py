"""Finds what must not become public in a text: keys, passwords, places on somebody's machine."""

import re
from collections.abc import Iterator

SHOWN = 8  # characters of a secret that an error may show

SECRETS = {
    "a Hugging Face token": r"\b(?:hf|api_org)_(?:oauth_|jwt_)?[A-Za-z0-9]{16,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    "a GitLab token": r"\bglpat-[\w-]{16,}",
    "an AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a Google key": r"\bAIza[\w-]{30,}",
    "a Slack token": r"\bxox[abeoprs]-[\w-]{10,}",
    "an API key": r"\bsk-(?:[a-z]+-)*[A-Za-z0-9_]{20,}",
    "a PyPI token": r"\bpypi-[\w-]{40,}",
    "a JSON web token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "a password in a URL": r"\bhttps?://[^\s/:@]+:[^\s/:@]+@",
    "a password or key": (
        r"(?i)\b\w*(?:api_?key|(?:access|auth|secret|hub|hf)_(?:token|key)|passw(?:or)?d)\b"
        r"[\"']?\s*[:=]\s*[\"']?[\w+/.~-]{12,}"
    ),
}
# Not a part of a URL, of a longer path or of a word: those name no place of their own.
PLACES = {
    "a path on a machine": (
        r"(?<![\w.~)$}])(?<!\w/)/(?:home|root|tmp|Users|var/folders|scratch|mnt|workspace)/[\w.~-]+"
        r"|\b[A-Za-z]:(?:\\{1,2}|/)(?:Users|Documents and Settings)(?:\\{1,2}|/)[\w.~-]+"
    ),
}
PATTERNS = {
    kind: re.compile(pattern) for table in (SECRETS, PLACES) for kind, pattern in table.items()
}


def find_leaks(text: str) -> Iterator[str]:
    """Say of each kind what was found first: "a path on a machine (/home/me, line 3)"."""
    for kind, pattern in PATTERNS.items():
        if match := pattern.search(text):
            found = match.group()
            if kind not in PLACES:  # an error message must not make it public either
                found = f"{found[:SHOWN]}..."
            line = text.count("\n", 0, match.start()) + 1
            yield f"{kind} ({found}, line {line})"
