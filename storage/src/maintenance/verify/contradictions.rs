//! Checks that the parts of a manifest's state do not contradict each other.

use std::collections::HashSet;

use crate::key::SeqNo;
use crate::manifest::State;

/// Returns the contradictions in the manifest's state. Of those that keep the database from
/// opening, returns only the first, which [`State::check`] finds.
pub(super) fn contradictions(state: &State) -> Vec<String> {
    let mut found: Vec<_> = state.check().err().into_iter().collect();
    for (id, table) in &state.tables {
        let name = format!("{}.{}", table.keyspace, table.name);
        if *id > state.last_table_id {
            let last = state.last_table_id.0;
            found.push(format!(
                "table {name} has id {}, above the last one, {last}",
                id.0
            ));
        }
        for run in &table.runs {
            if run.largest_seq > table.flushed_seq {
                found.push(format!(
                    "run {} of {name} goes up to {}; the table is flushed up to {}",
                    run.id.0, run.largest_seq, table.flushed_seq
                ));
            }
        }
    }
    contradicting_bookmarks(state, &mut found);
    found
}

fn contradicting_bookmarks(state: &State, found: &mut Vec<String>) {
    let bookmarks = &state.bookmarks;
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    let mut before = SeqNo::ZERO;
    for bookmark in &bookmarks.list {
        let record = &bookmark.record;
        let name = format!("snapshot {} of {}", record.name, record.keyspace);
        if !ids.insert(record.id) || record.id > bookmarks.last_id {
            found.push(format!(
                "{name} has id {}, which is not its own or above the last one, {}",
                record.id, bookmarks.last_id
            ));
        }
        if !names.insert((&record.keyspace, &record.name)) {
            found.push(format!("{name} is listed twice"));
        }
        if bookmark.seq < before || bookmark.seq > bookmarks.as_of {
            found.push(format!(
                "{name} is commit {}, after {before} in a list as of {}",
                bookmark.seq, bookmarks.as_of
            ));
        }
        before = bookmark.seq;
        if let Some(only) = &record.table
            && !state.tables.contains_key(&only.id)
        {
            let table = &only.name;
            found.push(format!("{name} shows a table {table} that there is not"));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::{FileNumber, TableId};
    use crate::manifest::TableMeta;
    use crate::runs::RunMeta;
    use crate::snapshots::{Bookmark, CoveredTable, SnapshotRecord};

    fn run(id: u64, span: (u64, u64), file: u64) -> RunMeta {
        RunMeta {
            smallest_seq: SeqNo(span.0),
            largest_seq: SeqNo(span.1),
            ..RunMeta::example(id, &[file])
        }
    }

    fn sound() -> State {
        let table = TableMeta {
            name: "t".into(),
            flushed_seq: SeqNo(9),
            runs: vec![run(2, (5, 9), 2), run(1, (1, 4), 1)],
            ..TableMeta::example(1)
        };
        let bookmark = |seq, id| Bookmark {
            seq: SeqNo(seq),
            record: SnapshotRecord {
                table: Some(CoveredTable {
                    id: TableId(1),
                    name: "t".into(),
                }),
                ..SnapshotRecord::example(id)
            },
        };
        let mut state = State {
            keyspaces: vec!["app".into()],
            tables: [(TableId(1), table)].into(),
            last_table_id: TableId(1),
            files_below: FileNumber(3),
            ..State::default()
        };
        state.bookmarks.as_of = SeqNo(7);
        state.bookmarks.last_id = 2;
        state.bookmarks.list = vec![bookmark(3, 1), bookmark(6, 2)];
        state
    }

    #[test]
    fn a_state_that_contradicts_itself_is_reported() {
        assert_eq!(contradictions(&sound()), [] as [String; 0]);
        type Change = fn(&mut State);
        fn table(state: &mut State) -> &mut TableMeta {
            state.tables.get_mut(&TableId(1)).unwrap()
        }
        let cases: [(Change, &str); 7] = [
            (|s| table(s).runs[0].files.clear(), "has no files"),
            (|s| table(s).flushed_seq = SeqNo(8), "flushed up to 8"),
            (|s| s.keyspaces.clear(), "in no keyspace"),
            (|s| s.bookmarks.list[0].record.id = 2, "has id 2"),
            (|s| s.bookmarks.last_id = 1, "has id 2"),
            (|s| s.bookmarks.as_of = SeqNo(5), "commit 6"),
            (
                |s| {
                    let only = s.bookmarks.list[0].record.table.as_mut();
                    only.unwrap().id = TableId(7);
                },
                "table t that there is not",
            ),
        ];
        for (change, expected) in cases {
            let mut state = sound();
            change(&mut state);
            let found = contradictions(&state);
            assert!(
                found.iter().any(|detail| detail.contains(expected)),
                "{expected}: {found:?}"
            );
        }
    }
}
