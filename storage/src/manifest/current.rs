//! CURRENT and its copy: which manifest is live.
//!
//! CURRENT names a new manifest first, then its copy does, and the old manifest is removed once
//! both names are durable. So a crash, or a rename that fails, may leave CURRENT naming a newer
//! manifest than its copy does. The newer one counts, and no edit follows in either manifest before
//! both name the same one again.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::copies::{Copies, most_telling};
use crate::error::{Error, Result};
use crate::files::{self, FileKind};
use crate::key::FileNumber;
use crate::log_store::{LogStore, read_all};

/// The content of CURRENT and of its copy.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// The manifests that CURRENT and its copy name, newest first, each with the file that names
    /// it.
    named: Vec<(FileNumber, PathBuf)>,
    /// The damage of CURRENT and of its copy.
    damage: Vec<Error>,
    /// Whether one of the two files marks the directory as an incomplete backup or repair.
    pub(super) is_incomplete: bool,
}

/// The live manifest, as CURRENT and its copy name it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) copies: Copies,
    /// The damage of CURRENT and of its copy, including that one of them names a missing manifest.
    pub(super) damage: Vec<Error>,
    /// Whether both CURRENT and its copy name the live manifest.
    pub(super) is_named_twice: bool,
    /// The number of the newest manifest that CURRENT or its copy names, even if that manifest is
    /// missing. A new manifest must get a larger number: if it got this one, a crash could leave
    /// CURRENT naming a half-written manifest.
    pub(super) newest_named: FileNumber,
}

impl Current {
    /// Returns whether a directory has CURRENT or its copy. Then it has a database, or the incomplete copy of
    /// one that an interrupted backup or repair left.
    pub(super) fn exists(log_store: &dyn LogStore, dir: &Path) -> Result<bool> {
        any_exists(log_store, &files::currents(dir))
    }

    /// Reads CURRENT and its copy. Notes a file that is damaged, missing or unreadable in the result.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read for another cause: a lack of descriptors, memory or
    /// permission, or a directory that was moved.
    pub(super) fn read(log_store: &dyn LogStore, dir: &Path) -> Result<Self> {
        let mut current = Self::default();
        for path in files::currents(dir) {
            match read_all(log_store, &path) {
                Ok(content) if content == files::INCOMPLETE => current.is_incomplete = true,
                Ok(content) => match named_in(&content) {
                    Some(number) => current.named.push((number, path)),
                    None => {
                        let detail = "it does not name a manifest";
                        current.damage.push(Error::corruption(&path, 0, detail));
                    }
                },
                Err(error) if error.is_of_file() => current.damage.push(error),
                Err(error) => return Err(error),
            }
        }
        current.named.sort_by_key(|(number, _)| Reverse(*number));
        Ok(current)
    }

