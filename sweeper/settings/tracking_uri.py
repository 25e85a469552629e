"""Check and format tracking URIs without importing MLflow and without network access."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from sweeper.settings.names import DEFAULT_TRACKING

_DATABASE_DRIVERS = {"postgresql": "psycopg2", "mysql": "mysqldb", "mssql": "pyodbc"}
"""The default driver of SQLAlchemy for each URI scheme of a database."""

_PACKAGES = {"mysqldb": "MySQLdb", "mysqlconnector": "mysql"}
"""The Python package of each driver whose package has another name."""

_SQLITE_HEADER = b"SQLite format 3\x00"
_SECRET_PARAMETER = re.compile(r"([?&][^=&\s]*(?:password|passwd|pwd|token|secret)[^=&\s]*=)[^&#\s]+", re.IGNORECASE)
_EXAMPLES = "sqlite:///mlflow.db or http://localhost:5000"


def default_uri() -> str:
    """Return $MLFLOW_TRACKING_URI or, if it is not set, a database in the current folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING


def tracking_problem(uri: str) -> str | None:
    """Return the reason why MLflow cannot use the URI, or None.

    The connection to an HTTP server is not checked, because a sweep also runs if its server cannot be reached.
    """
    try:
        parts = urlsplit(uri)
        scheme, _, driver = parts.scheme.partition("+")
        if scheme in ("http", "https"):
            if parts.hostname and parts.port != 0:  # reading the port raises an error for a number above 65535
                return None
            expected = "expected for example http://localhost:5000"
            return f"tracking URI '{redact_uri(uri)}' names no host and port: {expected}"
    except ValueError as error:
        reason = "a / or @ in the password must be percent-encoded" if "@" in uri else str(error)
        return f"tracking URI '{redact_uri(uri)}' cannot be read: {reason}"
    if scheme == "sqlite":
        try:
            return _sqlite_problem(uri)
        except OSError as error:
            return f"the tracking database of '{uri}' cannot be used: {error}"
    if scheme in _DATABASE_DRIVERS:
        driver = driver or _DATABASE_DRIVERS[scheme]
        package = _PACKAGES.get(driver, driver.partition(".")[0])
        if importlib.util.find_spec(package) is None:
            return f"tracking URI '{redact_uri(uri)}' needs the Python package {package}, which is not installed"
        return None
    if uri == "databricks" or scheme == "databricks":
        return None
    if scheme in ("", "file"):
        return f"tracking URI '{uri}' is a folder, but MLflow keeps runs in a database: expected {_EXAMPLES}"
    from importlib.metadata import entry_points  # imported here because this import takes a third of the time of --help

    if scheme in {point.name for point in entry_points(group="mlflow.tracking_store")}:
        return None
    return f"tracking URI '{redact_uri(uri)}' has an unknown scheme '{scheme}': expected {_EXAMPLES}"


def absolute_uri(uri: str) -> str:
    """Make the path of a SQLite file absolute. Return any other URI unchanged."""
    path = sqlite_path(uri)
    if path is None:
        return uri
    scheme, _, tail = uri.partition(":///")
    _, separator, query = tail.partition("?")
    return f"{sqlite_uri(path.absolute(), scheme=scheme)}{separator}{query}"


def sqlite_uri(path: Path, *, scheme: str = "sqlite") -> str:
    """Return the URI of a SQLite file. Special characters of the path are percent-encoded, as SQLAlchemy expects.

    For a URI that begins with ``sqlite:///``, MLflow creates the folder of the database without decoding its name. For
    a path with special characters, the URI therefore names the driver, too.
    """
    name = quote(str(path), safe=" +/")
    if name != str(path) and "+" not in scheme:
        scheme += "+pysqlite"
    return f"{scheme}:///{name}"


def redact_uri(uri: str) -> str:
    """Remove passwords from a URI. A text that is not a URI is returned unchanged."""
    uri = _SECRET_PARAMETER.sub(r"\1***", uri)
    scheme, separator, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    if "@" not in authority and _is_half_password(authority):  # the password has a slash that is not percent-encoded
        authority, slash, path = rest, "", ""
    credentials, at_sign, host = authority.rpartition("@")
    if not at_sign:
        return uri
    return f"{scheme}{separator}{credentials.partition(':')[0]}@{host}{slash}{path}"


def without_passwords(text: str) -> str:
    """Remove the passwords from all URIs in a text."""
    return " ".join(map(redact_uri, text.split(" ")))


def uri_with_password(stored_uri: str) -> str:
    """Return $MLFLOW_TRACKING_URI if it differs from the stored URI only in its password, otherwise the stored URI."""
    env_uri = os.environ.get("MLFLOW_TRACKING_URI")
    return env_uri if env_uri and redact_uri(absolute_uri(env_uri)) == stored_uri else stored_uri


def _is_half_password(authority: str) -> bool:
    host, colon, port = authority.rpartition(":")
    return bool(colon and host) and not port.isdecimal() and not host.startswith("[")


def is_database(uri: str) -> bool:
    """Return whether the URI names a database."""
    scheme = uri.partition(":")[0]
    return scheme.partition("+")[0] in ("sqlite", *_DATABASE_DRIVERS)


def sqlite_path(uri: str) -> Path | None:
    """Return the database file of a SQLite URI, or None if the URI names no file."""
    scheme, separator, tail = uri.partition(":///")
    name = tail.partition("?")[0]
    if scheme.partition("+")[0] != "sqlite" or not separator or name in ("", ":memory:"):
        return None
    return Path(unquote(name))


def missing_database(uri: str) -> str | None:
    """Return a problem if the URI names a SQLite file that does not exist."""
    path = sqlite_path(uri)
    if path is None or path.exists():
        return None
    return (
        f"there is no tracking database {path.absolute()}: go to the folder in which the sweep was started, or name "
        "that sweep's database with --tracking-uri sqlite:////FOLDER/mlflow.db (a sweep prints this URI when it ends)"
    )


def _sqlite_problem(uri: str) -> str | None:
    path = sqlite_path(uri)
    if path is None:
        return f"tracking URI '{uri}' names no database file: expected for example sqlite:///mlflow.db"
    path = path.absolute()
    if path.is_dir():
        return f"the tracking database {path} is a folder: give the path of a file"
    if path.exists():
        if not os.access(path, os.R_OK | os.W_OK):
            return f"the tracking database {path} is not writable"
        with path.open("rb") as file:
            start = file.read(len(_SQLITE_HEADER))
        return None if start in (b"", _SQLITE_HEADER) else f"{path} is not a SQLite database"
    parent = next(folder for folder in path.parents if folder.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return None
    return f"the tracking database {path} cannot be created: {parent} is not a writable folder"
