"""Run a local S3 server, for tests of sweeps with object storage."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

BUCKET = "bucket"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTACCESSKEY",
    "AWS_SECRET_ACCESS_KEY": "a-secret-nobody-may-read",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass
class S3Server:
    """A running server with the bucket ``bucket``."""

    server: Any
    endpoint: str

    def uri(self, place: str) -> str:
        """Return the address of a folder such as ``bucket/sweeps``."""
        return f"s3://{place}?endpoint_override={self.endpoint}&scheme=http"

    def everything(self) -> list[str]:
        """Return the keys of all objects in the bucket, in order."""
        found = self._client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [item["Key"] for page in found for item in page.get("Contents", ()) if not item["Key"].endswith("/")]

    def content(self, key: str) -> bytes:
        """Return the content of an object."""
        return bytes(self._client().get_object(Bucket=BUCKET, Key=key)["Body"].read())

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Stop the server during the block. The content of the bucket is kept."""
        from moto.server import ThreadedMotoServer

        host, port = self.server.get_host_and_port()
        self.server.stop()
        try:
            yield
        finally:
            self.server = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
            self.server.start()

    def _client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server with an empty bucket, with the credentials in the environment."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=_free_port(), verbose=False)
    with mock.patch.dict(os.environ, CREDENTIALS):
        server.start()
        host, port = server.get_host_and_port()
        made = S3Server(server, f"http://{host}:{port}")
        reset = urllib.request.Request(f"{made.endpoint}/moto-api/reset", method="POST")
        with urllib.request.urlopen(reset):  # the content of buckets belongs to this process, not to the server
            pass
        made._client().create_bucket(Bucket=BUCKET)
        try:
            yield made
        finally:
            made.server.stop()


def _free_port() -> int:
    """Return a free port that the system does not assign, so that no process takes it while the server is stopped."""
    for port in random.sample(range(20000, 30000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port from 20000 to 30000")
