//! What every [`Vfs`] promises, checked on the real disk and on the simulated
//! one: a database tested on the second must behave alike on the first.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{DiskVfs, MemVfs, Vfs, copy};

/// Runs one claim on both implementations, each in an empty directory.
fn on_both(claim: impl Fn(&dyn Vfs, &Path)) {
    let temp = tempfile::tempdir().unwrap();
    claim(&DiskVfs, temp.path());

    let mem = MemVfs::new();
    let dir = Path::new("/db");
    mem.create_dir_all(dir).unwrap();
    claim(&mem, dir);
}

fn write(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) {
    let mut file = vfs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn read(vfs: &dyn Vfs, path: &Path) -> Vec<u8> {
    let file = vfs.open_read(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

#[test]
fn appended_bytes_are_read_back_at_any_offset() {
    on_both(|vfs, dir| {
        let path = dir.join("a");
        let mut writer = vfs.create(&path).unwrap();
        let reader = vfs.open_read(&path).unwrap();
        assert!(reader.is_empty().unwrap());
        writer.append(b"hello ").unwrap();
        writer.append(b"world").unwrap();
        writer.syncer().unwrap().sync().unwrap();

        let mut buf = [0; 5];
        reader.read_exact_at(&mut buf, 6).unwrap();
        assert_eq!(&buf, b"world");
        assert_eq!(reader.len().unwrap(), 11);
        assert_eq!(
            kind(reader.read_exact_at(&mut buf, 7)),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(
            kind(reader.read_exact_at(&mut buf, u64::from(u32::MAX))),
            ErrorKind::UnexpectedEof
        );
        reader.read_exact_at(&mut [], 11).unwrap();
    });
}

#[test]
fn create_truncates_the_file_that_is_there() {
    on_both(|vfs, dir| {
        let path = dir.join("a");
        write(vfs, &path, b"old and long");
        write(vfs, &path, b"new");
        assert_eq!(read(vfs, &path), b"new");
    });
}

#[test]
fn truncate_cuts_and_the_writer_goes_on_at_the_new_end() {
    on_both(|vfs, dir| {
        let path = dir.join("a");
        let mut writer = vfs.create(&path).unwrap();
        writer.append(b"abcdef").unwrap();
        vfs.truncate(&path, 3).unwrap();
        writer.append(b"X").unwrap();
        assert_eq!(read(vfs, &path), b"abcX");
        vfs.truncate(&path, 6).unwrap();
        assert_eq!(read(vfs, &path), b"abcX\0\0");
    });
}

#[test]
fn rename_replaces_the_target_and_open_readers_keep_the_old_file() {
    on_both(|vfs, dir| {
        let (from, to) = (dir.join("tmp"), dir.join("CURRENT"));
        write(vfs, &to, b"old");
        write(vfs, &from, b"new");
        let old = vfs.open_read(&to).unwrap();
        vfs.rename(&from, &to).unwrap();
        vfs.rename(&to, &to).unwrap();

        assert_eq!(read(vfs, &to), b"new");
        assert!(!vfs.exists(&from).unwrap());
        let mut buf = [0; 3];
        old.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"old");
    });
}

#[test]
fn a_link_shares_the_bytes_and_outlives_the_first_name() {
    on_both(|vfs, dir| {
        let (first, second) = (dir.join("a"), dir.join("sub/b"));
        vfs.create_dir_all(&dir.join("sub")).unwrap();
        write(vfs, &first, b"abc");
        vfs.link(&first, &second).unwrap();
        assert_eq!(read(vfs, &second), b"abc");
        assert_eq!(kind(vfs.link(&first, &second)), ErrorKind::AlreadyExists);
        assert_eq!(
            kind(vfs.link(&dir.join("none"), &dir.join("c"))),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(vfs.link(&first, &dir.join("no/c"))),
            ErrorKind::NotFound
        );

        // One file under both names, also for a rename of one to the other.
        vfs.rename(&first, &second).unwrap();
        assert!(vfs.exists(&first).unwrap());
        vfs.remove(&first).unwrap();
        assert_eq!(read(vfs, &second), b"abc");
        write(vfs, &first, b"new");
        assert_eq!(read(vfs, &second), b"abc");
    });
}

#[test]
fn a_copy_has_the_bytes_asked_for_and_shares_none() {
    on_both(|vfs, dir| {
        let (from, to) = (dir.join("a"), dir.join("b"));
        let bytes: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
        write(vfs, &from, &bytes);
        for len in [0, 1, (1 << 20) + 1, bytes.len()] {
            copy(vfs, &from, &to, len as u64).unwrap();
            assert!(read(vfs, &to) == bytes[..len], "{len}");
        }
        vfs.truncate(&to, 2).unwrap();
        assert!(read(vfs, &from) == bytes);
        let too_long = bytes.len() as u64 + 1;
        assert_eq!(
            kind(copy(vfs, &from, &to, too_long)),
            ErrorKind::UnexpectedEof
        );
    });
}

#[test]
fn removed_file_stays_readable_through_its_open_handle() {
    on_both(|vfs, dir| {
        let path = dir.join("a");
        write(vfs, &path, b"abc");
        let reader = vfs.open_read(&path).unwrap();
        vfs.remove(&path).unwrap();
        vfs.sync_dir(dir).unwrap();
        write(vfs, &path, b"xyz");

        let mut buf = [0; 3];
        reader.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"abc");
    });
}

#[test]
fn list_names_files_and_directories_one_level_deep() {
    on_both(|vfs, dir| {
        vfs.create_dir_all(&dir.join("sst/old")).unwrap();
        vfs.create_dir_all(&dir.join("sst/old")).unwrap();
        write(vfs, &dir.join("wal"), b"");
        write(vfs, &dir.join("sst/1"), b"");

        let sorted = |dir: &Path| -> Vec<PathBuf> {
            let mut paths = vfs.list(dir).unwrap();
            paths.sort();
            paths
        };
        assert_eq!(sorted(dir), [dir.join("sst"), dir.join("wal")]);
        assert_eq!(
            sorted(&dir.join("sst")),
            [dir.join("sst/1"), dir.join("sst/old")]
        );
        assert!(vfs.exists(&dir.join("sst/old")).unwrap());
    });
}

#[test]
fn second_lock_would_block_until_the_first_guard_drops() {
    on_both(|vfs, dir| {
        let path = dir.join("LOCK");
        let guard = vfs.lock(&path).unwrap();
        assert!(vfs.exists(&path).unwrap());
        assert_eq!(kind(vfs.lock(&path)), ErrorKind::WouldBlock);
        drop(guard);
        vfs.lock(&path).unwrap();
    });
}

#[test]
fn what_is_missing_is_not_found() {
    on_both(|vfs, dir| {
        let (no_file, no_dir) = (dir.join("none"), dir.join("none/a"));
        assert_eq!(kind(vfs.open_read(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.create(&no_dir)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.truncate(&no_file, 0)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.rename(&no_file, dir)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.remove(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.list(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.sync_dir(&no_file)), ErrorKind::NotFound);
        assert_eq!(kind(vfs.lock(&no_dir)), ErrorKind::NotFound);
        assert!(!vfs.exists(&no_dir).unwrap());
    });
}

#[test]
fn a_file_is_no_directory() {
    on_both(|vfs, dir| {
        let path = dir.join("a");
        write(vfs, &path, b"");
        let inside = path.join("b");
        assert_eq!(kind(vfs.create(&inside)), ErrorKind::NotADirectory);
        assert_eq!(kind(vfs.list(&path)), ErrorKind::NotADirectory);
        assert!(vfs.create_dir_all(&inside).is_err());
        assert!(vfs.create_dir_all(&path).is_err());
    });
}
