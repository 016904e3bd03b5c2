//! Builds with `--no-default-features`: their errors name the build that can do more.

use crate::cql_tables::with_cql_table;

#[test]
fn a_load_of_a_parquet_file_names_the_build_that_reads_it() {
    let place = with_cql_table();
    place.write("x.parquet", "PAR1");
    let said = place.ebb("load --table app.t x.parquet").refused();
    assert!(said.contains("cargo build --release"), "{said}");
    assert!(!said.contains("--features"), "{said}");
    // A bucket needs a feature that is off by default.
    let said = place.ebb("load --table app.t s3://lake/t@monday").refused();
    assert!(said.contains("cargo build --release"), "{said}");
    assert!(said.contains("--features s3"), "{said}");
}

#[test]
fn a_publication_names_the_build_that_publishes() {
    let place = with_cql_table();
    place.ebb("snapshot create --keyspace app monday").ok();
    let said = place.ebb("publish app@monday lake").fails(2);
    assert!(said.contains("cargo build --release"), "{said}");
    assert!(!place.path("lake").exists());
}
