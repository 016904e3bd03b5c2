"""Engines of tests/publish/requirements.txt, opened for Iceberg tables in a folder."""

import glob
import importlib.metadata
import os
import sys


def packaged(pattern):
    """Returns the path of a file of an installed package."""
    found = glob.glob(f"{sys.prefix}/lib/python*/site-packages/{pattern}", recursive=True)
    if not found:
        sys.exit(f"no package of {sys.prefix} has {pattern}: see requirements.txt")
    return found[0]


def versions():
    """Returns the versions of the engines, by package."""
    names = ("pyspark", "snowpark-connect-deps-iceberg", "duckdb")
    return {name: importlib.metadata.version(name) for name in names}


def duckdb_connection(extensions=("avro", "iceberg")):
    """Returns a connection to DuckDB with extensions, by default those for Iceberg in a folder."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in extensions:
        extension = packaged(f"duckdb_extension_{name}/**/*.duckdb_extension")
        connection.execute(f"INSTALL '{extension}'")
        connection.execute(f"LOAD {name}")
    return connection


def spark_home():
    """Returns the folder of Spark in its package."""
    import pyspark

    return os.path.dirname(pyspark.__file__)


def spark_session(warehouse, master, settings=()):
    """Returns a session of Spark with the catalog `ebb` over the folder at the URL `warehouse`, and with more
    settings."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    all_settings = {
        "spark.jars": packaged("**/iceberg-spark-runtime*_2.12*.jar"),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions":
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ebb": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ebb.type": "hadoop",
        "spark.sql.catalog.ebb.warehouse": warehouse,
        **dict(settings),
    }
    for name, value in all_settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
