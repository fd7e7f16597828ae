"""A pytest plugin that writes one outcome a test, its subtests included, to a JSON file.

pytest counts a test whose subtests were all skipped as passed; here the worst outcome counts.
"""

import json
from pathlib import Path

import pytest

WORST_FIRST = ("error", "failed", "skipped", "passed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, required=True, help="the JSON file to write")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))


class Outcomes:
    """Collects (outcome, reason) by test name."""

    def __init__(self, file: Path):
        self.file = file
        self.by_test: dict[str, tuple[str, str]] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.note(report.nodeid, "error", report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            is_error = report.failed and report.when != "call"
            self.note(report.nodeid, "error" if is_error else report.outcome, reason_of(report))

    def note(self, nodeid: str, outcome: str, reason: str) -> None:
        test = nodeid.rsplit("::", 1)[-1]
        before = self.by_test.get(test, ("passed", ""))
        if WORST_FIRST.index(outcome) <= WORST_FIRST.index(before[0]):
            self.by_test[test] = (outcome, reason)

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps(self.by_test, indent=1), encoding="utf-8")


def reason_of(report: pytest.TestReport) -> str:
    """Why a test was skipped, or the last line of its failure."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext.strip().rsplit("\n", 1)[-1]