    /// Returns whether neither CURRENT nor its copy names a manifest.
    pub(super) fn names_nothing(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns the paths of the copies of all manifests that CURRENT and its copy name, those of
    /// the newest manifest first.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if an interrupted backup or repair left the directory; the damage of
    /// CURRENT or of its copy ([`Error::Corruption`] or [`Error::Io`]) if neither names a manifest.
    pub(super) fn manifests(self, dir: &Path) -> Result<Vec<PathBuf>> {
        let named = self.check(dir)?.named.into_iter();
        Ok(named
            .flat_map(|(number, _)| files::manifests(dir, number))
            .collect())
    }

    /// Reads the live manifest. CURRENT and its copy may name two different manifests; the newest of
    /// which a copy exists is live.
    ///
    /// # Errors
    /// As [`Self::manifests`] and [`Copies::read`]; [`Error::Corruption`] if no named manifest exists.
    pub(super) fn live(self, log_store: &dyn LogStore, dir: &Path) -> Result<Live> {
        let Self {
            named, mut damage, ..
        } = self.check(dir)?;
        let newest_named = named[0].0;
        let (mut live, mut missing) = (None::<Copies>, Vec::new());
        for (number, path) in &named {
            if live.as_ref().is_some_and(|live| live.number == *number) {
                continue;
            }
            let copies = Copies::read(log_store, dir, *number)?;
            if !copies.exist() {
                // No crash removes a manifest that either file names.
                let name = files::manifest_name(*number);
                let detail = format!("it names {name}, which is missing");
                let error = Error::corruption(path, 0, detail);
                missing.push(error.clone());
                damage.push(error);
            } else if live.is_none() {
                live = Some(copies);
            }
        }
        let Some(copies) = live else {
            return Err(most_telling(missing));
        };
        let by = named.iter().filter(|(number, _)| *number == copies.number);
        Ok(Live {
            is_named_twice: by.count() == 2,
            copies,
            damage,
            newest_named,
        })
    }

    /// Returns everything that is wrong with CURRENT and its copy, given that the database uses the
    /// manifest `in_use`. With `is_exact`, both have to name this manifest. Otherwise one of them may
    /// name an older manifest that still exists: a crash can leave this state.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be found out whether a file exists.
    pub(super) fn damage_beside(
        self,
        log_store: &dyn LogStore,
        dir: &Path,
        in_use: FileNumber,
        is_exact: bool,
    ) -> Result<Vec<Error>> {
        let Self {
            named,
            mut damage,
            is_incomplete,
        } = self;
        if is_incomplete {
            let live = files::manifest_name(in_use);
            let detail = format!("it marks an interrupted backup or repair, and {live} is in use");
            damage.push(Error::corruption(&files::current(dir), 0, detail));
        }
        let is_exact = is_exact || named.iter().all(|(number, _)| *number != in_use);
        for (number, path) in named {
            let may_be_older = !is_exact && number < in_use;
            let copies = files::manifests(dir, number);
            if number == in_use || (may_be_older && any_exists(log_store, &copies)?) {
                continue;
            }
            let [found, live] = [number, in_use].map(files::manifest_name);
            let detail = format!("it names {found}, and {live} is in use");
            damage.push(Error::corruption(&path, 0, detail));
        }
        Ok(damage)
    }

    fn check(self, dir: &Path) -> Result<Self> {
        if self.is_incomplete {
            return Err(Error::Incomplete {
                path: dir.to_path_buf(),
            });
        }
        if self.names_nothing() {
            return Err(most_telling(self.damage));
        }
        Ok(self)
    }
}

fn any_exists(log_store: &dyn LogStore, paths: &[PathBuf; 2]) -> Result<bool> {
    for path in paths {
        let found = log_store.exists(path);
        if found.map_err(Error::io("look for", path))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the content of CURRENT that names the manifest with this number.
pub(super) fn naming(number: FileNumber) -> String {
    files::manifest_name(number) + "\n"
}

/// Returns the manifest that the content of CURRENT names; `None` unless the content is exactly
/// what [`naming`] returns for this manifest.
fn named_in(content: &[u8]) -> Option<FileNumber> {
    let name = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
    match FileKind::of(Path::new(name)) {
        Some(FileKind::Manifest(number)) if naming(number).as_bytes() == content => Some(number),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::file_system::FileSystem;
    use crate::simulation::MemDisk;

    /// Regression: if CURRENT named a missing manifest, the error was only that of opening the missing
    /// file. It did not name CURRENT, and had no advice.
    #[test]
    fn a_missing_manifest_is_damage_that_names_it() {
        let (mem, dir) = (MemDisk::new(), Path::new("/db"));
        mem.create_dir_all(dir).unwrap();
        for path in files::currents(dir) {
            let mut file = mem.create(&path).unwrap();
            file.append(naming(FileNumber(6)).as_bytes()).unwrap();
        }
        match Current::read(&mem, dir).unwrap().live(&mem, dir) {
            Err(Error::Corruption { path, detail, .. }) => {
                assert_eq!(path, files::current(dir));
                assert_eq!(detail, "it names MANIFEST-000006, which is missing");
            }
            found => panic!("{found:?}"),
        }
    }

    #[test]
    fn the_newest_manifest_that_is_there_counts() {
        let dir = Path::new("/db");
        for (named, there, live, damaged) in [
            ([6, 6], &[6][..], 6, 0),
            // A crash came between the two renames.
            ([7, 6], &[6, 7][..], 7, 0),
            // One bit of a name is wrong.
            ([7, 6], &[6][..], 6, 1),
            ([4, 6], &[6][..], 6, 1),
        ] {
            let mem = MemDisk::new();
            mem.create_dir_all(dir).unwrap();
            let write = |path: &Path, content: &str| {
                let mut file = mem.create(path).unwrap();
                file.append(content.as_bytes()).unwrap();
            };
            for (path, number) in files::currents(dir).iter().zip(named) {
                write(path, &naming(FileNumber(number)));
            }
            for &number in there {
                write(&files::manifests(dir, FileNumber(number))[0], "");
            }
            let found = Current::read(&mem, dir).unwrap().live(&mem, dir).unwrap();
            let number = found.copies.number.0;
            assert_eq!((number, found.damage.len()), (live, damaged), "{named:?}");
            assert_eq!(Some(found.newest_named.0), named.into_iter().max());
            assert_eq!(found.is_named_twice, named[0] == named[1]);
        }
    }

    /// Regression: a truncated CURRENT named an older manifest, because the name had lost its last
    /// digits.
    #[test]
    fn a_truncated_name_of_a_manifest_is_none() {
        let content = naming(FileNumber(123_456));
        assert_eq!(named_in(content.as_bytes()), Some(FileNumber(123_456)));
        for len in 0..content.len() {
            assert_eq!(named_in(&content.as_bytes()[..len]), None, "{len}");
        }
        for foreign in [
            "MANIFEST-1\n",
            "MANIFEST-+123456\n",
            "MANIFEST-0123456\n",
            "MANIFEST-123456.copy\n",
            "../MANIFEST-123456\n",
            "MANIFEST-123456\n\n",
            "wal-000001.log\n",
        ] {
            assert_eq!(named_in(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
