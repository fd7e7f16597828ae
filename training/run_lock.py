"""One run a folder: whoever comes second is told who is there, before anything is touched.

The operating system forgets the lock when its holder dies, however it dies. Where it has no such
locks (Windows, some network disks), the lock is a file that a killed run leaves behind.
"""

import errno
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Self

try:
    import fcntl
except ImportError:  # Windows
    HAS_SYSTEM_LOCKS = False
else:
    HAS_SYSTEM_LOCKS = True

LOCK = "lock"
NO_LOCKS_HERE = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


class RunLock:
    """`with RunLock(run_folder):` the folder is ours; it is made if need be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = ExitStack()

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            is_ours = self._lock_by_system() if HAS_SYSTEM_LOCKS else self._lock_by_existence()
        except OSError as error:
            raise ValueError(
                f"{self.folder} must be a folder we may write to, got: {error}."
            ) from error
        if not is_ours:
            raise ValueError(self._refusal())
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _lock_by_system(self) -> bool:
        file = (self.folder / LOCK).open("a+", encoding="utf-8")
        self._held.callback(file.close)
        # A forked data worker may outlive us by seconds: it must not keep the lock meanwhile.
        os.register_at_fork(after_in_child=file.close)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._held.close()
            if error.errno in NO_LOCKS_HERE:
                return self._lock_by_existence()
            if isinstance(error, BlockingIOError):
                return False
            raise
        file.truncate(0)
        _sign(file)
        return True

    def _lock_by_existence(self) -> bool:
        path = self.folder / f"{LOCK}.held"
        try:
            with path.open("x", encoding="utf-8") as file:
                _sign(file)
        except FileExistsError:
            return False
        self._held.callback(path.unlink)
        return True

    def _refusal(self) -> str:
        path = self.folder / f"{LOCK}.held"
        by_existence = path.exists()
        holder = (path if by_existence else self.folder / LOCK).read_text(encoding="utf-8").strip()
        way_out = f" (if it is no longer running: delete {path})" if by_existence else ""
        return (
            f"{self.folder} must be used by one run at a time, got a second one while "
            f"{holder or 'another process'} is at work: wait for it, stop it{way_out}, or choose "
            "another folder."
        )


def _sign(file: IO[str]) -> None:
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
