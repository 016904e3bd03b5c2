"""The engines of tests/publish/rounds. Each returns the rows of a table at a tag, as dicts, from a folder or
from a bucket of S3."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import readers
from values import plain, with_nulls
from workload import COLUMNS

# chDB reads below its working directory only, and a crash of it ends its process.
CHDB = """
import sys
import chdb
sys.stdout.buffer.write(chdb.query(sys.argv[1], "Arrow").bytes())
"""


def credentials():
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL")
    return [os.environ[name] for name in names]


def iceberg_properties(lake):
    """The settings of PyIceberg for a lake, which Polars takes, too."""
    if not lake.is_bucket:
        return {}
    key, secret, region, endpoint = credentials()
    return {
        "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": region,
        "s3.endpoint": endpoint, "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    }


class Reader:
    """An engine over a lake."""

    def __init__(self, lake):
        self.lake = lake
        self.open()

    def open(self):
        pass

    def close(self):
        pass

    def plain(self, value):
        """A value as plain() has it; another one where the engine lacks a type."""
        return plain(value)

    def right(self, value):
        """The plain value of CQL that the engine is to have."""
        return value

    def url(self, table):
        return f"{self.lake.url}/lake/{table}"

    def metadata(self, table):
        return f"{self.lake.url}/{self.lake.metadata_name(table)}"


class PyIceberg(Reader):
    def static_table(self, table):
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(self.metadata(table), iceberg_properties(self.lake))

    def rows(self, table, snapshot, columns):
        name, snapshot_id = snapshot
        opened = self.static_table(table)
        assert opened.metadata.refs[name].snapshot_id == snapshot_id
        scan = opened.scan(snapshot_id=snapshot_id, selected_fields=tuple(columns))
        return scan.to_arrow().to_pylist()


class Polars(PyIceberg):
    def rows(self, table, snapshot, columns):
        import polars

        scan = polars.scan_iceberg(self.static_table(table), snapshot_id=snapshot[1])
        return scan.select(columns).collect().to_dicts()

    def plain(self, value):
        # A map is a list of structs.
        is_map = isinstance(value, list) and value and isinstance(value[0], dict)
        return plain({entry["key"]: entry["value"] for entry in value} if is_map else value)


class DuckDb(Reader):
    def open(self):
        extensions = ("avro", "iceberg", "httpfs") if self.lake.is_bucket else ("avro", "iceberg")
        self.connection = readers.duckdb_connection(extensions)
        if self.lake.is_bucket:
            key, secret, region, endpoint = credentials()
            scheme, _, host = endpoint.partition("://")
            self.connection.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{region}', "
                f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL {scheme == 'https'})"
            )

    def close(self):
        self.connection.close()

    def rows(self, table, snapshot, columns):
        scan = f"iceberg_scan('{self.metadata(table)}', snapshot_from_id = {snapshot[1]})"
        found = self.connection.execute(f"SELECT {', '.join(columns)} FROM {scan}")
        return found.to_arrow_table().to_pylist()


class ChDb(Reader):
    def rows(self, table, snapshot, columns):
        import pyarrow

        # It has one type for text and bytes.
        shown = [f"lower(hex({name})) AS {name}" if COLUMNS.get(name) == "blob" else name for name in columns]
        query = (
            f"SELECT {', '.join(shown)} FROM {self.function(table)} "
            f"SETTINGS iceberg_snapshot_id = {snapshot[1]}"
        )
        done = subprocess.run(
            [sys.executable, "-c", CHDB, query], cwd=self.cwd(), check=True, stdout=subprocess.PIPE
        )
        with pyarrow.ipc.open_file(done.stdout) as file:
            return file.read_all().to_pylist()

    def cwd(self):
        return None if self.lake.is_bucket else self.lake.url

    def function(self, table):
        if not self.lake.is_bucket:
            return f"icebergLocal('lake/{table}')"
        key, secret, _, endpoint = credentials()
        return f"icebergS3('{endpoint}/{self.lake.root}/lake/{table}', '{key}', '{secret}')"

    def plain(self, value):
        return with_nulls(plain(value))

    def right(self, value):
        return with_nulls(value)


class Spark(Reader):
    """Reads a bucket in a copy, because no package of PyPI has Hadoop's client of S3: names s3://... are
    those of the copy's files."""

    def open(self):
        # A table that changes is opened anew.
        settings = {"spark.sql.catalog.ebb.cache-enabled": "false"}
        warehouse = f"file://{self.lake.url}"
        if self.lake.is_bucket:
            self.copy = tempfile.mkdtemp()
            bucket, _, prefix = self.lake.root.partition("/")
            warehouse = self.lake.url
            settings |= {
                "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
                f"spark.hadoop.fs.viewfs.mounttable.{bucket}.link./{prefix}": f"file://{self.copy}",
            }
        self.session = readers.spark_session(warehouse, "local[2]", settings)

    def close(self):
        self.session.stop()
        if self.lake.is_bucket:
            shutil.rmtree(self.copy)

    def rows(self, table, snapshot, columns):
        if self.lake.is_bucket:
            self.copy_objects()
        scan = f"ebb.lake.{table} VERSION AS OF '{snapshot[0]}'"
        found = self.session.sql(f"SELECT {', '.join(columns)} FROM {scan}").collect()
        return [row.asDict(recursive=True) for row in found]

    def copy_objects(self):
        """Copies what is new: no object changes but the hints."""
        for name in self.lake.names("lake"):
            path = Path(self.copy, name)
            if name.endswith("version-hint.text") or not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.lake.read(name))


READERS = {"pyiceberg": PyIceberg, "duckdb": DuckDb, "polars": Polars, "chdb": ChDb, "spark": Spark}
