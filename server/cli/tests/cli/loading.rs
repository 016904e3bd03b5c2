//! Loading files into tables.

use crate::place::Place;

#[test]
fn a_log_that_grew_past_a_million_lines_is_not_loaded_twice() {
    // The width of the line numbers was that of the last one: loaded again with a
    // line more, every row of a long log was there under two keys.
    let place = Place::new();
    let rows = |lines: usize| {
        place.write("a.log", "x\n".repeat(lines));
        place.ebb("load --keyspace app --table t a.log").ok();
        place.ebb("scan app.t --keys-only").ok().lines().count()
    };
    assert_eq!(rows(999_999), 999_999);
    assert_eq!(rows(1_000_001), 1_000_001);
}
