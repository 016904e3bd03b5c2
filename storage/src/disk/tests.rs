//! The contract of [`Disk`], checked on the real and on the simulated disk: a database tested
//! on the second must behave alike on the first.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Disk, LocalDisk};
use crate::file_system::{FileSystem, copy};
use crate::simulation::MemDisk;

/// Runs one check (`claim`) on both implementations of [`Disk`], each in an empty directory.
fn on_both(claim: impl Fn(&dyn Disk, &Path)) {
    let temp = tempfile::tempdir().unwrap();
    claim(&LocalDisk::default(), temp.path());

    let mem = MemDisk::new();
    let dir = Path::new("/db");
    mem.create_dir_all(dir).unwrap();
    claim(&mem, dir);
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let mut file = disk.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn read(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open_read(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

#[test]
fn appended_bytes_are_read_back_at_any_offset() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        let mut writer = disk.create(&path).unwrap();
        let reader = disk.open_read(&path).unwrap();
        assert!(reader.is_empty().unwrap());
        writer.append(b"hello ").unwrap();
        writer.append(b"world").unwrap();
        writer.syncer().unwrap().sync().unwrap();

        let mut buf = [0; 5];
        reader.read_exact_at(&mut buf, 6).unwrap();
        assert_eq!(&buf, b"world");
        assert_eq!(reader.len().unwrap(), 11);
        let failed = reader.read_exact_at(&mut buf, 7);
        assert_eq!(kind(failed), ErrorKind::UnexpectedEof);
        let failed = reader.read_exact_at(&mut buf, u64::from(u32::MAX));
        assert_eq!(kind(failed), ErrorKind::UnexpectedEof);
        reader.read_exact_at(&mut [], 11).unwrap();
    });
}

#[test]
fn create_truncates_the_file_that_is_there() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        write(disk, &path, b"old and long");
        write(disk, &path, b"new");
        assert_eq!(read(disk, &path), b"new");
    });
}

#[test]
fn truncate_cuts_and_the_writer_goes_on_at_the_new_end() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        let mut writer = disk.create(&path).unwrap();
        writer.append(b"abcdef").unwrap();
        disk.truncate(&path, 3).unwrap();
        writer.append(b"X").unwrap();
        assert_eq!(read(disk, &path), b"abcX");
        disk.truncate(&path, 6).unwrap();
        assert_eq!(read(disk, &path), b"abcX\0\0");
    });
}

#[test]
fn rename_replaces_the_target_and_open_readers_keep_the_old_file() {
    on_both(|disk, dir| {
        let (from, to) = (dir.join("tmp"), dir.join("CURRENT"));
        write(disk, &to, b"old");
        write(disk, &from, b"new");
        let old = disk.open_read(&to).unwrap();
        disk.rename(&from, &to).unwrap();
        disk.rename(&to, &to).unwrap();

        assert_eq!(read(disk, &to), b"new");
        assert!(!disk.exists(&from).unwrap());
        let mut buf = [0; 3];
        old.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"old");
    });
}

#[test]
fn a_link_shares_the_bytes_and_outlives_the_first_name() {
    on_both(|disk, dir| {
        let (first, second) = (dir.join("a"), dir.join("sub/b"));
        disk.create_dir_all(&dir.join("sub")).unwrap();
        write(disk, &first, b"abc");
        disk.link(&first, &second).unwrap();
        assert_eq!(read(disk, &second), b"abc");
        assert_eq!(kind(disk.link(&first, &second)), ErrorKind::AlreadyExists);
        let failed = disk.link(&dir.join("none"), &dir.join("c"));
        assert_eq!(kind(failed), ErrorKind::NotFound);
        let failed = disk.link(&first, &dir.join("no/c"));
        assert_eq!(kind(failed), ErrorKind::NotFound);

        // One file under both names, also for a rename of one to the other.
        disk.rename(&first, &second).unwrap();
        assert!(disk.exists(&first).unwrap());
        disk.remove(&first).unwrap();
        assert_eq!(read(disk, &second), b"abc");
        write(disk, &first, b"new");
        assert_eq!(read(disk, &second), b"abc");
    });
}

#[test]
fn a_directory_is_removed_once_it_is_empty() {
    on_both(|disk, dir| {
        let (sub, file) = (dir.join("sub"), dir.join("sub/a"));
        disk.create_dir_all(&sub).unwrap();
        write(disk, &file, b"");
        assert_eq!(kind(disk.remove_dir(&sub)), ErrorKind::DirectoryNotEmpty);
        disk.remove(&file).unwrap();
        disk.remove_dir(&sub).unwrap();
        assert!(!disk.exists(&sub).unwrap());
        assert_eq!(kind(disk.remove_dir(&sub)), ErrorKind::NotFound);
    });
}

