"""Says what an error of the Hub means and what to do; and whether to wait and try again."""

import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from json import JSONDecodeError

from huggingface_hub.errors import (
    HfHubHTTPError,
    HTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)

PASSING = {408, 425, 429, 500, 502, 503, 504}  # codes after which it is worth trying again
OVERTAKEN = {409, 412}  # somebody else is writing there: look again, then write
SECRET = re.compile(r"\bhf_\w+")
QUOTA = re.compile(r"quota|storage (?:limit|full)|exceed|payment|too large", re.IGNORECASE)
RATE_LIMIT = re.compile(r";\s*r=0\b.*?;\s*t=(\d+)")  # nothing remains, for so many seconds
TOKENS = "https://huggingface.co/settings/tokens"
NO_TOKEN = (
    f"The Hub must know who publishes, got no token: run `hf auth login`, or set HF_TOKEN to a "
    f"token with write access ({TOKENS})."
)
ADVICE = {
    400: "it takes no such request: see what it says",
    401: f"it does not know the token: run `hf auth login` again with one from {TOKENS}",
    402: "it wants payment: your plan has no room for this, see your storage and billing settings",
    403: f"the token may not write there: take one with write access ({TOKENS}), and a user or "
    "organisation that you belong to",
    404: "there is no such place, or the token may not see it: check --to, the name of the user "
    "or organisation first",
    413: "it is too large for your storage there: free some, or publish fewer files",
    429: "it takes no more requests for now: publish again later, what is there is not sent again",
}
LATER = "publish again later, what is there is not sent again"
OTHER_WAY = "set HF_HUB_DISABLE_XET=1, then they go by plain HTTP"
# What an answer that never came, or was no answer of the Hub's but a gateway's page, ends in.
UNANSWERED = (HTTPError, ConnectionError, TimeoutError, JSONDecodeError)
NETWORK = "check the network, proxies and HF_ENDPOINT, and publish again: what is there stays there"


class UploadError(OSError):
    """Why something did not get to the Hub, in one sentence with the way out."""


def explain(error: BaseException, repository: str) -> UploadError | None:
    """What an error means; None if it is none of the Hub's and the network's."""
    cause = cause_of(error)
    if isinstance(cause, UploadError):
        return cause
    if isinstance(cause, LocalTokenNotFoundError):
        return UploadError(NO_TOKEN)
    if isinstance(cause, OfflineModeIsEnabled):
        return UploadError("The Hub must be reachable, got HF_HUB_OFFLINE: unset it to publish.")
    if isinstance(cause, HfHubHTTPError):
        code = cause.response.status_code
        said = SECRET.sub("hf_...", " ".join((cause.server_message or "").split()))
        advice = ADVICE[413] if QUOTA.search(said) else ADVICE.get(code, LATER)
        heard = f"{code}{f' ({said})' if said else ''}"
        return UploadError(f"The Hub must take {repository}, got {heard}: {advice}.")
    if isinstance(cause, UNANSWERED):
        said = f"{type(cause).__name__}{f': {cause}' if str(cause) else ''}"
        other_way = f" Or {OTHER_WAY}." if "xet" in said else ""
        return UploadError(f"The Hub must answer, got {said}: {NETWORK}.{other_way}")
    if isinstance(error, RuntimeError):  # what large files end in, where they go another way
        return UploadError(
            f"Large files must get to the Hub, got {error}: {LATER}, or {OTHER_WAY}."
        )
    if isinstance(error, ValueError) and QUOTA.search(str(error)):  # of single large files
        return UploadError(f"The Hub must take {repository}, got: {error} {ADVICE[413]}.")
    return None


def cause_of(error: BaseException) -> BaseException:
    """The error of the Hub behind an error, if there is one: uploads of large files hide it."""
    chain = [*_chain(error)]
    kinds = UploadError, LocalTokenNotFoundError, *UNANSWERED
    return next((one for one in chain if isinstance(one, kinds)), error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def seconds_to_wait(error: BaseException, attempt: int) -> float | None:
    """How long to wait before the next attempt; None if that would end like this one."""
    cause = cause_of(error)
    patience = float(2**attempt)
    if isinstance(cause, HfHubHTTPError):
        code = cause.response.status_code
        if code in PASSING:
            asked = _asked_to_wait(cause.response.headers)
            return patience if asked is None else asked
        return patience if code in OVERTAKEN else None
    if isinstance(cause, OfflineModeIsEnabled | LocalTokenNotFoundError | UploadError):
        return None
    return patience if isinstance(cause, UNANSWERED) else None


def _asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds by Retry-After, a number or a date, or by the Hub's own RateLimit."""
    told = headers.get("retry-after", "").strip()
    if told.isdigit():
        return float(told)
    if told:
        try:
            return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
        except ValueError:
            return None
    limit = RATE_LIMIT.search(headers.get("ratelimit", ""))
    return float(limit[1]) if limit else None
