"""What was found while a training corpus was read: for the log, for a file, and for programs."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

EXAMPLES = 5  # rows shown of each kind of fault
HAPPENED = {"keep": "kept", "drop": "dropped", "refuse": "refused"}


@dataclass
class CorpusCounts:
    """What one corpus gave."""

    name: str
    rows: int = 0
    pairs: int = 0


@dataclass
class Finding:
    """One kind of fault: what happened to such rows, how many there were, and the first ones."""

    check: str  # a key of corpus.checks in the recipe
    policy: str
    fault: str
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """In a line: 3 rows dropped: an empty side (corpus.checks.empty)."""
        rows = "row" if self.count == 1 else "rows"
        happened = HAPPENED[self.policy]
        return f"{self.count:,} {rows} {happened}: {self.fault} (corpus.checks.{self.check})"


@dataclass
class CorpusReport:
    """All corpora of a training set, and what looked wrong in them."""

    corpora: list[CorpusCounts] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    source_tokens: int = 0
    target_tokens: int = 0
    unknown_tokens: int = 0
    digest: str = ""  # of the token ids of all pairs

    @property
    def pairs(self) -> int:
        return sum(corpus.pairs for corpus in self.corpora)

    def summary(self) -> list[str]:
        """A few lines for the log."""
        return [
            *(
                f"{corpus.name}: {corpus.pairs:,} pairs of {corpus.rows:,} rows"
                for corpus in self.corpora
            ),
            *(finding.describe() for finding in self._sorted()),
            f"{self.pairs:,} training pairs, {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens"
            + (f", {self.unknown_tokens:,} of them unknown" if self.unknown_tokens else ""),
        ]

    def to_text(self) -> str:
        """The whole report, with the first rows of each fault."""
        lines = self.summary()
        for finding in self._sorted():
            more = finding.count - len(finding.examples)
            lines += ["", finding.describe(), *(f"  {example}" for example in finding.examples)]
            lines += [f"  and {more:,} more"] if more else []
        return "\n".join(lines) + "\n"

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "CorpusReport":
        """Read what `save` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["corpora"] = [CorpusCounts(**one) for one in values["corpora"]]
        values["findings"] = [Finding(**one) for one in values["findings"]]
        return cls(**values)

    def _sorted(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: -finding.count)
