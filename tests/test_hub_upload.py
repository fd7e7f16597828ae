"""What arrives at the Hub, in how many commits, and what is said when it does not."""

import pytest
from hub_stub import Repository

from vanilla_transformer.hub_errors import UploadError
from vanilla_transformer.hub_upload import Destination, find_destination, upload

NAME = "alice/toy"
TO_NAME = Destination(NAME, private=False)


@pytest.fixture
def folder(tmp_path):
    """What nobody can load, but everybody can upload."""
    files = {
        "README.md": b"---\nlicense: mit\n---\n# Toy\n",
        "config.json": b"{}",
        "empty.txt": b"",
        "model.safetensors": bytes(range(256)) * 20,
        "training.png": b"\x89PNG\r\n" + bytes(2_000),
    }
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        (tmp_path / "folder" / name).write_bytes(content)
    return tmp_path / "folder"


def content_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def published(repository):
    return {name: content for name, content in repository.files.items() if name[0] != "."}


@pytest.mark.parametrize("chunk_size", [None, 700], ids=["whole", "in parts"])
def test_a_new_repository_gets_the_folder_in_one_commit(folder, at_hub, chunk_size):
    with at_hub(chunk_size=chunk_size) as hub:
        address = upload(folder, TO_NAME, "A message")

    repository = hub.repositories[NAME]
    assert published(repository) == content_of(folder)
    assert [message for message, _ in repository.commits] == ["initial commit", "A message"]
    assert address == f"{hub.url}/{NAME}/commit/{repository.head}"
    assert not repository.private
    assert bool(hub.asked("PUT /lfs/.*/2$")) == (chunk_size is not None)


def test_an_existing_repository_is_updated_in_one_commit_and_keeps_other_files(folder, at_hub):
    with at_hub() as hub:
        upload(folder, TO_NAME, "First")
        hub.repositories[NAME].commits[-1][1]["notes/mine.txt"] = b"kept"
        (folder / "model.safetensors").write_bytes(b"new weights")
        (folder / "README.md").write_text("---\nlicense: mit\n---\n# New\n")
        upload(folder, TO_NAME, "Second")

    repository = hub.repositories[NAME]
    assert [message for message, _ in repository.commits[1:]] == ["First", "Second"]
    assert published(repository) == {**content_of(folder), "notes/mine.txt": b"kept"}
    assert len(hub.asked("PUT /lfs/")) == 3  # the picture has not changed


def test_files_of_an_earlier_model_go_in_the_same_commit(folder, at_hub):
    earlier = (
        *("model-00001-of-00002.safetensors", "model.safetensors.index.json"),
        "training_args.bin",
    )
    with at_hub() as hub:
        files = {**dict.fromkeys(earlier, b"old"), "pytorch_model.bin": b"old", "more.bin": b"mine"}
        hub.repositories[NAME] = Repository(private=False, commits=[("by hand", files)])
        upload(folder, TO_NAME, "Weights in one file")

    assert len(hub.repositories[NAME].commits) == 2
    assert published(hub.repositories[NAME]) == {**content_of(folder), "more.bin": b"mine"}


def test_nothing_new_makes_no_commit(folder, at_hub):
    with at_hub() as hub:
        first = upload(folder, TO_NAME, "First")
        second = upload(folder, TO_NAME, "Again")

    assert second == first
    assert len(hub.repositories[NAME].commits) == 2


# A request at which something happens, how often, and whether the Hub had done its work already.
TROUBLE = {
    "whoami": ("/api/whoami", 1, False),
    "create": ("/api/repos/create", 2, False),
    "created unnoticed": ("/api/repos/create", 1, True),
    "validate": ("/api/validate-yaml", 2, False),
    "info": ("GET /api/models/", 1, False),
    "preupload": ("/preupload/", 1, False),
    "large file": ("PUT /lfs/", 2, False),
    "large file unnoticed": ("PUT /lfs/", 1, True),
    "commit": ("/commit/", 3, False),
    "committed unnoticed": ("/commit/", 1, True),
}
PAGE = {"code": 503, "page": b"<html>Service unavailable</html>"}
FAULTS = {"broken connection": {}, "502": {"code": 502}, "page of a gateway": PAGE}


@pytest.mark.parametrize(("request_", "times", "after"), TROUBLE.values(), ids=TROUBLE)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_passing_trouble_changes_nothing_but_the_time(
    request_, times, after, fault, folder, at_hub
):
    with at_hub() as hub:
        hub.fail(request_, times=times, after=after, **fault)
        upload(folder, find_destination(NAME, private=False), "Once")

    assert published(hub.repositories[NAME]) == content_of(folder)
    assert [message for message, _ in hub.repositories[NAME].commits[1:]] == ["Once"]
    assert len(hub.waits) == times


def test_an_upload_that_was_given_up_is_resumed_where_it_was(folder, at_hub):
    with at_hub() as hub:
        hub.fail("/commit/", code=503, times=99)
        with pytest.raises(UploadError, match="503"):
            upload(folder, TO_NAME, "Never")
        sent = len(hub.asked("PUT /lfs/"))
        assert len(hub.repositories[NAME].commits) == 1
        hub.faults.clear()
        upload(folder, TO_NAME, "Resumed")

    assert sent == 2
    assert len(hub.asked("PUT /lfs/")) == sent
    assert published(hub.repositories[NAME]) == content_of(folder)


def test_a_rate_limit_is_waited_for_as_long_as_the_hub_says(folder, at_hub):
    with at_hub() as hub:
        hub.fail("/repos/create", code=429, **{"Retry-After": "17"})
        hub.fail("/commit/", code=429, RateLimit='"api";r=0;t=23')
        upload(folder, TO_NAME, "Patient")

    assert hub.waits == [17, 23]
    assert published(hub.repositories[NAME]) == content_of(folder)


