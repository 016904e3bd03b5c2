//! Commands that write and delete rows, tables and keyspaces.

use std::io::Write;
use std::process::Stdio;

use crate::place::{Place, Running, output};

impl Place {
    /// Creates a working directory with a database that has rows 1, 2 and 3 in the table `app.t`.
    fn with_rows() -> Self {
        let place = Self::new();
        place.ebb("put --create app.t 1 one").ok();
        place.ebb("put app.t 2 two").ok();
        place.ebb("put app.t 3 three").ok();
        place
    }

    fn rows(&self) -> String {
        self.ebb("scan app.t")
            .ok()
            .replace('\t', "=")
            .replace('\n', " ")
    }
}

#[test]
fn a_row_is_put_read_and_deleted_without_a_file() {
    // Rows could once be written by a load only, and could not be deleted.
    let place = Place::with_rows();
    place.ebb("put app.t 2 TWO").ok();
    assert_eq!(place.rows(), "1=one 2=TWO 3=three ");
    let said = place.ebb("delete app.t 1 3").ok();
    assert_eq!(said, "deleted 2 rows of app.t\n");
    assert_eq!(place.rows(), "2=TWO ");
    let said = place.ebb("delete app.t 2 7").fails(3);
    assert!(
        said.contains("no key \"7\"") && said.contains("nothing was deleted"),
        "{said}"
    );
    assert_eq!(place.rows(), "2=TWO ");
    place.ebb("put app.t 4 four --ttl 1ms").ok();
    place.ebb("get app.t 4").fails(3);
}

#[test]
fn a_value_is_read_from_standard_input_as_it_is() {
    let place = Place::with_rows();
    let value = b"a\0b\n\xff";
    let mut put = Running::start(place.command("put app.t binary").stdin(Stdio::piped()));
    let mut stdin = put.child().stdin.take().unwrap();
    stdin.write_all(value).unwrap();
    drop(stdin);
    assert!(put.output().status.success());
    let got = output(&mut place.command("get app.t binary"));
    assert_eq!(got.stdout, [value, &b"\n"[..]].concat());
}

#[test]
fn a_put_creates_no_table_without_the_option() {
    // A misspelt name would otherwise be a new table.
    let place = Place::new();
    let said = place.ebb("put app.t 1 one").fails(3);
    assert!(said.contains("no database"), "{said}");
    assert!(!place.path("ebb-data").exists());
    let place = Place::with_rows();
    let said = place.ebb("put app.u 1 one").fails(3);
    assert!(said.contains("there are: t"), "{said}");
    place.ebb("put ebb_system.jobs 1 one").fails(2);
    for line in ["put app.t", "put app 1 one", "put app.t 1 one --ttl 0s"] {
        place.ebb(line).refused();
    }
}

#[test]
fn commands_that_delete_much_require_yes() {
    let place = Place::with_rows();
    for (line, told) in [
        ("delete app.t --from 2", "this deletes 2 rows of app.t"),
        ("truncate app.t", "all rows of app.t, 3 versions"),
        ("drop app.t", "drops app.t with 3 versions"),
        ("drop app", "drops keyspace app with 1 table, 3 versions"),
    ] {
        let said = place.ebb(line).fails(2);
        assert!(said.contains(told) && said.contains("add --yes"), "{said}");
    }
    assert_eq!(place.rows(), "1=one 2=two 3=three ");

    place.ebb("snapshot create --keyspace app before").ok();
    let said = place.ebb("delete app.t --from 2 --yes").ok();
    assert_eq!(said, "deleted 2 rows of app.t\n");
    assert_eq!(place.rows(), "1=one ");
    place.ebb("truncate app.t --yes").ok();
    assert_eq!(place.rows(), "");
    let said = place.ebb("drop app.t --yes").ok();
    assert!(said.contains("1 snapshot still covers it"), "{said}");
    place.ebb("scan app.t").fails(3);
    assert_eq!(place.ebb("get app.t 3 --snapshot before").ok(), "three\n");
    let said = place.ebb("drop app --yes").ok();
    assert!(
        said.contains("0 tables") && said.contains("1 snapshot"),
        "{said}"
    );
    let said = place.ebb("scan app.t").fails(3);
    assert!(said.contains("no keyspace"), "{said}");

    for line in ["drop app --yes", "drop app.t --yes", "truncate app.t --yes"] {
        place.ebb(line).fails(3);
    }
    for line in [
        "drop ebb_system --yes",
        "drop ebb_system.jobs --yes",
        "drop a.b.c --yes",
    ] {
        place.ebb(line).fails(2);
    }
}
