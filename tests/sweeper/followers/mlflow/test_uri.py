"""Which tracking URIs are accepted, and how a tracker changes the process that creates it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from sweeper.followers.mlflow.store import ExperimentStore, plain_reason
from sweeper.settings.tracking_uri import (
    absolute_uri,
    redact_uri,
    sqlite_path,
    sqlite_uri,
    tracking_problem,
    uri_with_password,
)
from tests.sweeper.followers.mlflow.conftest import FirstSession


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("sqlite:///mlflow.db", None),
        ("https://user:secret@tracking.example.com/mlflow", None),
        ("ftp://host/x", "ftp"),
        ("./mlruns", "sqlite:///mlflow.db"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///{tmp}/text/mlflow.db", "text"),
        ("mysql://user:secret@host/db", "MySQLdb"),
        ("postgresql+nodriver://user:secret@host/db", "nodriver"),
    ],
)
def test_a_uri_that_cannot_work_is_explained_without_its_password(uri: str, named: str | None, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but a text")
    problem = tracking_problem(uri.format(tmp=tmp_path))
    assert (problem is None) == (named is None)
    assert (named or "") in str(problem)
    assert "secret" not in str(problem)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://user:secret@host:5000/mlflow", "https://user@host:5000/mlflow"),
        ("https://user:sec/ret@host/mlflow", "https://user@host/mlflow"),
        ("postgresql://host/db?user=ann&password=secret", "postgresql://host/db?user=ann&password=***"),
        ("--tracking-uri=http://user:secret@host", "--tracking-uri=http://user@host"),
        ("sqlite:///a@b.db", "sqlite:///a@b.db"),
    ],
)
def test_a_password_is_never_shown_and_all_else_is(uri: str, shown: str) -> None:
    assert redact_uri(uri) == shown


@pytest.mark.parametrize("name", ["a%20b", "a b", "what?", "c#", "100%", "ünï"])
def test_a_database_may_be_in_a_folder_of_any_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLAlchemy, and so MLflow, decodes the path of a URI."""
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    uri = absolute_uri("sqlite:///mlflow.db")
    assert make_url(uri).database == str(folder / "mlflow.db")
    assert sqlite_path(uri) == folder / "mlflow.db"
    assert absolute_uri(uri) == uri
    assert tracking_problem(uri) is None


def test_mlflow_creates_no_folder_with_an_encoded_name(tmp_path: Path) -> None:
    folder = tmp_path / "a%20b #1"
    folder.mkdir()
    store = ExperimentStore(uri=absolute_uri(sqlite_uri(folder / "mlflow.db")), experiment="e", artifact_root=folder)
    store.connect()
    assert (folder / "mlflow.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_an_error_of_mlflow_is_reported_without_the_password() -> None:
    error = RuntimeError("API request to http://ann:s3cret@host/api failed with code 500")
    assert plain_reason(error) == "API request to http://ann@host/api failed with code 500"


def test_the_password_comes_back_from_the_environment_where_the_address_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = "http://ann:s3cret@host/mlflow"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", whole)
    assert uri_with_password(redact_uri(whole)) == whole
    assert uri_with_password("http://ann@another/mlflow") == "http://ann@another/mlflow"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert uri_with_password(redact_uri(whole)) == redact_uri(whole)


def test_creating_a_tracker_neither_imports_mlflow_nor_waits_nor_prints(first_session: FirstSession) -> None:
    _, done, left = first_session
    assert (done.returncode, done.stdout, done.stderr, left) == (0, "", "", ["mlflow.db", "out"])
