"""Run the transformers release's own model tests on ours and on MarianMT: `make test-upstream`.

The release's source distribution carries its common test mixins. They are unpacked into
.upstream/, this folder's suite is laid beside them, and both translators run through the same
tests. Ours must pass all of them and skip no more than MarianMT does.
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
OURS, THEIRS = "VanillaTransformer", "MarianMT"
TEST_MODULES = {OURS: "test_vanilla_transformer.py", THEIRS: "test_marian_mt.py"}
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
    for stand_in in (HERE / "stand_ins").rglob("*.py"):
        place = tree / "tests" / stand_in.relative_to(HERE / "stand_ins")
        if not place.exists():  # what a release ships itself comes first
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(stand_in, place)
    for file in ("suite.py", *TEST_MODULES.values()):
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
    print(f"\n{'':20}" + "".join(f"{column:>9}" for column in columns))
    for model, outcomes in results.items():
        counts = Counter(outcome for outcome, _ in outcomes.values())
        print(f"{model:20}" + "".join(f"{counts[column]:9}" for column in columns))
    for model, other in ((OURS, THEIRS), (THEIRS, OURS)):
        for test, (outcome, reason) in sorted(results[model].items()):
            if outcome != "passed" and results[other].get(test, ("missing",))[0] != outcome:
                print(f"{outcome} for {model} only: {test}: {reason}")


def is_accepted(results: dict[str, Outcomes]) -> bool:
    """No failure, no error, no more skips than MarianMT, and the same tests run on both."""
    ours = Counter(outcome for outcome, _ in results[OURS].values())
    theirs = Counter(outcome for outcome, _ in results[THEIRS].values())
    return (
        results[OURS].keys() == results[THEIRS].keys()
        and ours["failed"] + ours["error"] == 0
        and ours["passed"] > 0
        and ours["skipped"] <= theirs["skipped"]
    )


def main(arguments: list[str]) -> int:
    BUILD.mkdir(exist_ok=True)
    name = f"transformers-{version('transformers')}"
    tree = lay_out(download_release(name), name)
    results = {model: run_suite(tree, module, arguments) for model, module in TEST_MODULES.items()}
    print_comparison(results)
    return 0 if is_accepted(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
