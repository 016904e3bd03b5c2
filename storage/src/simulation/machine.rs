//! The machine around the simulated disk: its power, its call counter, the faults to inject,
//! its open files and locks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::FaultOp;
use super::file::MemFile;
use super::names::{Inode, Names, absolute};
use super::rng::SplitMix64;

/// The state that all clones of a `MemDisk` share.
pub(super) struct Machine {
    names: Names,
    files: BTreeMap<Inode, Slot>,
    next_inode: u64,
    locks: BTreeMap<PathBuf, LockMode>,

    pub(super) has_power: bool,
    pub(super) boot: Boot,
    pub(super) io_calls: u64,
    /// The call at which the power fails, counted down; 1 is the next one.
    pub(super) calls_until_crash: Option<u64>,
    pub(super) faults: Vec<Fault>,
    pub(super) capacity_bytes: Option<u64>,
    /// The event that runs before each I/O call; `None` if there is none, and while it runs.
    pub(super) event: Option<Event>,
    rng: SplitMix64,
    slow: Option<Slow>,
}

pub(super) type Event = Box<dyn FnMut() + Send>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockMode {
    Exclusive,
    /// The directory or file is locked by this many handles, which share the lock.
    Shared(usize),
}

/// The random delays of the calls to a slow disk. A delay is the number of times that the calling
/// thread yields to other threads before it goes on.
struct Slow {
    turns_max: usize,
    rng: SplitMix64,
}

/// The number of a start of the machine. A handle has the number of the start after which it was
/// opened; after a restart its calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boot(u64);

/// A file, and the references that keep its bytes: its name and its open handles.
#[derive(Default)]
struct Slot {
    file: MemFile,
    /// True if the file has a name in the directory as running programs see it.
    is_named: bool,
    handles: usize,
}

pub(super) struct Fault {
    op: FaultOp,
    calls_left: u64,
    kind: io::ErrorKind,
}

