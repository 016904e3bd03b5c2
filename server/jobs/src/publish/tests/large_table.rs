//! A table of partitions with static columns, one of which is so large that splits cut it.

use super::*;

/// Creates a table of partitions with static columns, so large that splits cut one of the partitions. Also
/// returns its rows.
pub(super) fn large(store: &Store) -> (Written, Vec<String>) {
    let written = store.create("t", &WITH_STATICS);
    let mut expected = Vec::new();
    for k in 0..4 {
        let statics = [("k", int(k)), ("s", format!("static {k}").into_bytes())];
        written.insert(&statics, at(0));
        let rows = if k == 1 { 300 } else { 10 };
        for c in 0..rows {
            let b = format!("{:01000}", k * 1000 + c);
            let row = [("k", int(k)), ("c", int(c)), ("b", b.clone().into_bytes())];
            written.insert(&row, at(0));
            expected.push(format!("{k}, {c}, '{b}'"));
        }
    }
    expected.sort();
    (written, expected)
}

/// A database with the table of [`large`] and its snapshot `monday`.
pub(super) struct Large {
    pub(super) store: Store,
    pub(super) written: Written,
    /// The rows at the snapshot.
    pub(super) expected: Vec<String>,
}

impl Large {
    pub(super) fn new() -> Self {
        let store = Store::new();
        let (written, expected) = large(&store);
        store.keyspace.create_snapshot("monday").unwrap();
        Self {
            store,
            written,
            expected,
        }
    }

    /// Opens the job that publishes the snapshot.
    pub(super) fn start(&self) -> JobSpec {
        self.store.start(&["t"], "monday")
    }

    pub(super) fn rows(&self, table: &str) -> Vec<String> {
        self.store.rows(table, "monday", &self.written)
    }

    /// Checks that the snapshot is published: all rows, and the static columns of all partitions.
    pub(super) fn check(&self) {
        assert_eq!(self.rows("t"), self.expected);
        let statics = [0, 1, 2, 3].map(|k| format!("{k}, 'static {k}'"));
        assert_eq!(self.rows("t_static"), statics);
    }
}
