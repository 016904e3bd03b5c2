//! The handles of the simulated disk: open files and held locks.

use std::io;
use std::path::PathBuf;

use super::MemDisk;
use super::machine::Boot;
use super::names::Inode;
use crate::file_system::{ReadFile, SyncFile, WriteFile};
use crate::log_store::LockGuard;

/// A handle of an open file. Every way of opening a file returns this type, each as a trait object
/// that permits only the operations of that way.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) disk: MemDisk,
    pub(super) boot: Boot,
    pub(super) inode: Inode,
}

impl ReadFile for OpenFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut machine = self.disk.call();
        machine.read(self.boot, self.inode, buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.call().len(self.boot, self.inode)
    }
}

impl WriteFile for OpenFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.call().append(self.boot, self.inode, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.call().sync(self.boot, self.inode)
    }

    fn syncer(&self) -> io::Result<Box<dyn SyncFile>> {
        self.disk.call().reopen(self.boot, self.inode)?;
        Ok(Box::new(OpenFile {
            disk: self.disk.clone(),
            ..*self
        }))
    }
}

impl SyncFile for OpenFile {
    fn sync(&self) -> io::Result<()> {
        self.disk.call().sync(self.boot, self.inode)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.disk.machine().close(self.boot, self.inode);
    }
}

#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) disk: MemDisk,
    pub(super) boot: Boot,
    pub(super) path: PathBuf,
}

impl LockGuard for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.machine().unlock(self.boot, &self.path);
    }
}
