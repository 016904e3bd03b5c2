//! `system.size_estimates`: the sizes of tables. Spark and Trino divide their scans by them.
//!
//! Cassandra has a row for each range of tokens that a node owns. ebb is a single node, so a table
//! has one row for all tokens. Files count keys, but not partitions. Since tokens are hashes, the
//! first few partitions show how many there are: if 32 of them take a thousandth of the ring, there
//! are about 32,000.

use std::ops::Bound;

use ebb_model::key::{DecodedKey, Token, token_range};
use ebb_storage::{Cache, TableReader};
use ebb_tables::read::{Source, TableError};

use super::cells::{bigint, text};
use super::schema::for_each_table;
use super::virtual_table::{Definition, RowSet};
use super::{Facts, Lookup};
use crate::error::{Result, of_table};
use crate::interrupt::{self, UNITS_PER_LOOK};
use crate::pace::StatementPace;

/// The number of sampled partitions in a table that the statement names. The counts of tables with
/// fewer partitions are exact; those of others have a standard error of 18%.
const SAMPLE: u32 = 32;
/// The number of sampled partitions in each table if the statement names no table, since hundreds
/// of tables must not make a request slow. The standard error of these estimates is 41%.
const SAMPLE_OF_EACH: u32 = 8;

pub(super) const SIZE_ESTIMATES: Definition = Definition {
    keyspace: "system",
    name: "size_estimates",
    comment: "per-table primary range size estimates",
    columns: &[
        "keyspace_name text",
        "table_name text",
        "range_start text",
        "range_end text",
        "mean_partition_size bigint",
        "partitions_count bigint",
    ],
    primary_key: &["keyspace_name", "table_name", "range_start", "range_end"],
    rows: size_estimates,
};

fn size_estimates(facts: &Facts, lookup: &Lookup, rows: &mut RowSet<'_>) -> Result<()> {
    let sample = if lookup.tables.is_some() {
        SAMPLE
    } else {
        SAMPLE_OF_EACH
    };
    let db = facts.catalog.db();
    let view = db.view();
    let number = |count: u64| bigint(i64::try_from(count).unwrap_or(i64::MAX));
    for_each_table(facts, lookup, rows, |rows, name, table| {
        let (bytes, partitions) = if let Some(live) = facts.state.table(name, table.name()) {
            let partitions = estimate_partitions(&(&view, live.rows()), sample)?;
            (live.rows().approximate_bytes(), partitions)
        } else if let Some((of, snapshot)) = lookup.snapshots.get(name) {
            let snapshot = db
                .existing_keyspace(of)
                .and_then(|of| of.snapshot(snapshot));
            let Ok(then) = snapshot.and_then(|snapshot| snapshot.table(table.name())) else {
                // The snapshot has expired meanwhile.
                return Ok(());
            };
            let bytes = then.approximate_bytes::<&[u8], _>(..);
            (bytes, estimate_partitions(&then, sample)?)
        } else {
            // Tables of snapshots that the statement does not name are left out, and the server's own.
            return Ok(());
        };
        rows.push([
            ("keyspace_name", text(name)),
            ("table_name", text(table.name())),
            ("range_start", text(&Token::MIN.0.to_string())),
            ("range_end", text(&Token::MAX.0.to_string())),
            (
                "mean_partition_size",
                number(bytes.checked_div(partitions).unwrap_or(0)),
            ),
            ("partitions_count", number(partitions)),
        ])
    })
}

/// Estimates the number of partitions of a table from the tokens of its first `sample` partitions.
/// If the table has fewer, returns their exact number. An unreadable partition is treated as the
/// end of the table.
///
/// # Errors
/// If the statement's time is over.
fn estimate_partitions(rows: &dyn TableReader, sample: u32) -> Result<u64> {
    let mut last = Token::MIN;
    for found in 0..sample {
        // The keys are read from disk, possibly on a thread that serves connections.
        interrupt::charge(UNITS_PER_LOOK)?;
        match next_token(rows, last)? {
            Some(token) => last = token,
            None => return Ok(found.into()),
        }
    }
    Ok(scaled(sample, last))
}

/// Estimates the number of partitions on the whole ring from a sample: the first `sample`
/// partitions in the order of their tokens. `last` is the token of the last one. For random tokens,
/// (`sample` - 1) / (the fraction of the ring up to `last`) is an unbiased estimate.
fn scaled(sample: u32, last: Token) -> u64 {
    let part = u128::from(last.0.abs_diff(Token::MIN.0)).max(1);
    let all = (u128::from(sample.saturating_sub(1)) << u64::BITS) / part;
    u64::try_from(all).unwrap_or(u64::MAX).max(sample.into())
}

