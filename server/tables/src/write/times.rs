//! The time of a write, and the cells, markers and deletions with this time.

use ebb_model::row::{Cell, Deletion, Expiry, Lifetime, Marker};

/// The time of a write, and the time to live of its values.
#[derive(Debug, Clone, Copy)]
pub struct WriteTimes {
    /// The timestamp of the client or of the server, in microseconds since 1970; not `i64::MIN`.
    pub timestamp_us: i64,
    /// The time, in seconds since 1970, at which times to live and grace periods begin.
    pub now_s: i64,
    /// The time to live of the values in seconds, not 0; `None` if they do not expire.
    pub ttl_s: Option<u32>,
}

impl WriteTimes {
    /// Returns the times of a write at the time `timestamp_us`, whose values do not expire. Grace
    /// periods begin at the same time.
    pub fn at(timestamp_us: i64) -> Self {
        Self {
            timestamp_us,
            now_s: timestamp_us.div_euclid(1_000_000),
            ttl_s: None,
        }
    }

    /// Returns the deletion of everything that is older than the write; `None` if nothing can be older,
    /// because the write has the least valid timestamp (`i64::MIN + 1`).
    pub fn older_deletion(&self) -> Option<Deletion> {
        let timestamp = self.timestamp_us - 1;
        (timestamp > i64::MIN).then_some(Deletion {
            timestamp,
            local_time_s: self.now_s,
        })
    }

    /// Returns the deletion of everything that is not newer than the write.
    pub(super) fn deletion(&self) -> Deletion {
        Deletion {
            timestamp: self.timestamp_us,
            local_time_s: self.now_s,
        }
    }

    /// Returns a cell with the value and the times of this write. Without a value, the cell is a tombstone.
    #[inline]
    pub(super) fn cell<'v>(&self, value: Option<&'v [u8]>) -> Cell<'v> {
        let lifetime = match (value, self.expiry()) {
            (None, _) => Lifetime::Tombstone {
                local_time_s: self.now_s,
            },
            (Some(_), None) => Lifetime::Permanent,
            (Some(_), Some(expiry)) => Lifetime::Expiring(expiry),
        };
        Cell {
            timestamp: self.timestamp_us,
            lifetime,
            value: value.unwrap_or_default(),
        }
    }

    pub(super) fn marker(&self) -> Marker {
        Marker {
            timestamp: self.timestamp_us,
            expiry: self.expiry(),
        }
    }

    fn expiry(&self) -> Option<Expiry> {
        self.ttl_s.map(|ttl_s| Expiry {
            ttl_s,
            expiry_s: self.now_s.saturating_add(i64::from(ttl_s)),
        })
    }
}
