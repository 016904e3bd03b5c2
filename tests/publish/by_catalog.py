"""The table app.lines of a REST catalog has a snapshot for each tag, with the lines of the file FOLDER/TAG.txt.

    by_catalog.py URL TOKEN FOLDER TAG...
"""

import sys
from urllib.parse import parse_qs, urlsplit

from pyiceberg.catalog import load_catalog


def main():
    url, token, folder, *tags = sys.argv[1:]
    parts = urlsplit(url)
    catalog = load_catalog(
        "ebb",
        type="rest",
        uri=f"{parts.scheme}://{parts.netloc}{parts.path}",
        warehouse=parse_qs(parts.query)["warehouse"][0],
        token=token,
    )
    table = catalog.load_table("app.lines")
    found = {tag: table.metadata.refs[tag].snapshot_id for tag in tags}
    assert len(table.metadata.snapshots) == len(tags), table.metadata.snapshots
    assert table.metadata.refs["main"].snapshot_id == found[tags[-1]], table.metadata.refs
    for tag, snapshot in found.items():
        with open(f"{folder}/{tag}.txt", encoding="utf-8") as file:
            lines = [line.removesuffix("\n") for line in file]
        rows = table.scan(snapshot_id=snapshot).to_arrow().sort_by("key")
        assert rows["value"].to_pylist() == lines, tag
        print(f"{tag}: {len(lines)} rows")


if __name__ == "__main__":
    main()
