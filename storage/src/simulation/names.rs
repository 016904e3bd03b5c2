//! The directory tree of the simulated disk, and the journal its changes go
//! through.
//!
//! Every change of a name takes effect at once for running programs and joins
//! the journal; `sync_dir` commits the part of the journal that concerns a
//! directory. A power loss commits a random prefix of each directory's part.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::rng::SplitMix64;

/// Identity of a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inode(pub(super) u64);

/// The directories and file names of the simulated disk, as programs see them and as a power loss
/// leaves them. Paths given to it are absolute, see [`absolute`].
pub(super) struct Names {
    dirs: BTreeSet<PathBuf>,
    /// The directories whose creation by `create_dir_all` the power loss interrupted, outermost
    /// first. The restart draws how many of them exist.
    half_created_dirs: Vec<PathBuf>,
    /// The names that programs see now, each with its file.
    seen: BTreeMap<PathBuf, Inode>,
    /// The names, each with its file, that a power loss would leave if it undid the whole journal.
    durable: BTreeMap<PathBuf, Inode>,
    /// The changes of names that a power loss may still undo, oldest first: applied to `durable`,
    /// they give `seen`.
    journal: Vec<NameOp>,
}

/// One change of the directory tree that a power loss undoes as a whole or not at all.
enum NameOp {
    Link {
        path: PathBuf,
        inode: Inode,
    },
    Unlink {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        inode: Inode,
    },
}

impl Names {
    /// Creates a tree that has only the root directory.
    pub(super) fn new() -> Self {
        Self {
            dirs: BTreeSet::from([PathBuf::from("/")]),
            half_created_dirs: Vec::new(),
            seen: BTreeMap::new(),
            durable: BTreeMap::new(),
            journal: Vec::new(),
        }
    }

    /// Returns a copy with the names that programs see now, all of them durable.
    pub(super) fn settled(&self) -> Self {
        Self {
            dirs: self.dirs.clone(),
            half_created_dirs: Vec::new(),
            seen: self.seen.clone(),
            durable: self.seen.clone(),
            journal: Vec::new(),
        }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<Inode> {
        if self.dirs.contains(path) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        match self.seen.get(path) {
            Some(&inode) => Ok(inode),
            None => {
                self.check_dir(parent(path))?;
                Err(io::ErrorKind::NotFound.into())
            }
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.dirs.contains(path) || self.seen.contains_key(path)
    }

    pub(super) fn check_dir(&self, dir: &Path) -> io::Result<()> {
        if self.dirs.contains(dir) {
            Ok(())
        } else if dir.ancestors().any(|path| self.seen.contains_key(path)) {
            Err(io::ErrorKind::NotADirectory.into())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Returns the last components of the paths of the files and directories in `dir`.
    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.check_dir(dir)?;
        let paths = self.dirs.iter().chain(self.seen.keys());
        Ok(paths
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name().map(PathBuf::from))
            .collect())
    }

    /// Creates the directory, and those of its parents that are missing, durably.
    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        let missing = self.missing_dirs(dir)?;
        self.dirs.extend(missing);
        Ok(())
    }

    /// Removes an empty directory, durably.
    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        if !self.list(dir)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.sync_dir(dir)?;
        self.dirs.remove(dir);
        Ok(())
    }

    /// Makes the next loss of power leave a random number of the directories on the path `dir` that
    /// do not exist yet, as if it interrupted their creation.
    pub(super) fn half_create_dir_all(&mut self, dir: &Path) {
        self.half_created_dirs = self.missing_dirs(dir).unwrap_or_default();
    }

    /// Returns those of `dir` and its parents that do not exist, outermost first.
    fn missing_dirs(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing: Vec<PathBuf> = dir
            .ancestors()
            .take_while(|ancestor| !self.dirs.contains(*ancestor))
            .map(Path::to_path_buf)
            .collect();
        missing.reverse();
        if missing.iter().any(|path| self.seen.contains_key(path)) {
            Err(io::ErrorKind::NotADirectory.into())
        } else {
            Ok(missing)
        }
    }

