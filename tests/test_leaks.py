"""What must not become public is found, and what only looks like it is let go."""

import os
import tempfile
from pathlib import Path

import pytest
from scripts.point_links import REPOSITORY

from vanilla_transformer.leaks import SECRETS, find_leaks

LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7"
# In pieces: whoever scans this repository shall find nothing either.
KEYS = {
    "a Hugging Face token": "hf_" + LETTERS,
    "a GitHub token": "ghp_" + LETTERS,
    "a GitLab token": "glpat-" + LETTERS,
    "an AWS key": "AKIA" + "ABCDEFGH" * 2,
    "a Google key": "AIza" + LETTERS * 2,
    "a Slack token": "xoxb-" + LETTERS,
    "an API key": "sk-proj-" + LETTERS,
    "a PyPI token": "pypi-" + LETTERS * 2,
    "a JSON web token": f"eyJ{LETTERS}.eyJ{LETTERS}.{LETTERS}",
    "a private key": "-----BEGIN RSA PRIVATE " + "KEY-----",
    "a password in a URL": "https://me:" + LETTERS + "@example.org",
    "a password or key": 'WANDB_API_KEY="' + LETTERS + '"',
}
PLACES = [
    "/home/me/runs",
    "path=/root/x",
    '"/tmp/w"',
    "file:///home/me",
    "(/Users/me/x)",
    "C:\\Users\\me",
    '"C:\\\\Users\\\\me\\\\x"',
    "D:/Users/me",
    *("/data/home/alice", "/export/home/bob", "/net/home/alice", "/gpfs/users/a", "/media/alice"),
    *("/media/alice/disk/a.tsv", "/Volumes/D/alice", "/private/tmp/x", "/private/var/folders/zz/x"),
    *("/content/drive/MyDrive", "/kaggle/working", "at /kaggle/input/words."),
    *("D:\\work\\alice", '"D:\\\\work\\\\alice"', "E:\\data\\x", "\\\\server\\share\\alice"),
    '{"from": "\\\\\\\\server\\\\share$\\\\alice"}',
]
HARMLESS = [
    "https://example.org/home/page",
    "../tmp/x, ./home/me, a/root/b, ~/runs, $HOME/tmp/x",
    "the /home directory, /tmp, /root.",
    "hf_hub_download, hf_transfer, HF_TOKEN",
    '{"eos_token": "</s>", "tokenizer_class": "VanillaTransformerTokenizer"}',
    "task-" + LETTERS,
    "eyJust a word",
    "see https://example.org:8080/a@b",
    "https://example.org/data/home/a, //example.org/media/b, ![](/media/logo.png)",
    "GET /api/users/alice, /data/users.json, /content/driver, input/output, and/or",
    "Q:\\nWhat\\nA:\\nThis, ratio 1:\\t2\\t3, \\\\p{L}+\\\\s, \\\\begin{a}\\\\end{a}, a:\\b",
    "ssh://git@example.org/a, postgres://example.org:5432/a",
]


def test_every_kind_of_secret_has_a_sample():
    assert KEYS.keys() == SECRETS.keys()


@pytest.mark.parametrize("kind", KEYS)
def test_a_secret_is_found_and_not_repeated(kind):
    found = [*find_leaks(f"first line\nthen {KEYS[kind]} and more")]

    assert any(one.startswith(f"{kind} (") and "line 2" in one for one in found)
    assert all(LETTERS not in one for one in found)


@pytest.mark.parametrize("text", PLACES)
def test_a_place_on_a_machine_is_found(text):
    (found,) = find_leaks(text)

    assert found.startswith("a path on a machine")


@pytest.mark.parametrize("scheme", ["postgresql", "s3", "redis+tls", "FTP"])
def test_a_password_is_found_in_every_kind_of_url(scheme):
    (found,) = find_leaks(f"{scheme}://me:{LETTERS}@example.org")

    assert found.startswith("a password in a URL")


@pytest.mark.parametrize("own", ["HOME", "TMPDIR", "cwd"])
def test_one_s_own_places_are_found_wherever_they_lie(own, tmp_path, monkeypatch):
    place = Path("/srv/staff/alice")
    monkeypatch.setenv("HOME", str(place if own == "HOME" else "/"))
    monkeypatch.setattr(tempfile, "tempdir", str(place if own == "TMPDIR" else "/tmp"))
    monkeypatch.setattr(os, "getcwd", lambda: str(place if own == "cwd" else "/app"))

    for text in (f"see {place}/x", f"file://{place}"):
        assert [*find_leaks(text)] == [f"a path on a machine ({place}, line 1)"]
    assert [*find_leaks(f"https://example.org{place}, a{place}, {place}-2, /app, /app/x")] == []


def test_our_own_code_names_no_place():
    rooms = ("vanilla_transformer", "training", "tokenizer")
    files = [file for room in rooms for file in REPOSITORY.glob(f"{room}/*.py")]

    named = {file.name: [*find_leaks(file.read_text("utf-8"))] for file in files}
    assert named.pop("leaks.py")  # which says what they look like
    assert {name: leaks for name, leaks in named.items() if leaks} == {}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_private_is_let_go(text):
    assert [*find_leaks(text)] == []
