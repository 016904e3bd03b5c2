//! The form of the bookmarks in the manifest: each list of tables once, and snapshots that
//! name it by its place.

use serde::{Deserialize, Serialize};

use super::{Bookmark, Bookmarks, SnapshotRecord, SnapshotTables};
use crate::key::SeqNo;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredBookmarks {
    as_of: SeqNo,
    last_id: u64,
    /// Different lists of tables.
    tables: Vec<SnapshotTables>,
    list: Vec<StoredBookmark>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBookmark {
    seq: SeqNo,
    id: u64,
    keyspace: String,
    name: String,
    /// A place in the lists of tables.
    tables: usize,
    single_table: bool,
    created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ms: Option<u64>,
}

impl From<Bookmarks> for StoredBookmarks {
    fn from(bookmarks: Bookmarks) -> Self {
        let mut tables: Vec<SnapshotTables> = Vec::new();
        // Neighbours in time mostly have the same, and share it.
        let mut place = |of: &SnapshotTables| {
            let found = tables.iter().rposition(|other| other.is_shared_with(of));
            found
                .or_else(|| tables.iter().rposition(|other| other == of))
                .unwrap_or_else(|| {
                    tables.push(of.clone());
                    tables.len() - 1
                })
        };
        let stored = |Bookmark { seq, record }: Bookmark| StoredBookmark {
            seq,
            id: record.id,
            tables: place(&record.tables),
            keyspace: record.keyspace,
            name: record.name,
            single_table: record.single_table,
            created_ms: record.created_ms,
            expires_ms: record.expires_ms,
        };
        Self {
            as_of: bookmarks.as_of,
            last_id: bookmarks.last_id,
            list: bookmarks.list.into_iter().map(stored).collect(),
            tables,
        }
    }
}

impl TryFrom<StoredBookmarks> for Bookmarks {
    type Error = String;

    fn try_from(stored: StoredBookmarks) -> Result<Self, String> {
        let bookmark = |it: StoredBookmark| {
            let tables = stored.tables.get(it.tables);
            let tables = tables.ok_or_else(|| {
                format!(
                    "snapshot {} has list {} of tables, which there is not",
                    it.id, it.tables
                )
            })?;
            Ok(Bookmark {
                seq: it.seq,
                record: SnapshotRecord {
                    id: it.id,
                    keyspace: it.keyspace,
                    name: it.name,
                    tables: tables.clone(),
                    single_table: it.single_table,
                    created_ms: it.created_ms,
                    expires_ms: it.expires_ms,
                },
            })
        };
        Ok(Self {
            as_of: stored.as_of,
            last_id: stored.last_id,
            list: stored
                .list
                .into_iter()
                .map(bookmark)
                .collect::<Result<_, String>>()?,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::key::TableId;

    fn record(id: u64, keyspace: &str, tables: u32) -> SnapshotRecord {
        let table = |n| (format!("a table with a long name {n}"), TableId(n));
        SnapshotRecord {
            id,
            keyspace: keyspace.into(),
            name: format!("s{id}"),
            tables: (1..=tables).map(table).collect(),
            single_table: false,
            created_ms: id,
            expires_ms: id.is_multiple_of(2).then_some(id),
        }
    }

    /// 2000 snapshots of 200 tables took 513 MB, and as long a manifest.
    #[test]
    fn snapshots_of_the_same_tables_share_one_list_of_them() {
        let mut bookmarks = Bookmarks::default();
        for id in 1..=2000 {
            let (keyspace, tables) = [("a", 200), ("b", 150)][id as usize / 3 % 2];
            bookmarks.add(SeqNo(id), record(id, keyspace, tables));
        }
        let json = serde_json::to_string(&bookmarks).unwrap();
        assert!(
            json.len() < 2000 * 120 + 2 * 200 * 50,
            "{} bytes",
            json.len()
        );
        let back: Bookmarks = serde_json::from_str(&json).unwrap();
        assert_eq!(back, bookmarks);
        for bookmarks in [bookmarks, back] {
            let mut lists: Vec<&SnapshotTables> = Vec::new();
            for Bookmark { record, .. } in &bookmarks.list {
                if !lists.iter().any(|list| list.is_shared_with(&record.tables)) {
                    lists.push(&record.tables);
                }
            }
            assert_eq!(lists.len(), 2);
        }
    }

    #[test]
    fn a_missing_list_of_tables_is_named_in_the_error() {
        let mut bookmarks = Bookmarks::default();
        bookmarks.add(SeqNo(1), record(1, "a", 2));
        let json = serde_json::to_string(&bookmarks).unwrap();
        let bad = json.replace(r#""tables":0"#, r#""tables":1"#);
        assert_ne!(bad, json);
        let error = serde_json::from_str::<Bookmarks>(&bad).unwrap_err();
        assert!(error.to_string().contains("list 1 of tables"), "{error}");
    }
}
