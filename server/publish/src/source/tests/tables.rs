//! Iceberg tables in a folder.

use std::fs;

use arrow_array::{ListArray, StructArray};
use ebb_model::types::UserType;
use serde_json::{Value as Json, json};

use super::fixture::{
    COLUMNS, DELETES, Fixture, LOCATION, NEW, OLD, added, added_deletes, bucket_with, column,
    renamed,
};
use super::*;
use crate::iceberg::testing::{self, Engine, TestFile, TestManifest};

#[test]
fn a_table_is_read_by_its_tag_and_its_columns_by_their_ids() {
    for engine in [Engine::Spark, Engine::PyIceberg] {
        let fixture = renamed(engine);
        let source = fixture.open(None).unwrap();
        assert_eq!(source.columns(), ["key", "word"]);
        let all = ["1 null", "2 null", "3 null", "4 'four'", "5 'five'"];
        assert_eq!(rows(&source, &COLUMNS).unwrap(), all, "{engine:?}");
        let tuesday = fixture.open(Some("tuesday")).unwrap();
        assert_eq!(rows(&tuesday, &COLUMNS).unwrap(), all);
        let monday = fixture.open(Some("monday")).unwrap();
        assert_eq!(rows(&monday, &COLUMNS).unwrap(), &all[..3]);
        let error = refused(fixture.open(Some("sunday")));
        assert!(error.contains("no tag \"sunday\""), "{error}");
        // The metadata of before is named in place of the folder.
        let before = fixture
            .dir
            .path()
            .join("metadata/00001-0f8e2e5a.metadata.json");
        let before = Source::table(&before, None).unwrap();
        assert_eq!(rows(&before, &COLUMNS).unwrap(), &all[..3]);
        fixture.write_metadata("00002-another.metadata.json");
        let error = refused(fixture.open(None));
        assert!(error.contains("may be the newest metadata"), "{error}");
    }
}

#[test]
fn rows_that_positional_deletes_name_are_left_out() {
    for engine in [Engine::Spark, Engine::PyIceberg] {
        let mut fixture = renamed(engine);
        fixture.write_deletes(&[(OLD, 1), (OLD, 0), (OLD, 2), (NEW, 1)]);
        let at = |path, sequence_number| TestFile {
            status: 0,
            sequence_number: Some(sequence_number),
            ..added(path)
        };
        let deletes = TestFile {
            content: 1,
            ..at(DELETES, 3)
        };
        // The deletes are older than one file and newer than the other, which they belong to.
        fixture.commit("wednesday", &[at(OLD, 1), at(NEW, 4), deletes]);
        let source = fixture.open(Some("wednesday")).unwrap();
        let left = ["4 'four'", "5 'five'"];
        assert_eq!(rows(&source, &COLUMNS).unwrap(), left, "{engine:?}");
        fixture.commit("thursday", &[at(OLD, 1), at(NEW, 3), deletes]);
        let source = fixture.open(Some("thursday")).unwrap();
        assert_eq!(rows(&source, &COLUMNS).unwrap(), ["4 'four'"]);
    }
}

/// Regression: the entries of the manifest took memory as often as the list named it.
#[test]
fn a_list_that_names_a_manifest_twice_is_refused_even_if_the_names_differ() {
    let fixture = renamed(Engine::Spark);
    let list = fixture.dir.path().join("metadata/snap-2.avro");
    for again in ["", "/", "./", "../metadata/"] {
        let names = ["", again].map(|part| format!("{LOCATION}/metadata/{part}2-true.avro"));
        let manifests = names.each_ref().map(|path| TestManifest {
            path,
            content: 0,
            sequence_number: 2,
            partition_spec_id: 0,
        });
        fs::write(&list, testing::manifest_list(Engine::Spark, &manifests)).unwrap();
        let error = refused(fixture.open(None));
        let expected = format!("snap-2.avro: it names {} twice", names[1]);
        assert!(error.contains(&expected), "{error}");
    }
}

/// Regression: the deletes of such a file were applied to its first entry only, so the second one brought the
/// deleted rows back.
#[test]
fn a_data_file_that_the_manifests_of_a_snapshot_list_twice_is_refused_even_if_the_names_differ() {
    let mut fixture = renamed(Engine::Spark);
    for again in ["", "./", "../data/"] {
        let again = format!("{LOCATION}/data/{again}old.parquet");
        fixture.commit("twice", &[added(OLD), added(&again)]);
        let error = refused(fixture.open(None));
        let expected = format!("its manifests list the data file {again} twice");
        assert!(error.contains(&expected), "{error}");
    }
    fixture.commit("twice", &[added(OLD), added(OLD)]);
    let bucket = bucket_with(fixture.dir.path(), "t");
    let error = refused(Source::bucket(&bucket, "t", None));
    assert!(error.contains("old.parquet twice"), "{error}");
}

