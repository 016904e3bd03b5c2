//! What a damaged manifest still says.

use std::path::Path;

use super::log::{HEADER_BYTES, record_at, replay, replay_prefix};
use super::state::State;
use crate::error::{Error, Result};
use crate::files::{self, FileKind};
use crate::key::FileNumber;
use crate::log_store::LogStore;

/// What is left of the manifest.
#[derive(Debug)]
pub(crate) struct SalvagedManifest {
    /// As far as it reads; `None` when nothing does.
    pub(crate) state: Option<State>,
    /// What is wrong. Without any, the state is all that the manifest said.
    pub(crate) damage: Option<Error>,
    /// A last record that does not read: a crash may have torn it before it took
    /// effect. Whether it did, the files tell: those that it relied on are there,
    /// or those that it replaced are.
    pub(crate) torn: Option<Error>,
}

/// Reads the manifest that CURRENT names, or the newest one of `manifests` where
/// CURRENT does not say.
///
/// # Errors
/// [`Error::InvalidRequest`] for a directory that was never completed;
/// [`Error::UnsupportedFormat`].
pub(crate) fn salvage_manifest(
    log_store: &dyn LogStore,
    dir: &Path,
    manifests: &[FileNumber],
) -> Result<SalvagedManifest> {
    let current = files::current(dir);
    let name = super::log::read_all(log_store, &current).unwrap_or_default();
    if name == files::INCOMPLETE {
        return Err(Error::InvalidRequest(format!(
            "{} is what an interrupted backup or repair left; remove it and start again",
            dir.display()
        )));
    }
    let named = std::str::from_utf8(&name)
        .ok()
        .map(|name| dir.join(name.trim_end()));
    let named = named.filter(|path| matches!(FileKind::of(path), Some(FileKind::Manifest(_))));
    let newest = manifests
        .last()
        .map(|&number| dir.join(files::manifest_name(number)));
    let paths = [named, newest];
    let mut damage = None;
    for path in paths.into_iter().flatten() {
        let bytes = match super::log::read_all(log_store, &path) {
            Ok(bytes) => bytes,
            Err(error) => {
                damage.get_or_insert(error);
                continue;
            }
        };
        match replay(&path, &bytes) {
            Ok((_, state, _)) => {
                let end = replay_prefix(&bytes).map_or(0, |(_, end)| end);
                let torn = (end < bytes.len() as u64)
                    .then(|| Error::corruption(&path, end, "the last record does not read"));
                return Ok(SalvagedManifest {
                    state: Some(state),
                    damage,
                    torn,
                });
            }
            Err(error) => {
                let prefix = replay_prefix(&bytes);
                if matches!(error, Error::UnsupportedFormat { .. }) {
                    // The version has no checksum. Where a record is whole and
                    // says nothing to this build, it is not the version that is
                    // damaged.
                    let end = prefix
                        .as_ref()
                        .map_or(HEADER_BYTES, |(_, end)| *end as usize);
                    if prefix.is_none() || end < bytes.len() && record_at(&bytes, end).is_ok() {
                        return Err(error);
                    }
                }
                let state = prefix.map(|(state, _)| state);
                damage = Some(error);
                if state.is_some() {
                    return Ok(SalvagedManifest {
                        state,
                        damage,
                        torn: None,
                    });
                }
            }
        }
    }
    let damage = damage.or_else(|| Some(Error::corruption(&current, 0, "no manifest is there")));
    Ok(SalvagedManifest {
        state: None,
        damage,
        torn: None,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::log::{encode, header};
    use super::super::state::Edit;
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;

    /// An edit whose checksum is good, and after which the state makes no sense,
    /// was taken over by a repair: the new database did not open.
    #[test]
    fn what_makes_no_sense_of_the_state_is_not_salvaged() {
        let (mem, dir) = (MemDisk::new(), Path::new("/db"));
        mem.create_dir_all(dir).unwrap();
        let name = files::manifest_name(FileNumber(1));
        mem.create(&files::current(dir))
            .and_then(|mut current| current.append(name.as_bytes()))
            .unwrap();
        let add = |name: &str| Edit::AddKeyspace { name: name.into() };
        let floor = FileNumber(u64::MAX);
        let bookmarks = None;
        let mut bytes = header(crate::manifest::DatabaseId([7; 16]));
        for edit in [
            Edit::State(State::default()),
            add("a"),
            Edit::TrimWal { floor, bookmarks },
            add("b"),
        ] {
            bytes.extend_from_slice(&encode(&edit));
        }
        mem.create(&dir.join(name)).unwrap().append(&bytes).unwrap();
        let salvaged = salvage_manifest(&mem, dir, &[FileNumber(1)]).unwrap();
        let state = salvaged.state.unwrap();
        assert_eq!(
            (state.check(), &state.keyspaces[..]),
            (Ok(()), &["a".to_string()][..])
        );
        assert!(matches!(salvaged.damage, Some(Error::Corruption { .. })));
    }
}
