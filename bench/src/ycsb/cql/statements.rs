//! The CQL statements: the schema of the table, and those of the operations.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use ebb_cql::client::Client;
use ebb_cql::protocol::{Compression, QueryParameters, Request, Response, Value, ValuesBuf};
use ebb_threads::{YIELD_EVERY, Yielding};

use super::records::Step;
use crate::ycsb::{KEY_BYTES, key, write_value};

pub(crate) const KEYSPACE: &str = "ycsb";
/// The name of the table in YCSB.
pub(crate) const TABLE: &str = "usertable";

/// The page size of scans: larger than a scan, so that one page has all of it.
const SCAN_PAGE_ROWS: u32 = 1000;

/// The way in which a statement names the snapshot that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SnapshotForm {
    /// Names the snapshot in the statement: `... FROM ycsb.usertable USING SNAPSHOT name ...`
    Statement,
    /// Names the snapshot in the keyspace: `... FROM "ycsb@name".usertable ...`
    Keyspace,
}

/// A snapshot that is read in place of the live table.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotRead {
    pub name: String,
    pub form: SnapshotForm,
}

/// Creates keyspace and table if they do not exist.
pub(super) fn create(client: &mut Client) -> Result<()> {
    let options = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    for text in [
        format!("CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {options}"),
        format!(
            "CREATE TABLE IF NOT EXISTS {KEYSPACE}.{TABLE} (y_id text PRIMARY KEY, field0 blob)"
        ),
    ] {
        query(client, &text)?;
    }
    Ok(())
}

/// Creates a snapshot of the keyspace, unless it exists.
pub(super) fn create_snapshot(client: &mut Client, name: &str) -> Result<()> {
    let name = quoted(name);
    let text = format!("CREATE SNAPSHOT IF NOT EXISTS {name} ON KEYSPACE {KEYSPACE}");
    query(client, &text).map(|_| ())
}

/// Reads the whole table page by page, in the calling thread, until the table ends or `goes_on`
/// returns false. Returns the number of rows. If the thread is in the idle class, it offers its
/// core to other threads after each read of the socket.
pub(crate) fn pages(
    client: &mut Client,
    page_rows: u32,
    mut goes_on: impl FnMut() -> bool,
) -> Result<u64> {
    let text = format!("SELECT y_id, field0 FROM {KEYSPACE}.{TABLE}");
    let yielding = Yielding::of_current_thread(YIELD_EVERY);
    let (mut rows, mut state) = (0, None::<Bytes>);
    while goes_on() {
        let request = Request::Query {
            text: &text,
            parameters: QueryParameters {
                page_size_rows: Some(page_rows),
                paging_state: state.as_deref(),
                ..QueryParameters::default()
            },
        };
        let mut after_read = || yielding.offer_core(Instant::now());
        match client.request_with(&request, &mut after_read)? {
            Response::Rows(page) => {
                rows += page.len() as u64;
                state = page.paging_state;
            }
            other => bail!("the server answered with another message: {other:?}"),
        }
        if state.is_none() {
            break;
        }
    }
    Ok(rows)
}

/// Executes a statement without values, and waits for the response.
pub(crate) fn query(client: &mut Client, text: &str) -> Result<Response> {
    let parameters = QueryParameters::default();
    let response = client.request(&Request::Query { text, parameters });
    response.with_context(|| format!("{text:?} failed"))
}

