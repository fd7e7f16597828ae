"""What must not become public is found, and what only looks like it is let go."""

import pytest

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


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_private_is_let_go(text):
    assert [*find_leaks(text)] == []