/// Returns the token of the first partition after `token`; `None` if there is none, or if that
/// partition is damaged. Damage is no error here, because the statements that read the rows of the
/// partition report it.
///
/// # Errors
/// If the statement's time is over. The search may pass any number of keys: deleted ones, and in a
/// snapshot those that were written later.
fn next_token(rows: &dyn TableReader, token: Token) -> Result<Option<Token>> {
    let range = token_range(Bound::Excluded(token), Bound::Unbounded);
    let source = Source::Stored(rows, Cache::Fill, &StatementPace);
    let entries = source.entries(&range.from, range.to.as_deref());
    let first = entries.and_then(|mut entries| entries.next().transpose());
    match first {
        Ok(Some((key, _))) => Ok(DecodedKey::read(&key).ok().map(|key| key.token)),
        Err(error @ TableError::Ended(_)) => Err(of_table(error)),
        Ok(None) | Err(TableError::Store(_) | TableError::Damaged(_)) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use ebb_cql::protocol::{Consistency, ErrorKind};

    use super::*;
    use crate::executor::harness::Server;
    use crate::interrupt::TimeOut;
    use crate::interrupt::tests::{cancelled, charged};

    /// The statement of Spark's connector. Trino's differs only in the order of the columns.
    const OF_SPARK: &str = "SELECT range_start, range_end, partitions_count, mean_partition_size \
                            FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?";

    /// Returns the estimated number of partitions and their mean size in bytes; `None` if
    /// `system.size_estimates` has no row for the table.
    #[track_caller]
    fn estimate(server: &mut Server, keyspace: &str, table: &str) -> Option<(u64, u64)> {
        let names = [Some(keyspace.as_bytes()), Some(table.as_bytes())];
        let page = server.page(OF_SPARK, &names, None, None).unwrap();
        assert!(page.rows.len() < 2);
        let row = page.rows.first()?;
        assert_eq!(row[..2], [i64::MIN.to_string(), i64::MAX.to_string()]);
        Some((row[2].parse().unwrap(), row[3].parse().unwrap()))
    }

    fn insert(server: &mut Server, partitions: std::ops::Range<u32>) {
        for k in partitions {
            for c in 0..3 {
                let values = format!("({k}, {c}, 'twenty bytes of text')");
                server.run(&format!("INSERT INTO t (k, c, v) VALUES {values}"));
            }
        }
    }

    #[test]
    fn a_table_has_one_row_with_its_partitions_and_their_mean_size() {
        let mut server = Server::with(&[
            "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))",
            "CREATE INDEX by_v ON t (v)",
        ]);
        assert_eq!(estimate(&mut server, "ks", "t"), Some((0, 0)));
        insert(&mut server, 0..20);
        let (partitions, bytes) = estimate(&mut server, "ks", "t").unwrap();
        assert_eq!(partitions, 20);
        assert!(bytes > 60, "three rows of 20 bytes and more: {bytes}");
        server.run("CREATE SNAPSHOT s ON KEYSPACE ks");
        insert(&mut server, 20..1000);
        server.executor.catalog().db().flush().unwrap();
        let (partitions, bytes) = estimate(&mut server, "ks", "t").unwrap();
        assert!((400..2500).contains(&partitions), "{partitions}");
        assert!((5..10_000).contains(&bytes), "{bytes}");
        assert_eq!(estimate(&mut server, "ks@s", "t").unwrap().0, 20);
        assert_eq!(estimate(&mut server, "ks", "none"), None);
        assert_eq!(estimate(&mut server, "none", "t"), None);
        let all = server.rows("SELECT keyspace_name, table_name FROM system.size_estimates");
        assert_eq!(all, "ks t");
        server.run("TRUNCATE t");
        assert_eq!(estimate(&mut server, "ks", "t"), Some((0, 0)));
    }

    /// Regression: the search for the first partition of a snapshot passed all keys that were
    /// written later, on a thread that serves connections, and could not be interrupted.
    #[test]
    fn an_interrupted_estimate_ends_among_the_newer_keys_of_a_snapshot() {
        let mut server =
            Server::with(&["CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))"]);
        server.run("CREATE SNAPSHOT s ON KEYSPACE ks");
        let empty = charged(|| estimate(&mut server, "ks@s", "t"));
        assert_eq!(empty.0, Some((0, 0)));
        // The search passes 3,000 keys, and is charged two units for each 32 of them.
        insert(&mut server, 0..1000);
        let newer = charged(|| estimate(&mut server, "ks@s", "t"));
        let (partitions, _) = newer.0.unwrap();
        assert_eq!(partitions, 0);
        assert!(newer.1 >= empty.1 + 100, "{} and {}", newer.1, empty.1);
        let db = server.executor.catalog().db();
        let snapshot = db.existing_keyspace("ks").unwrap().snapshot("s").unwrap();
        let rows = snapshot.table("t").unwrap();
        let search = || next_token(&rows, Token::MIN);
        let in_time = || interrupt::scope(&cancelled(), TimeOut::Read(Consistency::One), search);
        let (ended, units) = charged(in_time);
        let error = ended.unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::ReadTimeout { .. }),
            "{error:?}"
        );
        assert!(units <= 2 * UNITS_PER_LOOK, "{units}");
    }

    #[test]
    fn the_number_of_partitions_is_estimated_from_the_first_tokens() {
        assert_eq!(scaled(33, Token(0)), 64);
        assert_eq!(scaled(33, Token::MAX), 33);
        assert_eq!(scaled(33, Token(i64::MIN + 1)), u64::MAX);
        assert_eq!(scaled(1, Token(0)), 1);
    }
}