/// Prepares a statement, and returns its id.
pub(crate) fn prepare(client: &mut Client, text: &str) -> Result<Bytes> {
    let keyspace = None;
    let response = client.request(&Request::Prepare { text, keyspace });
    match response.with_context(|| format!("cannot prepare {text:?}"))? {
        Response::Prepared(prepared) => Ok(prepared.id),
        other => bail!("the server did not prepare {text:?}, it answered {other:?}"),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The CQL texts of the statements that read a record, write a record, and scan several.
pub(super) struct Texts {
    pub read: String,
    pub write: String,
    pub scan: String,
}

impl Texts {
    /// Creates the texts. Reads go to the snapshot, if there is one.
    pub(super) fn new(snapshot: Option<&SnapshotRead>) -> Self {
        let (from, using) = match snapshot {
            None => (format!("{KEYSPACE}.{TABLE}"), String::new()),
            Some(SnapshotRead { name, form }) => match form {
                SnapshotForm::Statement => (
                    format!("{KEYSPACE}.{TABLE}"),
                    format!(" USING SNAPSHOT {}", quoted(name)),
                ),
                SnapshotForm::Keyspace => (
                    format!("{}.{TABLE}", quoted(&format!("{KEYSPACE}@{name}"))),
                    String::new(),
                ),
            },
        };
        Self {
            read: format!("SELECT field0 FROM {from}{using} WHERE y_id = ?"),
            write: format!("INSERT INTO {KEYSPACE}.{TABLE} (y_id, field0) VALUES (?, ?)"),
            scan: format!(
                "SELECT y_id, field0 FROM {from}{using} WHERE token(y_id) >= token(?) LIMIT ?"
            ),
        }
    }
}

/// The encoded EXECUTE frames of the three statements. A request copies one, and overwrites its
/// key, its second value (the record's value or the scan's limit) and its stream id.
#[derive(Debug)]
pub(super) struct Statements {
    read: Template,
    write: Template,
    scan: Template,
    value_bytes: usize,
}

/// The encoded frame of a request, and where in it the record's key is. Each request copies the
/// frame and overwrites the key, instead of encoding the request again.
#[derive(Debug)]
struct Template {
    frame: Vec<u8>,
    key: Range<usize>,
}

impl Statements {
    pub(super) fn prepare(
        client: &mut Client,
        snapshot: Option<&SnapshotRead>,
        value_bytes: usize,
    ) -> Result<Self> {
        let texts = Texts::new(snapshot);
        let value = vec![0; value_bytes];
        let limit = 0_i32.to_be_bytes();
        let mut template =
            |text: &str, second: Option<&[u8]>, rows| Template::prepare(client, text, second, rows);
        Ok(Self {
            read: template(&texts.read, None, None)?,
            write: template(&texts.write, Some(&value), None)?,
            scan: template(&texts.scan, Some(&limit), Some(SCAN_PAGE_ROWS))?,
            value_bytes,
        })
    }

    /// Appends the frame of the request `step`, on the stream with the id `stream`.
    /// `scratch` is a buffer for values.
    pub(super) fn encode(
        &self,
        step: &Step,
        stream: i16,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        match step {
            Step::Read { number } => {
                self.read.append(*number, out);
            }
            Step::Write { stamp } => {
                let value_at = self.write.append(stamp.number, out);
                write_value(scratch, *stamp, self.value_bytes);
                out[value_at..][..scratch.len()].copy_from_slice(scratch);
            }
            Step::Scan { number, records } => {
                let limit_at = self.scan.append(*number, out);
                let limit = (*records as i32).to_be_bytes();
                out[limit_at..][..limit.len()].copy_from_slice(&limit);
            }
        }
        ebb_cql::client::set_stream(&mut out[start..], stream);
    }
}

impl Template {
    /// Prepares a statement whose first value is a record's key. If `second` is given, the
    /// statement has a second value, of the length of `second`. Each request overwrites both.
    fn prepare(
        client: &mut Client,
        text: &str,
        second: Option<&[u8]>,
        page_size_rows: Option<u32>,
    ) -> Result<Self> {
        let id = &prepare(client, text)?;
        let placeholder = key(0);
        let mut values = ValuesBuf::new();
        values.push(Value::Bytes(&placeholder));
        if let Some(second) = second {
            values.push(Value::Bytes(second));
        }
        let parameters = QueryParameters {
            values: values.as_values(),
            skip_metadata: true,
            page_size_rows,
            ..QueryParameters::default()
        };
        let mut frame = BytesMut::new();
        (Request::Execute { id, parameters }).encode(&mut frame, 0, Compression::None);
        let key_at = frame
            .windows(KEY_BYTES)
            .position(|bytes| bytes == placeholder);
        let key_at = key_at.context("a request holds its values")?;
        Ok(Self {
            frame: frame.to_vec(),
            key: key_at..key_at + KEY_BYTES,
        })
    }

    /// Appends the frame of a request for the record `number`, whose key is the statement's first
    /// value. Returns the position in `out` of the second value, if the statement has one. The
    /// caller overwrites that value.
    fn append(&self, number: u64, out: &mut Vec<u8>) -> usize {
        const LENGTH_BYTES: usize = 4;
        let start = out.len();
        out.extend_from_slice(&self.frame);
        out[start..][self.key.clone()].copy_from_slice(&key(number));
        start + self.key.end + LENGTH_BYTES
    }
}
