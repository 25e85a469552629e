"""A storage works the same on a bucket of a local S3 server and on a shared folder."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from search_spaces.common.checksums import CHECKSUMS
from tests.s3_server import BUCKET, CREDENTIALS, S3Server, s3_server
from trainables.storage import Storage, StorageError, address_problem, storage_problem


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
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
    (folder / "vocabulary.txt.gz").write_bytes(b"not compressed")  # pyarrow guesses a compression from a name
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_folder_and_a_file_come_back_whole_and_are_replaced_whole(
    storage: Storage, model: Path, tmp_path: Path
) -> None:
    storage.put(model, "checkpoints/00001")
    assert storage.get("checkpoints/00001", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(model)
    assert not (model / CHECKSUMS).exists(), "nothing is written to the source"
    assert storage.has_folder("checkpoints/00001")
    (model / "config.json").unlink()
    storage.put(model, "checkpoints/00001")
    storage.get("checkpoints/00001", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(model)
    storage.write("deep/one", b"first")
    storage.put(model / "model.safetensors", "deep/one")
    assert storage.get("deep/one", tmp_path / "new" / "two")
    one = (model / "model.safetensors").read_bytes()
    assert (tmp_path / "new" / "two").read_bytes() == storage.read("deep/one") == one


def test_a_folder_without_its_list_of_checksums_does_not_count(storage: Storage, model: Path, tmp_path: Path) -> None:
    """Such a folder remains if its writer is killed."""
    storage.put(model, "c/1")
    storage.delete(f"c/1/{CHECKSUMS}")
    assert not storage.has_folder("c/1")
    assert not storage.get("c/1", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    ("file", "content", "fact"),
    [
        ("model.safetensors", b"zeroed", r"model\.safetensors"),
        (CHECKSUMS, b"00000000  ../../evil\n", "evil"),
    ],
)
def test_a_folder_with_a_damaged_file_or_a_name_outside_it_is_refused(
    storage: Storage, model: Path, tmp_path: Path, file: str, content: bytes, fact: str
) -> None:
    storage.put(model, "c/1")
    storage.write(f"c/1/{file}", content)
    with pytest.raises(StorageError, match=fact):
        storage.get("c/1", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_an_empty_storage_has_nothing_even_after_it_was_checked(storage: Storage, tmp_path: Path) -> None:
    assert storage_problem(storage.uri) is None
    assert storage.read("nothing") is None
    assert not storage.get("nothing", tmp_path / "back")
    assert storage.names(folders=False) == storage.names("no", folders=True) == []


def test_files_and_folders_are_listed_separately_and_deleted_without_their_neighbours(
    storage: Storage, model: Path
) -> None:
    storage.put(model, "c/1")
    storage.put(model, "c/1-epoch-3")
    storage.subfolder("c").write("note.txt", b"x")
    assert storage.subfolder("c").name == "c"
    assert storage.names("c", folders=True) == ["1", "1-epoch-3"]
    assert storage.names("c", folders=False) == ["note.txt"]
    assert storage.names("c/1", folders=False) == [CHECKSUMS, "config.json", "model.safetensors", "vocabulary.txt.gz"]
    for name in ("c/1", "c/note.txt", "never/there"):
        storage.delete(name)
    assert storage.names("c", folders=True) == ["1-epoch-3"]
    assert storage.read("c/note.txt") is None


def test_a_pickled_storage_has_no_credentials(server: S3Server) -> None:
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


@pytest.mark.parametrize("uri", ["foo://bucket/x", "s3:///x", "s3://bucket/x?bogus=1", "nowhere/sweeps"])
def test_an_address_of_no_known_storage_is_one_line_without_the_ids_of_a_request(uri: str, server: S3Server) -> None:
    problem = storage_problem(uri if ":" in uri else server.uri(uri))
    assert problem is not None
    assert problem.startswith("--storage")
    assert "\n" not in problem
    assert ("NO_SUCH_BUCKET" in problem) is (":" not in uri)
    assert "Request ID" not in problem
