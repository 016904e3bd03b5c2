//! The responses as rows of the table `responses` in the keyspace of the system, so that a restart does not
//! lose them. The book describes a row (docs/src/formats/jobs.md).
//!
//! No row has a secret. The only response with one is that to a login, which [takes no
//! key](crate::http::access::takes_key).

use std::sync::OnceLock;

use axum::http::{HeaderValue, StatusCode};
use ebb_jobs::history::{KEY_LIFETIME, SYSTEM_KEYSPACE, Submission};
use ebb_storage::{Db, ErrorKind, Result, Table, TableOptions, WriteBatch};
use serde::{Deserialize, Serialize};

use super::remembered::StoredResponse;

/// The name of the table of responses in [`SYSTEM_KEYSPACE`].
pub(super) const TABLE: &str = "responses";

/// The table of responses, which is created with its first row. Threads that use it do not wait for each
/// other.
#[derive(Debug)]
pub(super) struct ResponseRows {
    db: Db,
    table: OnceLock<Table>,
}

/// A stored response, as JSON. The key of its row is the hash of the request's principal, method,
/// path and idempotency key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    at_unix_ms: u64,
    /// The hash of the request's method, path with query, and body. A retry must have the same hash.
    request: String,
    status: u16,
    content_type: Option<String>,
    location: Option<String>,
    body: String,
}

/// A row that was read: its request and response; or the key of the row, if the row is damaged.
type ReadRow = std::result::Result<(Submission, StoredResponse), String>;

impl ResponseRows {
    /// Opens the table, if there is one.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn open(db: &Db) -> Result<Self> {
        let table = db
            .existing_keyspace(SYSTEM_KEYSPACE)
            .and_then(|keyspace| keyspace.existing_table(TABLE));
        let table = match table {
            Ok(table) => OnceLock::from(table),
            Err(error) if error.kind() == ErrorKind::NotFound => OnceLock::new(),
            Err(error) => return Err(error),
        };
        let db = db.clone();
        Ok(Self { db, table })
    }

    /// Returns the table, and creates it if it is absent.
    fn table(&self) -> Result<&Table> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let keyspace = self.db.keyspace(SYSTEM_KEYSPACE)?;
        let table = keyspace.table(TABLE, TableOptions::default())?;
        Ok(self.table.get_or_init(|| table))
    }

    /// Returns all rows: first the damaged ones, then the whole ones, the oldest response first.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn all(&self) -> Result<Vec<ReadRow>> {
        let Some(table) = self.table.get() else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        for row in table.range::<&[u8], _>(..) {
            let (key, value) = row?;
            let damaged = || String::from_utf8_lossy(&key).into_owned();
            rows.push(read(&key, &value).ok_or_else(damaged));
        }
        rows.sort_by_key(|row| row.as_ref().map_or(0, |(_, response)| response.at_unix_ms));
        Ok(rows)
    }

    /// Adds or replaces the row of a response. The row expires after [`KEY_LIFETIME`]. A body that is no text
    /// has no row.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn put(&self, by: &Submission, response: &StoredResponse) -> Result<()> {
        // Each response of a change is JSON or empty. Bytes that are no text would have no row.
        let Some(row) = row_of(by, response) else {
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        batch.put_with_ttl(self.table()?, by.key.as_bytes(), &row, KEY_LIFETIME);
        self.db.write(batch)
    }

    /// Deletes the rows of these keys, by one commit.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn delete(&self, keys: &[String]) -> Result<()> {
        let Some(table) = self.table.get() else {
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.delete(table, key.as_bytes());
        }
        self.db.write(batch)
    }
}

fn row_of(by: &Submission, response: &StoredResponse) -> Option<Vec<u8>> {
    let text = |header: &HeaderValue| header.to_str().ok().map(str::to_string);
    let row = Row {
        at_unix_ms: response.at_unix_ms,
        request: by.request.clone(),
        status: response.status.as_u16(),
        content_type: response.content_type.as_ref().and_then(text),
        location: response.location.as_ref().and_then(text),
        body: str::from_utf8(&response.body).ok()?.to_string(),
    };
    Some(serde_json::to_vec(&row).expect("a row has text keys only"))
}

fn read(key: &[u8], value: &[u8]) -> Option<(Submission, StoredResponse)> {
    let row: Row = serde_json::from_slice(value).ok()?;
    let header = |text: Option<String>| text.map(HeaderValue::try_from).transpose().ok();
    let response = StoredResponse {
        at_unix_ms: row.at_unix_ms,
        status: StatusCode::from_u16(row.status).ok()?,
        content_type: header(row.content_type)?,
        location: header(row.location)?,
        body: row.body.into(),
    };
    let by = Submission {
        key: str::from_utf8(key).ok()?.to_string(),
        request: row.request,
    };
    Some((by, response))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> (Submission, StoredResponse) {
        let by = Submission::new(&[0xab; 32], &[1; 32]);
        let response = StoredResponse {
            at_unix_ms: 1_800_000_000_000,
            status: StatusCode::CREATED,
            content_type: Some(HeaderValue::from_static("application/json")),
            location: None,
            body: "{\"name\":\"s\"}".into(),
        };
        (by, response)
    }

    #[test]
    fn a_row_has_the_form_that_the_book_describes() {
        let (by, response) = response();
        let row = row_of(&by, &response).unwrap();
        let request = "01".repeat(32);
        let text = format!(
            "{{\"at_unix_ms\":1800000000000,\"request\":\"{request}\",\"status\":201,\
             \"content_type\":\"application/json\",\"location\":null,\
             \"body\":\"{{\\\"name\\\":\\\"s\\\"}}\"}}"
        );
        assert_eq!(String::from_utf8(row.clone()).unwrap(), text);
        let key = "ab".repeat(32);
        assert_eq!(read(key.as_bytes(), &row), Some((by, response)));
    }

    #[test]
    fn damaged_rows_are_none() {
        let (by, response) = response();
        let row = String::from_utf8(row_of(&by, &response).unwrap()).unwrap();
        let other = |from: &str, to: &str| read(b"k", row.replace(from, to).as_bytes());
        assert!(other("", "").is_some());
        for (from, to) in [("201", "7"), ("{", ""), ("n/json", "\\n"), ("null", "3")] {
            assert_eq!(other(from, to), None, "{to:?} for {from:?}");
        }
        assert_eq!(read(b"\xff", row.as_bytes()), None);
    }
}