/// The outcome of one call to the simulated disk.
enum Verdict {
    Passes,
    PowerFails,
    Fails(io::Error),
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            names: Names::new(),
            files: BTreeMap::new(),
            next_inode: 0,
            locks: BTreeMap::new(),
            has_power: true,
            boot: Boot(0),
            io_calls: 0,
            calls_until_crash: None,
            faults: Vec::new(),
            capacity_bytes: None,
            event: None,
            rng: SplitMix64::new(0),
            slow: None,
        }
    }

    /// Creates another machine with the same files, all of them durable.
    pub(super) fn fork(&self) -> Self {
        let mut fork = Self::new();
        fork.names = self.names.settled();
        fork.next_inode = self.next_inode;
        for (inode, slot) in &self.files {
            if slot.is_named {
                let slot = Slot {
                    file: slot.file.settled(),
                    is_named: true,
                    handles: 0,
                };
                fork.files.insert(*inode, slot);
            }
        }
        fork
    }

    pub(super) fn set_slow(&mut self, turns_max: u32, seed: u64) {
        self.slow = (turns_max > 0).then(|| Slow {
            turns_max: turns_max as usize,
            rng: SplitMix64::new(seed),
        });
    }

    /// Draws how often the calling thread yields to other threads before its next call: 0 unless
    /// the disk is slow.
    pub(super) fn turns(&mut self) -> usize {
        let slow = self.slow.as_mut();
        slow.map_or(0, |slow| slow.rng.between(0, slow.turns_max))
    }

    pub(super) fn fail_next(&mut self, op: FaultOp, nth: u64, kind: io::ErrorKind) {
        self.faults.push(Fault {
            op,
            calls_left: nth,
            kind,
        });
    }

    /// Returns the number of free bytes on the disk; `None` if the disk has no limit.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let free = |capacity: u64| capacity.saturating_sub(self.used_bytes());
        self.capacity_bytes.map(free)
    }

    /// Returns the bytes of the files that have a name or are held open.
    pub(super) fn used_bytes(&self) -> u64 {
        let in_use = |slot: &&Slot| slot.is_named || slot.handles > 0;
        let slots = self.files.values().filter(in_use);
        slots.map(|slot| slot.file.bytes().len() as u64).sum()
    }

    pub(super) fn restart(&mut self, seed: u64) {
        self.rng = SplitMix64::new(seed);
        self.names.lose_power(&mut self.rng);
        let reachable = self.names.reachable();
        for (inode, slot) in std::mem::take(&mut self.files) {
            if reachable.contains(&inode) {
                let slot = Slot {
                    file: slot.file.after_power_loss(&mut self.rng),
                    is_named: true,
                    handles: 0,
                };
                self.files.insert(inode, slot);
            }
        }
        self.locks.clear();
        self.calls_until_crash = None;
        self.faults.clear();
        self.boot.0 += 1;
        self.has_power = true;
    }

    // Calls of the disk traits. Each begins by asking `verdict`.

    pub(super) fn open(&mut self, path: &Path) -> io::Result<Inode> {
        self.call(self.boot, None, |machine| {
            let inode = machine.names.file(&absolute(path))?;
            machine.slot(inode).handles += 1;
            Ok(inode)
        })
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<Inode> {
        self.call(self.boot, Some(FaultOp::Create), |machine| {
            let path = absolute(path);
            let inode = match machine.names.file(&path) {
                Ok(inode) => {
                    machine.slot(inode).file.cut_unsynced(0);
                    inode
                }
                Err(error) => machine.create_missing(path, error)?,
            };
            machine.slot(inode).handles += 1;
            Ok(inode)
        })
    }

    /// Creates the file at `path`, whose lookup failed with the error `lookup`. Fails if that error
    /// is another one than `NotFound`, or if the directory is missing.
    fn create_missing(&mut self, path: PathBuf, lookup: io::Error) -> io::Result<Inode> {
        if lookup.kind() != io::ErrorKind::NotFound {
            return Err(lookup);
        }
        self.names.check_dir(path.parent().unwrap_or(&path))?;
        let inode = Inode(self.next_inode);
        self.next_inode += 1;
        let slot = Slot {
            is_named: true,
            ..Slot::default()
        };
        self.files.insert(inode, slot);
        self.names.link(path, inode);
        Ok(inode)
    }

    pub(super) fn truncate(&mut self, path: &Path, len: u64) -> io::Result<()> {
        match self.verdict(self.boot, Some(FaultOp::Truncate))? {
            Verdict::Passes => {
                let len = to_len(len)?;
                self.file_at(path)?.cut(len);
                Ok(())
            }
            Verdict::PowerFails => {
                if let (Ok(len), Ok(file)) = (to_len(len), self.file_at(path)) {
                    file.cut_unsynced(len);
                }
                Err(power_loss())
            }
            Verdict::Fails(error) => Err(error),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(self.boot, Some(FaultOp::Rename), |machine| {
            let replaced = machine.names.rename(absolute(from), absolute(to))?;
            if let Some(replaced) = replaced {
                machine.slot(replaced).is_named = machine.names.has_name(replaced);
            }
            Ok(())
        })
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(self.boot, Some(FaultOp::Link), |machine| {
            let inode = machine.names.file(&absolute(from))?;
            machine.names.link_again(absolute(to), inode)
        })
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.call(self.boot, Some(FaultOp::Remove), |machine| {
            let inode = machine.names.unlink(absolute(path))?;
            machine.slot(inode).is_named = machine.names.has_name(inode);
            Ok(())
        })
    }

    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.call(self.boot, None, |machine| {
            machine.names.remove_dir(&absolute(dir))?;
            machine.forget_unreachable();
            Ok(())
        })
    }

    pub(super) fn list(&mut self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.call(self.boot, None, |machine| {
            let names = machine.names.list(&absolute(dir))?;
            Ok(names.into_iter().map(|name| dir.join(name)).collect())
        })
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        let dir = absolute(dir);
        match self.verdict(self.boot, None)? {
            Verdict::Passes => self.names.create_dir_all(&dir),
            Verdict::PowerFails => {
                self.names.half_create_dir_all(&dir);
                Err(power_loss())
            }
            Verdict::Fails(error) => Err(error),
        }
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        match self.verdict(self.boot, Some(FaultOp::SyncDir))? {
            Verdict::Passes => {
                self.names.sync_dir(&absolute(dir))?;
                self.forget_unreachable();
                Ok(())
            }
            // How far it came is drawn at the restart, as without the call.
            Verdict::PowerFails => Err(power_loss()),
            Verdict::Fails(error) => Err(error),
        }
    }

    pub(super) fn exists(&mut self, path: &Path) -> io::Result<bool> {
        self.call(self.boot, None, |machine| {
            Ok(machine.names.exists(&absolute(path)))
        })
    }

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<PathBuf> {
        self.call(self.boot, None, |machine| {
            let path = absolute(path);
            if let Err(error) = machine.names.file(&path) {
                machine.create_missing(path.clone(), error)?;
            }
            if machine.locks.contains_key(&path) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            machine.locks.insert(path.clone(), LockMode::Exclusive);
            Ok(path)
        })
    }

    /// Takes a shared lock on a file that exists, or that was removed while another handle holds
    /// its lock. Returns the absolute path, for the unlock.
    ///
    /// # Errors
    /// `WouldBlock` if the lock is held exclusively; `NotFound` if there is no such file.
    pub(super) fn lock_shared(&mut self, path: &Path) -> io::Result<PathBuf> {
        self.call(self.boot, None, |machine| {
            let path = absolute(path);
            if !machine.locks.contains_key(&path) {
                machine.names.file(&path)?;
            }
            match machine
                .locks
                .entry(path.clone())
                .or_insert(LockMode::Shared(0))
            {
                LockMode::Exclusive => Err(io::ErrorKind::WouldBlock.into()),
                LockMode::Shared(readers) => {
                    *readers += 1;
                    Ok(path)
                }
            }
        })
    }

    // Calls through an open file.

    pub(super) fn read(
        &mut self,
        boot: Boot,
        inode: Inode,
        buf: &mut [u8],
        offset: u64,
    ) -> io::Result<()> {
        self.call(boot, Some(FaultOp::Read), |machine| {
            machine.slot(inode).file.read_exact_at(buf, offset)
        })
    }

    pub(super) fn len(&mut self, boot: Boot, inode: Inode) -> io::Result<u64> {
        self.call(boot, None, |machine| {
            Ok(machine.slot(inode).file.bytes().len() as u64)
        })
    }

    pub(super) fn append(&mut self, boot: Boot, inode: Inode, bytes: &[u8]) -> io::Result<()> {
        let verdict = self.verdict(boot, Some(FaultOp::Append))?;
        let room_bytes = self.free_bytes().unwrap_or(u64::MAX);
        let mut written = bytes.len().min(to_len(room_bytes).unwrap_or(usize::MAX));
        if let Verdict::Fails(_) = verdict {
            written = self.rng.between(0, written);
        }
        self.slot(inode).file.append(&bytes[..written]);
        match verdict {
            Verdict::Passes if written < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            Verdict::Passes => Ok(()),
            Verdict::PowerFails => Err(power_loss()),
            Verdict::Fails(error) => Err(error),
        }
    }

    pub(super) fn sync(&mut self, boot: Boot, inode: Inode) -> io::Result<()> {
        let verdict = self.verdict(boot, Some(FaultOp::Sync))?;
        let file = &mut self.slot(inode).file;
        match verdict {
            Verdict::Passes => {
                file.sync();
                Ok(())
            }
            // How far it came is drawn at the restart, as without the call.
            Verdict::PowerFails => Err(power_loss()),
            Verdict::Fails(error) => {
                file.fail_sync();
                Err(error)
            }
        }
    }

    /// Opens a second handle on an open file.
    pub(super) fn reopen(&mut self, boot: Boot, inode: Inode) -> io::Result<()> {
        self.call(boot, None, |machine| {
            machine.slot(inode).handles += 1;
            Ok(())
        })
    }

    pub(super) fn close(&mut self, boot: Boot, inode: Inode) {
        if boot == self.boot {
            let slot = self.slot(inode);
            slot.handles -= 1;
            if slot.handles == 0 && !slot.is_named {
                self.forget_unreachable();
            }
        }
    }

    pub(super) fn unlock(&mut self, boot: Boot, path: &Path) {
        if boot != self.boot {
            return;
        }
        match self.locks.get_mut(path) {
            Some(LockMode::Shared(readers)) if *readers > 1 => *readers -= 1,
            _ => drop(self.locks.remove(path)),
        }
    }

    /// Returns the file at a path, for those methods of `MemDisk` that do not count as I/O calls.
    pub(super) fn file_at(&mut self, path: &Path) -> io::Result<&mut MemFile> {
        let inode = self.names.file(&absolute(path))?;
        Ok(&mut self.slot(inode).file)
    }

    /// Carries out a call that syncs nothing. If the power fails in the call, its effect may or may
    /// not be there after the restart: it is applied here as not durable, and the restart draws at
    /// random whether it survives.
    fn call<T>(
        &mut self,
        boot: Boot,
        op: Option<FaultOp>,
        effect: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.verdict(boot, op)? {
            Verdict::Passes => effect(self),
            Verdict::PowerFails => {
                // The power fails either way, so a failure of the effect is never reported.
                let _ = effect(self);
                Err(power_loss())
            }
            Verdict::Fails(error) => Err(error),
        }
    }

    /// Counts a call to the disk, and decides whether it succeeds, fails or meets the power loss.
    /// Calls without power, or by handles of an earlier boot, always fail.
    fn verdict(&mut self, boot: Boot, op: Option<FaultOp>) -> io::Result<Verdict> {
        if !self.has_power || boot != self.boot {
            return Err(power_loss());
        }
        self.io_calls += 1;
        if let Some(calls) = &mut self.calls_until_crash {
            *calls -= 1;
            if *calls == 0 {
                self.has_power = false;
                return Ok(Verdict::PowerFails);
            }
        }
        // Every armed fault of the kind counts this call; of several that come
        // due at it, the first armed names the error.
        let mut due = None;
        self.faults.retain_mut(|fault| {
            if fault.op != FaultOp::Any && op != Some(fault.op) {
                return true;
            }
            fault.calls_left -= 1;
            if fault.calls_left == 0 {
                due.get_or_insert(fault.kind);
            }
            fault.calls_left > 0
        });
        Ok(match due {
            Some(kind) => Verdict::Fails(io::Error::new(kind, "injected fault")),
            None => Verdict::Passes,
        })
    }

    fn slot(&mut self, inode: Inode) -> &mut Slot {
        self.files
            .get_mut(&inode)
            .expect("a file stays while a name or a handle refers to it")
    }

    fn forget_unreachable(&mut self) {
        let reachable = self.names.reachable();
        self.files
            .retain(|inode, slot| slot.handles > 0 || reachable.contains(inode));
    }
}

fn power_loss() -> io::Error {
    io::Error::other("simulated power loss")
}

/// Converts a length in bytes to `usize`; `FileTooLarge` if it does not fit.
pub(super) fn to_len(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge.into())
}