#[test]
fn a_copy_has_the_requested_bytes_and_shares_none() {
    on_both(|disk, dir| {
        let (from, to) = (dir.join("a"), dir.join("b"));
        let bytes: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
        write(disk, &from, &bytes);
        for len in [0, 1, (1 << 20) + 1, bytes.len()] {
            copy(disk, &from, &to, len as u64).unwrap();
            assert!(read(disk, &to) == bytes[..len], "{len}");
        }
        disk.truncate(&to, 2).unwrap();
        assert!(read(disk, &from) == bytes);
        let too_long = bytes.len() as u64 + 1;
        let failed = copy(disk, &from, &to, too_long);
        assert_eq!(kind(failed), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn removed_file_stays_readable_through_its_open_handle() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        write(disk, &path, b"abc");
        let reader = disk.open_read(&path).unwrap();
        disk.remove(&path).unwrap();
        disk.sync_dir(dir).unwrap();
        write(disk, &path, b"xyz");

        let mut buf = [0; 3];
        reader.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"abc");
    });
}

#[test]
fn list_names_files_and_directories_one_level_deep() {
    on_both(|disk, dir| {
        disk.create_dir_all(&dir.join("sst/old")).unwrap();
        disk.create_dir_all(&dir.join("sst/old")).unwrap();
        write(disk, &dir.join("wal"), b"");
        write(disk, &dir.join("sst/1"), b"");

        let sorted = |dir: &Path| -> Vec<PathBuf> {
            let mut paths = disk.list(dir).unwrap();
            paths.sort();
            paths
        };
        assert_eq!(sorted(dir), [dir.join("sst"), dir.join("wal")]);
        assert_eq!(
            sorted(&dir.join("sst")),
            [dir.join("sst/1"), dir.join("sst/old")]
        );
        assert!(disk.exists(&dir.join("sst/old")).unwrap());
    });
}

#[test]
fn second_lock_would_block_until_the_first_guard_drops() {
    on_both(|disk, dir| {
        let path = dir.join("LOCK");
        let guard = disk.lock(&path).unwrap();
        assert!(disk.exists(&path).unwrap());
        assert_eq!(kind(disk.lock(&path)), ErrorKind::WouldBlock);
        drop(guard);
        disk.lock(&path).unwrap();
    });
}

/// Regression: once the lock file of an open database was removed, a second process opened the
/// database for writing, and both wrote files with the same numbers.
#[test]
fn a_lock_is_held_though_its_file_is_removed() {
    on_both(|disk, dir| {
        let path = dir.join("LOCK");
        let writer = disk.lock(&path).unwrap();
        disk.remove(&path).unwrap();
        assert_eq!(kind(disk.lock_shared(&path)), ErrorKind::WouldBlock);
        // The first one creates the file again.
        for _ in 0..2 {
            assert_eq!(kind(disk.lock(&path)), ErrorKind::WouldBlock);
        }
        assert_eq!(kind(disk.lock_shared(&path)), ErrorKind::WouldBlock);
        drop(writer);

        let reader = disk.lock_shared(&path).unwrap();
        disk.remove(&path).unwrap();
        assert_eq!(kind(disk.lock(&path)), ErrorKind::WouldBlock);
        drop(disk.lock_shared(&path).unwrap());
        drop(reader);
        drop(disk.lock(&path).unwrap());
    });
}

#[test]
fn missing_paths_return_not_found() {
    on_both(|disk, dir| {
        let (no_file, no_dir) = (dir.join("none"), dir.join("none/a"));
        assert_eq!(kind(disk.open_read(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(disk.create(&no_dir)), ErrorKind::NotFound);
        assert_eq!(kind(disk.truncate(&no_file, 0)), ErrorKind::NotFound);
        assert_eq!(kind(disk.rename(&no_file, dir)), ErrorKind::NotFound);
        assert_eq!(kind(disk.remove(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(disk.list(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(disk.sync_dir(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(disk.lock(&no_dir)), ErrorKind::NotFound);
        assert!(!disk.exists(&no_dir).unwrap());
    });
}

#[test]
fn a_file_is_no_directory() {
    on_both(|disk, dir| {
        let path = dir.join("a");
        write(disk, &path, b"");
        let inside = path.join("b");
        assert_eq!(kind(disk.create(&inside)), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.list(&path)), ErrorKind::NotADirectory);
        assert!(disk.create_dir_all(&inside).is_err());
        assert!(disk.create_dir_all(&path).is_err());
    });
}
