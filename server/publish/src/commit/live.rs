//! The data files of the newest publication, with the delete files that name rows of each.

use std::collections::HashMap;

use super::manifests::ReadManifest;
use crate::iceberg::manifest::{DataFile, POSITIONAL_DELETES, ROWS};

/// A data file of the newest publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveFile {
    /// The data file.
    pub file: DataFile,
    /// The Iceberg sequence number of the publication that added the file.
    pub sequence_number: i64,
    /// The files that name the deleted rows of the data file, by ascending sequence number. None of them
    /// names a row of another file, and no two name the same row.
    pub deletes: Vec<DeleteFile>,
}

/// A positional delete file of the newest publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteFile {
    /// The delete file.
    pub file: DataFile,
    /// The Iceberg sequence number of the publication that added the file.
    pub sequence_number: i64,
}

impl LiveFile {
    /// Returns the number of rows in the file, deleted ones included.
    pub fn rows(&self) -> u64 {
        count(&self.file)
    }

    pub fn deleted_rows(&self) -> u64 {
        let rows = self.deletes.iter().map(|of| count(&of.file));
        rows.fold(0, u64::saturating_add)
    }
}

fn count(file: &DataFile) -> u64 {
    u64::try_from(file.record_count).unwrap_or(0)
}

/// Returns the data files of a snapshot, each with its delete files, in the order in which `manifests` list
/// them.
///
/// # Errors
/// If the snapshot has deletes of a kind that ebb does not write: equality deletes, or a positional delete
/// file that is not limited to one data file. The error is a sentence with the location of the file.
pub(super) fn live_files(manifests: &[ReadManifest]) -> Result<Vec<LiveFile>, String> {
    let mut files = Vec::new();
    let mut deletes: HashMap<&str, Vec<DeleteFile>> = HashMap::new();
    for manifest in manifests {
        for entry in manifest.live() {
            let file = &entry.data_file;
            let sequence_number = manifest.sequence_number(entry);
            match (file.content, &file.referenced_data_file) {
                (ROWS, _) => files.push(LiveFile {
                    file: file.clone(),
                    sequence_number,
                    deletes: Vec::new(),
                }),
                (POSITIONAL_DELETES, Some(name)) => {
                    deletes.entry(name).or_default().push(DeleteFile {
                        file: file.clone(),
                        sequence_number,
                    });
                }
                _ => {
                    return Err(format!(
                        "it has deletes that ebb did not write ({}); choose another target",
                        file.file_path
                    ));
                }
            }
        }
    }
    for live in &mut files {
        let mut own = deletes.remove(&live.file.file_path[..]).unwrap_or_default();
        // Older deletes belong to an earlier file of the same name.
        own.retain(|of| of.sequence_number >= live.sequence_number);
        own.sort_by_key(|of| of.sequence_number);
        live.deletes = own;
    }
    Ok(files)
}