/// A delete of a row is ignored if the file has no such row according to its manifest. If a delete
/// was ignored, and the file has more rows than its manifest gives it, the deleted row may be one
/// of these rows. So the file is refused.
#[test]
fn a_file_with_more_rows_than_its_manifest_gives_it_is_refused_if_a_delete_may_name_one_of_them() {
    let mut fixture = renamed(Engine::Spark);
    // By the manifest it has five.
    let six = [("key", Some(1), ints(0..6))];
    write(&fixture.data("old.parquet"), &six);
    fixture.commit("without deletes", &[added(OLD)]);
    let source = fixture.open(None).unwrap();
    assert_eq!(rows(&source, &COLUMNS[..1]).unwrap().len(), 6);
    fixture.commit("with deletes", &[added(OLD), added_deletes()]);
    let delete = |position: i64| {
        fixture.write_deletes(&[(OLD, position)]);
        rows(&fixture.open(None).unwrap(), &COLUMNS[..1])
    };
    assert_eq!(delete(4).unwrap(), ["0", "1", "2", "3", "5"]);
    let error = refused(delete(5));
    let expected = "old.parquet: it has more rows than the table's manifest gives it";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_a_reader_would_have_to_ignore_is_refused_by_its_name() {
    let other = |content, format| TestFile {
        content,
        format,
        ..added("file:/warehouse/db/t/data/other")
    };
    for (file, what) in [
        (other(2, "PARQUET"), "equality deletes"),
        (other(1, "PUFFIN"), "deletion vectors"),
        (other(1, "AVRO"), "deletes of the format AVRO"),
        (other(0, "ORC"), "data files of the format ORC"),
    ] {
        let mut fixture = renamed(Engine::Spark);
        fixture.commit("x", &[added(OLD), file]);
        let error = refused(fixture.open(None));
        assert!(error.contains(what), "{error}");
        assert!(error.contains("data/other"), "{error}");
    }
    let mut fixture = renamed(Engine::Spark);
    fixture.commit("x", &[added("s3://bucket/old.parquet")]);
    let error = refused(fixture.open(None));
    assert!(error.contains("s3://bucket/old.parquet"), "{error}");
}

#[test]
fn a_column_that_a_file_lacks_and_that_is_not_null_is_refused() {
    let refused_with = |change: &dyn Fn(&mut Json)| {
        let mut fixture = renamed(Engine::Spark);
        change(&mut fixture.metadata);
        fixture.write_metadata("00003-0f8e2e5a.metadata.json");
        let source = fixture.open(None).unwrap();
        assert_eq!(rows(&source, &COLUMNS[..1]).unwrap().len(), 5);
        refused(rows(&source, &COLUMNS))
    };
    let error = refused_with(&|metadata| {
        let word =
            json!({"name": "word", "transform": "identity", "source-id": 2, "field-id": 1000});
        metadata["partition-specs"][0]["fields"] = json!([word]);
    });
    assert!(
        error.contains("old.parquet: it lacks column word"),
        "{error}"
    );
    assert!(error.contains("partition"), "{error}");
    let error = refused_with(&|metadata| {
        metadata["schemas"][0]["fields"][1]["initial-default"] = json!("?");
    });
    assert!(error.contains("has a default"), "{error}");
    let error = refused_with(&|metadata| {
        metadata["schemas"][0]["fields"][1]["required"] = json!(true);
    });
    let told = "old.parquet: it lacks column word, which is required";
    assert!(error.contains(told), "{error}");

    let fixture = renamed(Engine::Spark);
    let old = [("key", None, ints([1]))];
    write(&fixture.data("old.parquet"), &old);
    let error = refused(rows(&fixture.open(None).unwrap(), &COLUMNS));
    assert!(error.contains("column key has no field id"), "{error}");
}

/// Returns an array of structs with two texts each. `a` and `b` are the values of the two fields, `names`
/// their names and field ids.
fn pairs(names: [(&str, i32); 2], a: &[&str], b: &[&str]) -> ArrayRef {
    let parts = [texts(a), texts(b)];
    let parts = parts.into_iter().zip(names).map(|(part, (name, id))| {
        let field = field(name, &part, Some(id));
        (Arc::new(field), part)
    });
    Arc::new(StructArray::from(parts.collect::<Vec<_>>()))
}

#[test]
fn fields_inside_of_a_column_are_found_by_their_ids_too() {
    let fields = json!([
        column(4, "city", "string"),
        column(3, "street", "string"),
        column(6, "zip", "string")
    ]);
    let place = json!({"type": "struct", "fields": fields});
    let list =
        json!({"type": "list", "element-id": 7, "element-required": false, "element": place});
    let columns = json!([column(1, "home", place), column(2, "all", list)]);
    let mut fixture = Fixture::new(Engine::Spark, columns);
    // Street and city had other names, another order, and no zip.
    let places = || pairs([("street", 3), ("town", 4)], &["A", "B"], &["Ulm", "Bonn"]);
    let element = Arc::new(field("element", &places(), Some(7)));
    let offsets = arrow_buffer::OffsetBuffer::new(vec![0, 0, 2].into());
    let all: ArrayRef = Arc::new(ListArray::new(element, offsets, places(), None));
    let old = [("home", Some(1), places()), ("all", Some(2), all)];
    write(&fixture.data("old.parquet"), &old);
    fixture.commit("x", &[added(OLD)]);
    let fields = ["street", "city", "zip"].map(|name| (name.into(), CqlType::Text));
    let place = CqlType::udt(Arc::new(UserType::new("ks", "place", fields).unwrap())).freeze();
    let columns = [("home", place.clone()), ("all", CqlType::list(place))];
    let read = rows(&fixture.open(None).unwrap(), &columns).unwrap();
    let (a, b) = (
        "{street: 'A', city: 'Ulm', zip: null}",
        "{street: 'B', city: 'Bonn', zip: null}",
    );
    assert_eq!(read, [format!("{a} []"), format!("{b} [{a}, {b}]")]);

    fixture.metadata["schemas"][0]["fields"][0]["type"]["fields"][2]["initial-default"] =
        json!("?");
    fixture.write_metadata("00002-0f8e2e5a.metadata.json");
    let error = refused(rows(&fixture.open(None).unwrap(), &columns));
    assert!(error.contains("field zip, which has a default"), "{error}");

    let zip = &mut fixture.metadata["schemas"][0]["fields"][0]["type"]["fields"][2];
    *zip = column(6, "zip", "string");
    zip["required"] = json!(true);
    fixture.write_metadata("00003-0f8e2e5a.metadata.json");
    let error = refused(rows(&fixture.open(None).unwrap(), &columns));
    assert!(error.contains("field zip, which is required"), "{error}");
}

#[test]
fn a_table_without_a_snapshot_has_no_rows() {
    let fixture = Fixture::new(Engine::Spark, json!([column(1, "key", "int")]));
    fixture.write_metadata("v1.metadata.json");
    let source = fixture.open(None).unwrap();
    assert_eq!(source.columns(), ["key"]);
    assert!(source.files().is_empty());
    let error = refused(Source::table(&fixture.dir.path().join("data"), None));
    assert!(error.contains("metadata"), "{error}");
}

#[test]
fn the_metadata_of_a_table_that_was_dropped_in_the_same_place_is_refused() {
    let mut fixture = renamed(Engine::PyIceberg);
    // The versions of the new table begin again, and the dropped one has more.
    let name = "00001-77aa.metadata.json";
    fixture.metadata["table-uuid"] = json!("another");
    fixture.metadata["last-updated-ms"] = json!(2);
    fixture.write_metadata(name);
    let error = refused(fixture.open(None));
    let told = "00002-0f8e2e5a.metadata.json: it describes another table than ";
    assert!(error.contains(told) && error.contains(name), "{error}");
    let path = fixture.dir.path().join("metadata").join(name);
    assert!(Source::table(&path, None).is_ok());
    // A table that was dropped before, a second writer of the first version, and a table without an identity.
    for (uuid, updated_ms) in [(json!("another"), 0), (json!("u"), 2), (json!(null), 2)] {
        fixture.metadata["table-uuid"] = uuid;
        fixture.metadata["last-updated-ms"] = json!(updated_ms);
        fixture.write_metadata(name);
        assert!(fixture.open(None).is_ok(), "{}", fixture.metadata);
    }
}
