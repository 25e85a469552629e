"""One class over a bucket of a local S3 server and over a shared folder: the same behaviour."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from search_spaces.checksums import CHECKSUMS
from tests.s3_server import BUCKET, CREDENTIALS, S3Server, s3_server
from trainables.run.failures import NO_STORAGE, infrastructure, one_line
from trainables.storage import Storage, StorageError, address_problem, is_address, storage_problem


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A new, empty one of each kind."""
    if request.param == "folder":
        return Storage((tmp_path / "shared").as_uri())
    server: S3Server = request.getfixturevalue("server")
    return Storage(server.uri(f"{BUCKET}/{tmp_path.name}-{request.node.name.partition('[')[0]}"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "templates").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 1000)
    (folder / "config.json").write_text("{}")
    (folder / "templates" / "chat.jinja").write_text("x")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_file_comes_back_as_it_was(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\x00one")
    storage.put(tmp_path / "one", "deep/down/one")
    assert storage.get("deep/down/one", tmp_path / "new" / "two")
    assert (tmp_path / "new" / "two").read_bytes() == b"\x00one"
    assert storage.read("deep/down/one") == b"\x00one"


def test_what_is_put_again_is_replaced(storage: Storage, tmp_path: Path) -> None:
    storage.write("front.json", b"first")
    storage.write("front.json", b"second")
    assert storage.read("front.json") == b"second"


def test_a_folder_comes_back_whole(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.put(model, "checkpoints/00001")
    assert storage.get("checkpoints/00001", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(model)
    assert not (model / CHECKSUMS).exists(), "nothing is written where it came from"
    assert storage.has_folder("checkpoints/00001")
    assert storage.names("checkpoints", folders=True) == ["00001"]


def test_a_folder_put_again_has_no_file_of_the_old_one(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.put(model, "c/1")
    (model / "config.json").unlink()
    storage.put(model, "c/1")
    storage.get("c/1", tmp_path / "back")
    assert "config.json" not in contents(tmp_path / "back")


def test_a_folder_that_lacks_its_list_is_not_there(storage: Storage, model: Path, tmp_path: Path) -> None:
    """Its writer was killed in the midst of it."""
    storage.put(model, "c/1")
    storage.delete(f"c/1/{CHECKSUMS}")
    assert not storage.has_folder("c/1")
    assert not storage.get("c/1", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_file_that_is_not_as_written_is_not_believed(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.put(model, "c/1")
    storage.write("c/1/model.safetensors", b"zeroed")
    with pytest.raises(StorageError, match=r"model\.safetensors did not arrive as written"):
        storage.get("c/1", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_list_cannot_name_a_file_outside_its_folder(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.put(model, "c/1")
    storage.write(f"c/1/{CHECKSUMS}", b"00000000  ../../evil\n")
    with pytest.raises(StorageError, match="not the name of a file in it"):
        storage.get("c/1", tmp_path / "back")


def test_what_is_deleted_is_gone_and_its_neighbours_stay(storage: Storage, model: Path, tmp_path: Path) -> None:
    storage.put(model, "c/1")
    storage.put(model, "c/1-epoch-3")
    storage.write("c.json", b"x")
    storage.delete("c/1")
    storage.delete("c.json")
    storage.delete("never/there")
    assert storage.names("c", folders=True) == ["1-epoch-3"]
    assert storage.read("c.json") is None


def test_nothing_is_found_where_nothing_is(storage: Storage, tmp_path: Path) -> None:
    assert storage.read("nothing") is None
    assert not storage.get("nothing", tmp_path / "back")
    assert storage.files("no") == storage.names("no", folders=True) == []


def test_files_and_folders_are_told_apart(storage: Storage, model: Path) -> None:
    storage.put(model, "c/1")
    storage.write("c/note.txt", b"x")
    assert storage.names("c", folders=True) == ["1"]
    assert storage.names("c", folders=False) == ["note.txt"]
    assert "1/templates/chat.jinja" in storage.files("c")


def test_a_folder_within_is_a_storage_of_its_own(storage: Storage) -> None:
    storage.within("sweep-1").write("trials.csv", b"x")
    assert storage.files() == ["sweep-1/trials.csv"]
    assert storage.within("sweep-1").name == "sweep-1"


def test_a_storage_that_can_be_used_is_not_marked_by_the_look_at_it(storage: Storage) -> None:
    assert storage_problem(storage.uri) is None
    assert storage.files() == []


def test_a_bucket_that_is_not_there_is_one_sentence(server: S3Server) -> None:
    problem = storage_problem(server.uri("nowhere/sweeps"))
    assert problem is not None
    assert "NO_SUCH_BUCKET" in problem
    assert "\n" not in problem
    assert "Request ID" not in problem


def test_what_a_worker_gets_has_no_credentials(server: S3Server) -> None:
    storage = Storage(server.uri(f"{BUCKET}/x"))
    sent = pickle.dumps((storage, storage.filesystem))
    assert not any(secret.encode() in sent for name, secret in CREDENTIALS.items() if "KEY" in name)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:hidden@bucket/x",
        "s3://hidden@bucket/x",
        "s3://bucket/x?access_key=a&secret_key=hidden",
        "s3://bucket/x?endpoint_override=http://me:hidden@host",
        "abfs://:hidden@account.dfs.core.windows.net/x",
        "abfs://c@a.dfs.core.windows.net/x?sas_token=hidden",
    ],
)
def test_an_address_with_credentials_is_refused_and_not_repeated(uri: str) -> None:
    problem = address_problem(uri)
    assert problem is not None
    assert "credentials" in problem
    assert "hidden" not in problem


@pytest.mark.parametrize(
    "uri", ["s3://b/x?region=eu-west-1", "abfs://c@a.dfs.core.windows.net/x", "gs://anonymous@b/x"]
)
def test_an_address_without_is_taken(uri: str) -> None:
    assert address_problem(uri) is None


def test_paths_are_no_addresses() -> None:
    assert is_address("s3://bucket")
    assert not is_address("/shared/ray")
    assert not is_address(None)


@pytest.mark.parametrize("uri", ["foo://bucket/x", "s3:///x", "s3://bucket/x?bogus=1"])
def test_an_address_that_nothing_reads_is_one_sentence(uri: str) -> None:
    problem = storage_problem(uri)
    assert problem is not None
    assert problem.startswith("--storage")
    assert "\n" not in problem


def test_a_storage_that_went_away_is_no_fault_of_the_trial() -> None:
    error = StorageError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7")
    line = one_line(f"{type(error).__name__}: {error}")
    assert infrastructure(line) == NO_STORAGE
    assert line.startswith(NO_STORAGE)
    assert "curlCode: 7" in line