    /// Gives a file a name, which must be free.
    pub(super) fn link(&mut self, path: PathBuf, inode: Inode) {
        self.log(NameOp::Link { path, inode });
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; `NotFound` if the directory of the name is missing;
    /// `NotADirectory` if that directory is a file.
    pub(super) fn link_again(&mut self, path: PathBuf, inode: Inode) -> io::Result<()> {
        self.check_dir(parent(&path))?;
        if self.exists(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.link(path, inode);
        Ok(())
    }

    /// Returns whether the file has a name that running programs see.
    pub(super) fn has_name(&self, inode: Inode) -> bool {
        self.seen.values().any(|&named| named == inode)
    }

    /// Removes a name, and returns the file that had it.
    pub(super) fn unlink(&mut self, path: PathBuf) -> io::Result<Inode> {
        let inode = self.file(&path)?;
        self.log(NameOp::Unlink { path });
        Ok(inode)
    }

    /// Renames a file. Returns the file that had the new name before; `None` if no other file had
    /// it.
    pub(super) fn rename(&mut self, from: PathBuf, to: PathBuf) -> io::Result<Option<Inode>> {
        if self.dirs.contains(&from) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the simulated disk renames files only",
            ));
        }
        let inode = self.file(&from)?;
        let replaced = match self.file(&to) {
            Ok(replaced) => Some(replaced),
            Err(error) => {
                self.check_dir(parent(&to))?;
                if error.kind() != io::ErrorKind::NotFound {
                    return Err(error);
                }
                None
            }
        };
        if replaced == Some(inode) {
            return Ok(None);
        }
        self.log(NameOp::Rename { from, to, inode });
        Ok(replaced)
    }

    fn log(&mut self, op: NameOp) {
        op.apply(&mut self.seen);
        self.journal.push(op);
    }

    /// Commits the changes of one directory. A rename between directories is one transaction, so
    /// committing it also commits all earlier changes of the other directory.
    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.check_dir(dir)?;
        let mut synced = BTreeSet::from([dir.to_path_buf()]);
        let mut commit = vec![false; self.journal.len()];
        for (commit, op) in commit.iter_mut().zip(&self.journal).rev() {
            if op.dirs().any(|dir| synced.contains(dir)) {
                *commit = true;
                synced.extend(op.dirs().map(Path::to_path_buf));
            }
        }
        for (commit, op) in commit.into_iter().zip(std::mem::take(&mut self.journal)) {
            if commit {
                op.apply(&mut self.durable)
            } else {
                self.journal.push(op)
            }
        }
        Ok(())
    }

    /// Undoes the changes that are not durable. Of the changes of each directory, a random number
    /// of the oldest ones survives.
    pub(super) fn lose_power(&mut self, rng: &mut SplitMix64) {
        let mut left: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for dir in self.journal.iter().flat_map(NameOp::dirs) {
            *left.entry(dir.to_path_buf()).or_default() += 1;
        }
        for changes in left.values_mut() {
            *changes = rng.between(0, *changes);
        }
        for op in std::mem::take(&mut self.journal) {
            let survives = op.dirs().all(|dir| left[dir] > 0);
            for dir in op.dirs() {
                let changes = left.get_mut(dir).expect("counted above");
                *changes = if survives { *changes - 1 } else { 0 };
            }
            if survives {
                op.apply(&mut self.durable);
            }
        }
        self.seen = self.durable.clone();

        let half_created = std::mem::take(&mut self.half_created_dirs);
        let created = rng.between(0, half_created.len());
        self.dirs.extend(half_created.into_iter().take(created));
    }

    /// Returns every file that has a name, or may have one after a power loss.
    pub(super) fn reachable(&self) -> BTreeSet<Inode> {
        let journaled = self.journal.iter().filter_map(|op| match op {
            NameOp::Link { inode, .. } | NameOp::Rename { inode, .. } => Some(inode),
            NameOp::Unlink { .. } => None,
        });
        let named = self.seen.values().chain(self.durable.values());
        named.chain(journaled).copied().collect()
    }
}

impl NameOp {
    fn apply(&self, files: &mut BTreeMap<PathBuf, Inode>) {
        match self {
            NameOp::Link { path, inode } => {
                files.insert(path.clone(), *inode);
            }
            NameOp::Unlink { path } => {
                files.remove(path);
            }
            NameOp::Rename { from, to, inode } => {
                files.remove(from);
                files.insert(to.clone(), *inode);
            }
        }
    }

    /// Returns the one or two directories that the change affects, each once.
    fn dirs(&self) -> impl Iterator<Item = &Path> {
        let (first, second) = match self {
            NameOp::Link { path, .. } | NameOp::Unlink { path } => (parent(path), None),
            NameOp::Rename { from, to, .. } => (parent(from), Some(parent(to))),
        };
        std::iter::once(first).chain(second.filter(move |second| *second != first))
    }
}

/// Returns the absolute form of a path. A relative path starts at the root.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => {
                absolute.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    absolute
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
