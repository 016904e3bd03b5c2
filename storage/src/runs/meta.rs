//! What is recorded of a run, in the manifest and in the WAL.

use serde::{Deserialize, Serialize};

use crate::key::{Boundaries, FileNumber, NUMBER_MAX, RunId, SeqNo};
use crate::mutation::{self, Mutation};

/// A run as it stands in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunMeta {
    pub(crate) id: RunId,
    /// The smallest sequence number that it may hold, and the largest: the
    /// union of the spans of what it was made from, so never too narrow.
    pub(crate) smallest_seq: SeqNo,
    pub(crate) largest_seq: SeqNo,
    /// Ascending by key.
    pub(crate) files: Vec<FileNumber>,
    /// Bytes of the files.
    pub(crate) bytes: u64,
    /// Versions and range tombstones in the files.
    pub(crate) entries: u64,
    /// Of a run that was written elsewhere and ingested, the commit that did:
    /// all its versions have this number, whatever is in the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ingested_at: Option<SeqNo>,
    /// What of it is there for snapshots and views only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kept_for: Vec<KeptFor>,
}

/// Versions of a run that nobody can see but readers at boundaries (snapshots and
/// views) numbered `from..=to`: a newer version of each is in the same run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptFor {
    pub(crate) from: SeqNo,
    pub(crate) to: SeqNo,
    /// About how many bytes of the files they take.
    pub(crate) bytes: u64,
}

impl RunMeta {
    /// Says what cannot be in a meta that the engine wrote.
    pub(crate) fn check(&self) -> Result<(), String> {
        let files = self.files.iter().map(|file| file.0);
        let mut numbers = files.chain([self.id.0, self.bytes, self.entries]);
        if self.files.is_empty() || numbers.any(|number| number >= NUMBER_MAX) {
            return Err("a run without files, or out of all bounds".to_string());
        }
        Ok(())
    }

    /// The meta of a run as the commit `seq` ingests it.
    pub(crate) fn ingested_by(mut self, seq: SeqNo) -> Self {
        self.smallest_seq = seq;
        self.largest_seq = seq;
        self.ingested_at = mutation::replace(Some(seq), Mutation::TrustIngestedNumbers, None);
        self
    }

    /// About how many bytes were kept for boundaries of which none is left.
    pub(crate) fn garbage_bytes(&self, boundaries: &Boundaries) -> u64 {
        let never = mutation::is(Mutation::OverlookGarbage);
        self.hidden_bytes(|kept| !boundaries.has_any(kept.from, kept.to) && !never)
    }

    /// About how many bytes only snapshots and views can see, of those asked for.
    pub(crate) fn hidden_bytes(&self, of: impl Fn(&KeptFor) -> bool) -> u64 {
        let kept = self.kept_for.iter().filter(|kept| of(kept));
        kept.fold(0, |sum, kept| sum.saturating_add(kept.bytes))
    }
}
