"""Finds what must not become public in a text: keys, passwords, places on somebody's machine."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

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
    "a password in a URL": r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/:@]+@",
    "a password or key": (
        r"(?i)\b\w*(?:api_?key|(?:access|auth|secret|hub|hf)_(?:token|key)|passw(?:or)?d)\b"
        r"[\"']?\s*[:=]\s*[\"']?[\w+/.~-]{12,}"
    ),
}
PLACE = "a path on a machine"
ROOTS = (  # below which people have their files; on a disk of its own a home has another name
    *("home", "root", "Users", "Volumes", "scratch", "mnt", "workspace"),
    r"(?:data\d*|export|net|nfs|gpfs\d*|lustre|afs|storage|work|cluster)/(?:home|users?|scratch)",
    *("(?:private/)?tmp", "(?:private/)?var/folders", "content/drive"),
)
NAME = r"[\w.~-]+"
PLACES = (
    # Not a part of a URL, of a longer path or of a word: those name no place of their own.
    rf"(?<![\w.~)$}}])(?<!\w/)/(?:(?:{'|'.join(ROOTS)})/{NAME}"
    r"|kaggle/(?:working|input|temp)\b|media/[\w~-]+(?!\.?[\w~-]))",  # no /media/logo.png
    rf"\b[A-Za-z]:(?:\\{{1,2}}|/)(?:Users|Documents and Settings)(?:\\{{1,2}}|/){NAME}",
    rf"\b[A-Za-z]:\\\\{NAME}\\\\{NAME}",
    rf"\b[A-Za-z]:\\(?![nrt]){NAME}\\{NAME}",  # and no "Q:\nWhat\nA:", as code writes lines
    *(
        rf"(?<!\\){start}[\w.-]{{2,}}{one}[\w$.-]{{2,}}{one}{NAME}"  # a Windows server
        for start, one in ((r"\\\\", r"\\"), (r"\\{4}", r"\\\\"))
    ),
)
FEWEST_PARTS = 3  # of a place of one's own: / and two names; /tmp or /app say nothing of anybody
PATTERNS = {kind: re.compile(pattern) for kind, pattern in SECRETS.items()}


def find_leaks(text: str) -> Iterator[str]:
    """Say of each kind what was found first: "a path on a machine (/home/me, line 3)"."""
    for kind, pattern in (PATTERNS | {PLACE: place_pattern()}).items():
        if match := pattern.search(text):
            found = match.group()
            if kind != PLACE:  # an error message must not make it public either
                found = f"{found[:SHOWN]}..."
            line = text.count("\n", 0, match.start()) + 1
            yield f"{kind} ({found}, line {line})"


def place_pattern() -> re.Pattern[str]:
    """What places on machines look like, and those of whoever publishes, however they look."""
    own = "|".join(re.escape(place) for place in own_places())
    whole_own = [rf"(?<![\w.~-])(?<!:/)(?<!\w/)(?:{own})(?![\w-])"] if own else []
    return re.compile("|".join([*PLACES, *whole_own]))


def own_places() -> Iterator[str]:
    """Where this user and this process are at home, as text, code and JSON write it."""
    for place in (Path.home(), Path.cwd(), Path(tempfile.gettempdir())):
        if len(place.parts) >= FEWEST_PARTS:
            yield from {str(place), str(place).replace("\\", r"\\"), place.as_posix()}
