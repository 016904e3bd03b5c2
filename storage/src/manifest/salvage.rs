//! The readable part of a damaged manifest.

use std::path::Path;

use super::copies::Copies;
use super::current::Current;
use super::record::{HEADER_BYTES, record_at};
use super::replay::{replay, replay_prefix};
use super::state::State;
use crate::error::{Error, Result};
use crate::files;
use crate::key::FileNumber;
use crate::log_store::LogStore;

/// The readable part of the manifest.
#[derive(Debug)]
pub(crate) struct SalvagedManifest {
    /// The state after the records before the first damage; `None` if nothing could be read.
    pub(crate) state: Option<State>,
    /// The damage; `None` if the state is complete.
    pub(crate) damage: Option<Error>,
    /// The error of a last record that cannot be read: a crash may have torn the record before it
    /// took effect. The directory shows whether it took effect: it has either the files that the
    /// record added, or those that it replaced. `None` if the last record is whole, or is not
    /// reached because of damage before it.
    pub(crate) torn: Option<Error>,
}

/// Reads the manifest that CURRENT or its copy names. If they name none, or nothing of that manifest can be
/// read, reads the last one of `manifests`, the ascending numbers of all manifests in the directory.
///
/// # Errors
/// [`Error::Incomplete`] if an interrupted backup or repair left the directory;
/// [`Error::UnsupportedFormat`]; [`Error::Io`] for a cause other than the files: a lack of descriptors,
/// memory or permission, or a directory that was moved.
pub(crate) fn salvage_manifest(
    log_store: &dyn LogStore,
    dir: &Path,
    manifests: &[FileNumber],
) -> Result<SalvagedManifest> {
    let current = Current::read(log_store, dir)?;
    // Such a directory is a copy of a database that is still there: nothing has to be saved.
    if current.is_incomplete {
        return Err(Error::Incomplete {
            path: dir.to_path_buf(),
        });
    }
    let names_nothing = current.names_nothing();
    let (live, mut damage) = match current.live(log_store, dir) {
        Ok(live) => (Some(live.copies), None),
        // No damage: the manifest may be whole, and the user can try again.
        Err(error) if !error.is_of_file() => return Err(error),
        // The newest manifest counts then, as if it were named.
        Err(_) if names_nothing => (None, None),
        Err(error) => (None, Some(error)),
    };
    let is_other = |number: &FileNumber| live.as_ref().is_none_or(|live| live.number != *number);
    let newest = manifests.last().copied().filter(is_other);
    let newest = newest.map(|number| Copies::read(log_store, dir, number));
    // Another manifest counts only if nothing of the named one reads.
    for copies in live.into_iter().chain(newest.transpose()?) {
        if copies.read.is_empty() {
            damage = damage.or(copies.unreadable.into_iter().next());
            continue;
        }
        match replay(&copies.read) {
            Ok(replayed) => {
                // `replay` has found no good record behind these bytes.
                let mut read = copies.read.iter();
                let longer = read.find(|copy| copy.bytes.len() > replayed.end);
                let torn = longer.map(|copy| {
                    let detail = "the last record does not read";
                    Error::corruption(&copy.path, replayed.end as u64, detail)
                });
                return Ok(SalvagedManifest {
                    state: Some(replayed.state),
                    damage,
                    torn,
                });
            }
            Err(error) => {
                let prefix = replay_prefix(&copies.read);
                if matches!(error, Error::UnsupportedFormat { .. }) {
                    // The version has no checksum. If a record is whole, but makes no sense to this
                    // build, the version is not what is damaged. If no record reads at all, a newer
                    // format and damage cannot be told apart, and a repair of a newer format as if
                    // it were damage would lose everything.
                    let end = prefix.as_ref().map_or(HEADER_BYTES, |(_, end)| *end);
                    let mut read = copies.read.iter();
                    let goes_on = read.any(|copy| record_at(&copy.bytes, end).is_ok());
                    if prefix.is_none() || goes_on {
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
    let missing = || Error::corruption(&files::current(dir), 0, "no manifest is there");
    Ok(SalvagedManifest {
        state: None,
        damage: damage.or_else(|| Some(missing())),
        torn: None,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::current::naming;
    use super::super::record::{encode, header};
    use super::super::state::Edit;
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::{FaultOp, MemDisk};

    /// Regression: a repair without the permission to read the manifest took it for damaged, and went on
    /// without it.
    #[test]
    fn a_lack_of_permission_is_no_damage_of_the_manifest() {
        let (mem, dir) = (MemDisk::new(), Path::new("/db"));
        mem.create_dir_all(dir).unwrap();
        for path in files::currents(dir) {
            let mut current = mem.create(&path).unwrap();
            current.append(naming(FileNumber(1)).as_bytes()).unwrap();
        }
        let state = Edit::State(State::default());
        let mut bytes = header(crate::manifest::DatabaseId([7; 16]));
        bytes.extend_from_slice(&encode(&state));
        for path in files::manifests(dir, FileNumber(1)) {
            mem.create(&path).unwrap().append(&bytes).unwrap();
        }
        let salvage = || salvage_manifest(&mem, dir, &[FileNumber(1), FileNumber(1)]);
        // CURRENT and its copy are read first, and then the manifest and its copy.
        for nth in 1..=4 {
            let denied = std::io::ErrorKind::PermissionDenied;
            mem.fail_next(FaultOp::Read, nth, denied);
            assert!(matches!(salvage(), Err(Error::Io { .. })), "read {nth}");
            assert_eq!(mem.armed_faults(), 0);
        }
        let salvaged = salvage().unwrap();
        assert!(salvaged.state.is_some() && salvaged.damage.is_none());
    }

    /// Regression: a repair applied an edit that had a good checksum but left an invalid state, and the
    /// new database could not be opened.
    #[test]
    fn an_edit_that_makes_no_sense_of_the_state_is_not_salvaged() {
        let (mem, dir) = (MemDisk::new(), Path::new("/db"));
        mem.create_dir_all(dir).unwrap();
        let [manifest, _] = files::manifests(dir, FileNumber(1));
        mem.create(&files::current(dir))
            .and_then(|mut current| current.append(naming(FileNumber(1)).as_bytes()))
            .unwrap();
        let add = |name: &str| Edit::AddKeyspace { name: name.into() };
        let floor = FileNumber(u64::MAX);
        let snapshots = None;
        let mut bytes = header(crate::manifest::DatabaseId([7; 16]));
        for edit in [
            Edit::State(State::default()),
            add("a"),
            Edit::TrimWal { floor, snapshots },
            add("b"),
        ] {
            bytes.extend_from_slice(&encode(&edit));
        }
        mem.create(&manifest).unwrap().append(&bytes).unwrap();
        let salvaged = salvage_manifest(&mem, dir, &[FileNumber(1)]).unwrap();
        let state = salvaged.state.unwrap();
        assert_eq!(
            (state.check(), &state.keyspaces[..]),
            (Ok(()), &["a".to_string()][..])
        );
        assert!(matches!(salvaged.damage, Some(Error::Corruption { .. })));
    }
}
