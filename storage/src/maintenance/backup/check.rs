//! The checks of an SSTable in a backup.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::db::Engine;
use crate::error::{Error, Result};
use crate::file_system::ReadFile;
use crate::maintenance::verify::Finding;
use crate::runs::FileMeta;
use crate::sstable::{BlockCache, SsTable, id_of_file};

/// Checks every block of the SSTable at `at`. Returns `Break` if `step` does.
///
/// # Errors
/// The first damage as `Corruption`, also if the file is another SSTable than `file` or has another
/// length; `UnsupportedFormat`; `Io`.
pub(super) fn check_blocks(
    engine: &Engine,
    file: &FileMeta,
    at: &Path,
    cache: &Arc<BlockCache>,
    step: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let source = engine.disk().open_read(at).map_err(Error::io("open", at))?;
    check_open(source, file, at, cache, step)
}

/// Does the same as [`check_blocks`] with a file that is open already. Errors name the path `at`.
pub(super) fn check_open(
    source: Arc<dyn ReadFile>,
    file: &FileMeta,
    at: &Path,
    cache: &Arc<BlockCache>,
    step: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let place = (file.number.0, Some(file.id));
    let table = SsTable::read(source, at, place, cache.clone())?;
    file.check_file(&table)?;
    table.check_blocks(step)
}

/// Refuses the backup if the file at `at`, which an older backup wrote, is another SSTable than
/// `file`, the one that the database has under the same number. The older backup may need the file
/// at `at`, so that file is not replaced. The numbers clash if the database was put back to an
/// earlier state since the older backup, or is a copy of the database that was backed up.
///
/// # Errors
/// [`Error::InvalidRequest`]. A file whose id cannot be read is damaged, and is not refused.
pub(super) fn refuse_other_file(engine: &Engine, file: &FileMeta, at: &Path) -> Result<()> {
    match id_of_file(engine.disk(), at) {
        Ok(Some(id)) if id != file.id => {
            let text = format!(
                "{} is another file than the database has under this number: the database was put \
                 back to an earlier state since that backup, or is a copy of the one that was \
                 backed up; name another directory",
                at.display()
            );
            Err(Error::InvalidRequest(text))
        }
        _ => Ok(()),
    }
}

/// Returns the damage that the database has recorded for a file; `None` if the file is not in
/// quarantine.
pub(super) fn known_damage(file: &FileMeta, at: &Path) -> Option<Finding> {
    let known = file.quarantine.as_ref()?;
    Some(Finding {
        path: at.to_path_buf(),
        offset: known.offset,
        detail: format!("in quarantine: {}", known.detail),
    })
}
