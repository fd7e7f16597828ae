"""Run the transformers release's own tests on ours and on the library's: `make test-upstream`.

The release's source distribution carries its common test mixins. They are unpacked into
.upstream/, this folder's suites are laid beside them, and our translator and our tokenizer each
run through the same tests as one of the library's own. Ours must pass all of them and skip no
more than the library's does.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / ".upstream"
TEST_MODULES = {
    "VanillaTransformer": "test_vanilla_transformer.py",
    "MarianMT": "test_marian_mt.py",
    "VanillaTransformerTokenizer": "test_vanilla_transformer_tokenizer.py",
    "GPT2Tokenizer": "test_gpt2_tokenizer.py",
}
COMPARISONS = {"VanillaTransformer": "MarianMT", "VanillaTransformerTokenizer": "GPT2Tokenizer"}
Outcomes = dict[str, tuple[str, str]]  # test name -> (outcome, reason)


def download_release(name: str) -> Path:
    """The release's source distribution from the package index, once."""
    archive = BUILD / f"{name}.tar.gz"
    if not archive.exists():
        wanted = name.replace("-", "==")
        options = ["--no-deps", "--no-binary", "transformers", "--quiet", "--dest", str(BUILD)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], check=True)
    return archive


def lay_out(archive: Path, name: str) -> Path:
    """Unpack the release's tests and put ours among them: `.upstream/transformers-5.23.0`."""
    tree = BUILD / name
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(archive) as release:
        ours = [entry for entry in release if entry.name.startswith(f"{name}/tests/")]
        release.extractall(BUILD, ours, filter="data")
    for stand_in in (HERE / "stand_ins").rglob("*.*"):
        place = tree / "tests" / stand_in.relative_to(HERE / "stand_ins")
        if not place.exists():  # what a release ships itself comes first
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(stand_in, place)
    for file in ("suite.py", "tokenizer_suite.py", *TEST_MODULES.values()):
        shutil.copy(HERE / file, tree / "tests")
    for folder in (tree / "tests", *(path for path in tree.rglob("*") if path.is_dir())):
        (folder / "__init__.py").touch()
    shutil.copy(HERE / "outcomes.py", tree)
    # Without settings of its own, pytest would take those of the repository above.
    (tree / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore\n", encoding="utf-8")
    return tree


def run_suite(tree: Path, module: str, arguments: list[str]) -> Outcomes:
    file = tree / f"{module}.json"
    options = ["-p", "outcomes", f"--outcomes={file}", "-q", "--no-header", "--tb=short"]
    environment = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | os.environ
    command = [sys.executable, "-m", "pytest", f"tests/{module}", *options, *arguments]
    subprocess.run(command, cwd=tree, env=environment, check=False)
    return json.loads(file.read_text(encoding="utf-8"))


def print_comparison(results: dict[str, Outcomes]) -> None:
    columns = ("passed", "failed", "error", "skipped")
    print(f"\n{'':28}" + "".join(f"{column:>9}" for column in columns))
    for name, outcomes in results.items():
        counts = count(outcomes)
        print(f"{name:28}" + "".join(f"{counts[column]:9}" for column in columns))
    for ours, theirs in COMPARISONS.items():
        for name, other in ((ours, theirs), (theirs, ours)):
            for test, (outcome, reason) in sorted(results[name].items()):
                if outcome != "passed" and results[other].get(test, ("missing",))[0] != outcome:
                    print(f"{outcome} for {name} only: {test}: {reason}")


def count(outcomes: Outcomes) -> Counter[str]:
    return Counter(outcome for outcome, _ in outcomes.values())


def is_accepted(ours: Outcomes, theirs: Outcomes) -> bool:
    """No failure, no error, no more skips than the library's, and the same tests run on both."""
    counts = count(ours)
    return (
        ours.keys() == theirs.keys()
        and counts["failed"] + counts["error"] == 0
        and counts["passed"] > 0
        and counts["skipped"] <= count(theirs)["skipped"]
    )


def main(arguments: list[str]) -> int:
    BUILD.mkdir(exist_ok=True)
    name = f"transformers-{version('transformers')}"
    tree = lay_out(download_release(name), name)
    results = {name: run_suite(tree, module, arguments) for name, module in TEST_MODULES.items()}
    print_comparison(results)
    accepted = (is_accepted(results[ours], results[theirs]) for ours, theirs in COMPARISONS.items())
    return 0 if all(accepted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
