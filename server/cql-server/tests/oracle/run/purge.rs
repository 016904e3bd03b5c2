//! The purge of all garbage.

use ebb_model::key::{DecodedKey, Place};
use ebb_model::row::{Garbage, Header, Purged, purge_header, purge_row};

use super::{Result, Run};
use crate::step::Step;

/// The seconds of a long time: after it all expired values and all deletions may be purged.
const LONG_S: i64 = 10_000;

impl Run {
    /// Changes the grace period of the table. The schema of the model keeps the shortest one: by a shorter
    /// one in the past, deletions may have been purged.
    pub(super) fn alter_grace(&mut self, seconds: i64) -> Result<()> {
        let schema = &mut self.model.schema;
        schema.gc_grace_s = schema.gc_grace_s.min(seconds);
        self.execute(&format!(
            "ALTER TABLE ks.t WITH gc_grace_seconds = {seconds}"
        ))
    }

    /// Drops all snapshots, and merges all runs of the table after the grace period. Then nothing may be
    /// left that could be purged. From then on the server merges all runs of a table at once.
    pub(super) fn purge_all(&mut self) -> Result<()> {
        for id in self.snapshots.keys().copied().collect::<Vec<_>>() {
            self.step(&Step::DropSnapshot(id))?;
        }
        let before = self.server.operands().len();
        // This deletion makes one run more. The store discards the merge of a single run if the output is
        // not smaller, and never that of several runs. No other statement is about this partition.
        let names = self.model.schema.partition_names();
        let keys: Vec<String> = names.iter().map(|name| format!("{name} = 99")).collect();
        self.execute(&format!(
            "DELETE FROM ks.t USING TIMESTAMP 0 WHERE {}",
            keys.join(" AND ")
        ))?;
        self.server.merge_all_runs_after_restart();
        // The restart also ends the threads that built indexes, whose views keep what they see.
        for step in [
            Step::Advance(LONG_S),
            Step::Restart,
            Step::Flush,
            Step::Compact,
        ] {
            self.step(&step)?;
        }
        let operands = self.server.operands();
        let garbage = Garbage {
            gc_before_s: self.now_s - LONG_S / 2,
            oldest_elsewhere: i64::MAX,
        };
        for (key, operand) in &operands {
            if has_garbage(key, operand, garbage)? {
                return Err(format!("garbage is left: {operand:02x?} of {key:02x?}"));
            }
        }
        self.counts.purged += before.saturating_sub(operands.len()) as u64;
        Ok(())
    }
}

/// Returns whether a merge would purge anything from a stored operand (an encoded row or header).
fn has_garbage(key: &[u8], operand: &[u8], garbage: Garbage) -> Result<bool> {
    let key = DecodedKey::read(key).map_err(|error| error.to_string())?;
    let purged = match key.place {
        Place::Header => {
            let header = Header::parse(operand).map_err(|error| error.to_string())?;
            if header.deletion().is_some() || !header.ranges().is_empty() {
                return Ok(true);
            }
            purge_header(operand, garbage)
        }
        Place::Row(_) => purge_row(operand, None, garbage),
    };
    Ok(purged.map_err(|error| error.to_string())? != Purged::Kept)
}