def test_a_gateway_that_stays_is_said_to_be_one(folder, at_hub):
    with at_hub() as hub:
        hub.fail("/api/validate-yaml", times=99, **PAGE)
        with pytest.raises(UploadError, match=r"must answer, got JSONDecodeError.*check the netw"):
            upload(folder, TO_NAME, "Never")

    assert len(hub.waits) > 1


def test_nobody_waits_an_hour(folder, at_hub):
    with at_hub() as hub:
        hub.fail("/commit/", code=429, **{"Retry-After": "3600"})
        with pytest.raises(UploadError, match=r"429.*publish again later"):
            upload(folder, TO_NAME, "Impatient")

    assert hub.waits == []


def test_a_commit_of_somebody_else_in_between_is_seen(folder, at_hub):
    def commit():
        repository = hub.repositories[NAME]
        files = {**repository.files, "mine.txt": b"mine", "pytorch_model.bin": b"old"}
        repository.commits.append(("Meanwhile", files))

    with at_hub() as hub:
        hub.meanwhile("/commit/", commit)
        upload(folder, TO_NAME, "After")

    assert [message for message, _ in hub.repositories[NAME].commits[1:]] == ["Meanwhile", "After"]
    assert published(hub.repositories[NAME]) == {**content_of(folder), "mine.txt": b"mine"}


def test_trouble_with_large_files_alone_names_the_other_way(folder, at_hub, monkeypatch):
    def fail(*places, **settings):
        raise RuntimeError("CAS service error")

    with at_hub():
        monkeypatch.setattr("huggingface_hub._commit_api._upload_files", fail)
        with pytest.raises(UploadError, match=r"CAS service error.*HF_HUB_DISABLE_XET=1"):
            upload(folder, TO_NAME, "Never")


def test_a_private_repository_is_private_and_a_public_one_is_refused(folder, at_hub):
    with at_hub() as hub:
        upload(folder, Destination(NAME, private=True), "Secret")
        upload(folder, Destination("alice/public", private=False), "For all")
        before = len(hub.repositories["alice/public"].commits)
        with pytest.raises(UploadError, match="there and public"):
            upload(folder, Destination("alice/public", private=True), "Too late")

    assert hub.repositories[NAME].private
    assert len(hub.repositories["alice/public"].commits) == before


def test_a_name_alone_is_one_of_the_user_s(at_hub):
    with at_hub():
        assert find_destination("toy", private=True) == Destination(NAME, private=True)


@pytest.mark.parametrize(
    ("token", "repository", "complaint"),
    [
        (None, NAME, "no token.*hf auth login"),
        ("hf_unknown", NAME, "401.*hf auth login"),
        ("hf_reader", NAME, "allowed to write"),
    ],
)
def test_whoever_may_not_write_learns_it_before_any_work(token, repository, complaint, at_hub):
    with at_hub(token=token), pytest.raises(UploadError, match=complaint) as refusal:
        find_destination(repository, private=False)

    assert token is None or token not in str(refusal.value)


@pytest.mark.parametrize("kind", ["model", "space"])
@pytest.mark.parametrize(
    ("repository", "private", "complaint"),
    [
        ("alice/public", True, "there and public"),
        ("public", True, "got alice/public, which is there and public"),
        ("somebody/public", False, "403.*write access"),
    ],
)
def test_a_repository_that_cannot_be_written_to_is_refused_before_any_work(
    repository, private, complaint, kind, at_hub
):
    with at_hub() as hub:
        for name in ("alice/public", "somebody/public"):
            commits = [("by hand", {})]
            hub.repositories[name] = Repository(private=False, commits=commits, kind=kind)
        with pytest.raises(UploadError, match=complaint):
            find_destination(repository, private=private, kind=kind)

    assert hub.waits == []


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ({"code": 401}, "does not know the token"),
        ({"code": 403, "message": "No rights for hf_secret"}, "write access"),
        ({"code": 404}, "no such place"),
        ({"code": 403, "message": "Private repository storage limit reached"}, "too large"),
        ({"code": 402}, "billing"),
        ({"code": 400, "message": "Bad request"}, "Bad request"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "request_", ["/repos/create", "/preupload/", "/lfs/objects/batch", "/commit/"]
)
def test_lasting_trouble_ends_at_once_with_a_way_out(request_, fault, complaint, folder, at_hub):
    with at_hub() as hub:
        hub.fail(request_, times=99, **fault)
        with pytest.raises(UploadError, match=complaint) as refusal:
            upload(folder, TO_NAME, "Refused")

    assert hub.waits == []
    assert NAME in str(refusal.value)
    assert "hf_secret" not in str(refusal.value)


def test_another_s_name_is_refused(folder, at_hub):
    with at_hub(), pytest.raises(UploadError, match="403"):
        upload(folder, Destination("somebody/toy", private=False), "Not mine")


def test_no_network_is_said_to_be_that(folder, at_hub):
    with at_hub() as hub:
        hub.server.server_close()
        hub.server.shutdown()
        with pytest.raises(UploadError, match="check the network"):
            upload(folder, TO_NAME, "Nowhere")

    assert len(hub.waits) > 1


@pytest.mark.parametrize("name", ["a/b/c", "-a/b", "a/b..c", "a b", "a/" + "b" * 97, "a/b.git", ""])
def test_what_can_be_no_repository_is_refused_without_asking(name, at_hub):
    with at_hub() as hub, pytest.raises(ValueError, match="--to must be"):
        find_destination(name, private=False)

    assert hub.requests == []
