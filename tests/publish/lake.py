"""The target of publications, a folder or a bucket of S3, as a reader finds it."""

import json
import os
import re

from pyarrow import fs


class Lake:
    """A folder by its path, or a prefix in a bucket as s3://BUCKET/PREFIX. Endpoint and credentials of S3
    come from the variables of the environment that ebb reads, too."""

    def __init__(self, target):
        self.is_bucket = target.startswith("s3://")
        self.url = target if self.is_bucket else os.path.abspath(target)
        self.root = self.url.removeprefix("s3://")
        self.files = s3_files() if self.is_bucket else fs.LocalFileSystem()

    def names(self, folder=""):
        """The names of the objects below a folder. In a folder of this machine, files that are not complete
        have names, too."""
        selector = fs.FileSelector(f"{self.root}/{folder}".rstrip("/"), recursive=True, allow_not_found=True)
        found = self.files.get_file_info(selector)
        return [info.path.removeprefix(f"{self.root}/") for info in found if info.type == fs.FileType.File]

    def read(self, name):
        """The bytes of an object; None if there is none."""
        try:
            with self.files.open_input_stream(f"{self.root}/{name}") as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def metadata_name(self, table):
        """The name of the newest metadata of a table; None if there is none."""
        versions = (version_of(name) for name in self.names(f"lake/{table}/metadata"))
        newest = max(filter(None, versions), default=None)
        return newest and f"lake/{table}/metadata/v{newest}.metadata.json"

    def tags(self, table):
        """The ids of a table's snapshots by their tags, and that of main."""
        name = self.metadata_name(table)
        refs = json.loads(self.read(name))["refs"] if name else {}
        return {tag: ref["snapshot-id"] for tag, ref in refs.items()}

    def is_whole(self, snapshot):
        """Whether the record says that the publication of a snapshot is whole."""
        return self.read(f"_ebb/lake/{snapshot}.json") is not None


def version_of(name):
    """N of .../vN.metadata.json; None for other names."""
    found = re.search(r"/v(\d+)\.metadata\.json$", name)
    return found and int(found[1])


def s3_files():
    scheme, _, endpoint = os.environ["AWS_ENDPOINT_URL"].partition("://")
    return fs.S3FileSystem(
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=os.environ["AWS_DEFAULT_REGION"],
        endpoint_override=endpoint,
        scheme=scheme,
    )
