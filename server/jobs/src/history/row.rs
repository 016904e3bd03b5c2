//! A job in the history as it is stored.

use bytes::Bytes;

use super::{JobRecord, Result, read_row};

/// A row of the table of jobs: the id of a job, and its record in JSON. A reader can compare the
/// bytes with those of an earlier read, and decode them only if they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    id: Bytes,
    json: Bytes,
}

impl JobRow {
    pub fn of(record: &JobRecord) -> Self {
        let json = serde_json::to_vec(record).expect("a record has text keys only");
        Self {
            id: Bytes::copy_from_slice(record.id.as_bytes()),
            json: json.into(),
        }
    }

    /// Creates the row from the key and the value that were read from the table of jobs. Does not
    /// decode the record: [`record`](Self::record) does that.
    pub(super) fn stored((id, json): (Bytes, Bytes)) -> Self {
        Self { id, json }
    }

    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Returns the record in JSON, as it is stored.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Decodes the record.
    ///
    /// # Errors
    /// When the row is not a job.
    pub fn record(&self) -> Result<JobRecord> {
        read_row("jobs", &self.id, &self.json)
    }
}
