//! A table in a folder, as an engine writes it, and its copy in a bucket.

use std::fs;

use arrow_array::Int64Array;
use serde_json::{Value as Json, json};

use super::*;
use crate::iceberg::testing::{self, Engine, TestFile, TestManifest};
use crate::target::faulty::in_memory;

/// The location that the table's metadata names. It differs from the folder in which the test has the table.
pub(super) const LOCATION: &str = "file:/warehouse/db/t";
/// The locations of the data files of the table [`renamed`], and of a delete file.
pub(super) const OLD: &str = "file:/warehouse/db/t/data/old.parquet";
pub(super) const NEW: &str = "file:/warehouse/db/t/data/new.parquet";
pub(super) const DELETES: &str = "file:/warehouse/db/t/data/deletes.parquet";

/// A table in a folder, as an engine writes it.
pub(super) struct Fixture {
    pub(super) dir: tempfile::TempDir,
    engine: Engine,
    pub(super) metadata: Json,
}

impl Fixture {
    pub(super) fn new(engine: Engine, columns: Json) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["metadata", "data"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let metadata = json!({
            "format-version": 2, "table-uuid": "u", "location": LOCATION,
            "last-sequence-number": 9, "last-updated-ms": 1, "last-column-id": 9,
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
            "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999, "default-sort-order-id": 0, "sort-orders": [],
            "properties": {}, "refs": {}, "snapshots": [], "current-snapshot-id": -1,
        });
        Self {
            dir,
            engine,
            metadata,
        }
    }

    pub(super) fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    /// Adds a snapshot with the files `files` and the tag `tag`. One manifest lists its data files, and
    /// another one its delete files.
    pub(super) fn commit(&mut self, tag: &str, files: &[TestFile<'_>]) {
        let snapshots = self.metadata["snapshots"].as_array_mut().unwrap();
        let id = snapshots.len() + 1;
        snapshots.push(json!({
            "snapshot-id": id, "sequence-number": id, "timestamp-ms": id, "schema-id": 0,
            "summary": {}, "manifest-list": format!("{LOCATION}/metadata/snap-{id}.avro"),
        }));
        self.metadata["current-snapshot-id"] = json!(id);
        self.metadata["refs"][tag] = json!({"snapshot-id": id, "type": "tag"});
        let folder = self.dir.path().join("metadata");
        let mut names = Vec::new();
        for is_rows in [true, false] {
            let files = files.iter().filter(|file| (file.content == 0) == is_rows);
            let files: Vec<TestFile<'_>> = files.copied().collect();
            let name = format!("{id}-{is_rows}.avro");
            fs::write(folder.join(&name), testing::manifest(self.engine, &files)).unwrap();
            names.push((format!("{LOCATION}/metadata/{name}"), i32::from(!is_rows)));
        }
        let manifests = names.iter().map(|(path, content)| TestManifest {
            path,
            content: *content,
            sequence_number: id as i64,
            partition_spec_id: 0,
        });
        let list = testing::manifest_list(self.engine, &manifests.collect::<Vec<_>>());
        fs::write(folder.join(format!("snap-{id}.avro")), list).unwrap();
        self.write_metadata(&format!("{id:05}-0f8e2e5a.metadata.json"));
    }

    /// Writes the delete file [`DELETES`]: the location of a data file and the number of a row, for each
    /// deleted row.
    pub(super) fn write_deletes(&self, deletes: &[(&str, i64)]) {
        let (names, positions): (Vec<&str>, Vec<i64>) = deletes.iter().copied().unzip();
        let positions: ArrayRef = Arc::new(Int64Array::from(positions));
        let columns = [
            ("file_path", Some(2_147_483_546), texts(&names)),
            ("pos", Some(2_147_483_545), positions),
        ];
        write(&self.data("deletes.parquet"), &columns);
    }

    pub(super) fn write_metadata(&self, name: &str) {
        let path = self.dir.path().join("metadata").join(name);
        fs::write(path, self.metadata.to_string()).unwrap();
    }

    pub(super) fn open(&self, tag: Option<&str>) -> Result<Source> {
        Source::table(self.dir.path(), tag)
    }
}

/// Returns the entry of a data file that the snapshot adds, for a manifest.
pub(super) fn added(path: &str) -> TestFile<'_> {
    TestFile {
        status: 1,
        content: 0,
        path,
        format: "PARQUET",
        sequence_number: None,
    }
}

/// Returns the entry of the delete file [`DELETES`] that the snapshot adds, for a manifest.
pub(super) fn added_deletes() -> TestFile<'static> {
    TestFile {
        content: 1,
        ..added(DELETES)
    }
}

pub(super) fn column(id: i32, name: &str, ty: impl Into<Json>) -> Json {
    json!({"id": id, "name": name, "required": false, "type": ty.into()})
}

/// Creates a table with two columns. After the first data file was written, the first column was renamed and
/// the second one was added.
pub(super) fn renamed(engine: Engine) -> Fixture {
    let mut fixture = Fixture::new(
        engine,
        json!([column(1, "key", "int"), column(2, "word", "string")]),
    );
    let old = [("id", Some(1), ints([1, 2, 3]))];
    write(&fixture.data("old.parquet"), &old);
    let new = [
        ("dropped", Some(7), ints([0, 0])),
        ("word", Some(2), texts(&["four", "five"])),
        ("key", Some(1), ints([4, 5])),
    ];
    write(&fixture.data("new.parquet"), &new);
    fixture.commit("monday", &[added(OLD)]);
    let existing = TestFile {
        status: 0,
        sequence_number: Some(1),
        ..added(OLD)
    };
    let deleted = TestFile {
        status: 2,
        ..added("file:/warehouse/db/t/data/gone.parquet")
    };
    fixture.commit("tuesday", &[existing, deleted, added(NEW)]);
    fixture
}

pub(super) const COLUMNS: [(&str, CqlType); 2] = [("key", CqlType::Int), ("word", CqlType::Text)];

/// Returns a bucket in memory with copies of all files below a folder. Their keys begin with `prefix`.
pub(super) fn bucket_with(folder: &Path, prefix: &str) -> Target {
    let bucket = in_memory("s3://lake").unwrap();
    put_all(&bucket, folder, prefix);
    bucket
}

fn put_all(bucket: &Target, folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("{prefix}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            put_all(bucket, &path, &key);
        } else {
            bucket
                .replace(&key, fs::read(&path).unwrap().into())
                .unwrap();
        }
    }
}
