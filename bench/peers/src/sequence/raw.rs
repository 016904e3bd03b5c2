//! The upper bound for a scan of ebb: a loop that reads, checks and decompresses its SSTables from
//! front to back, and does not parse their entries.
//!
//! Implements version 4 of the format (in the book, Formats: SSTable) with the libraries that ebb
//! uses. It parses only indexes, to find the ends of blocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

const FOOTER_BYTES: usize = 64;
const FORMAT_VERSION: u32 = 4;
const MAGIC: &[u8] = b"ebbSSTbl";
/// The length of a block's type and checksum, which follow its payload.
const TRAILER_BYTES: usize = 5;
const TYPE_NONE: u8 = 0;
const TYPE_LZ4: u8 = 1;
/// The length of the field before LZ4 data that holds the uncompressed length.
const LENGTH_BYTES: usize = 4;

/// The SSTables of ebb at one instant. The hard links keep the files when a later merge deletes
/// them.
pub(super) struct Files {
    /// The directory of the links.
    dir: TempDir,
}

/// The results of one pass over the files.
pub(super) struct Pass {
    pub(super) seconds: f64,
    /// Total length of all data blocks after decompression.
    pub(super) bytes: u64,
}

impl Files {
    /// Links the SSTables of the database in `dir`. The links lie beside `dir`, on the same file
    /// system.
    pub(super) fn link(dir: &Path) -> Result<Self> {
        let beside = dir.parent().context("a database in the root")?;
        let links = TempDir::new_in(beside)?;
        for path in tables_in(dir)? {
            let name = path.file_name().expect("it was listed");
            fs::hard_link(&path, links.path().join(name))
                .with_context(|| format!("cannot link {}", path.display()))?;
        }
        Ok(Self { dir: links })
    }

    /// Reads all files twice, and measures the second pass: the first one fills the page cache.
    pub(super) fn pass(&self) -> Result<Pass> {
        let tables = tables_in(self.dir.path())?;
        ensure!(!tables.is_empty(), "no SSTable to read");
        read_tables(&tables)?;
        let started = Instant::now();
        let bytes = read_tables(&tables)?;
        Ok(Pass {
            seconds: started.elapsed().as_secs_f64(),
            bytes,
        })
    }
}

fn tables_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            tables.push(path);
        }
    }
    Ok(tables)
}

/// Reads the tables, and returns the total length of all data blocks after decompression.
fn read_tables(tables: &[PathBuf]) -> Result<u64> {
    let (mut file, mut payload) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for path in tables {
        bytes += read_table(path, &mut file, &mut payload)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(bytes)
}

fn read_table(path: &Path, file: &mut Vec<u8>, payload: &mut Vec<u8>) -> Result<u64> {
    file.clear();
    std::io::Read::read_to_end(&mut fs::File::open(path)?, file)?;
    let footer = file.len().checked_sub(FOOTER_BYTES).context("too short")?;
    let (body, footer) = file.split_at(footer);
    ensure!(footer.ends_with(MAGIC), "no SSTable");
    let version = u32_at(footer, 48)?;
    ensure!(version == FORMAT_VERSION, "format version {version}");
    // The index lies behind the filter. The footer starts with the filter's offset and length.
    let offset = u64_at(footer, 0)?.checked_add(u64_at(footer, 8)?);
    let (offset, len) = (offset.context("a filter too long")?, u64_at(footer, 16)?);
    let id = slice(footer, 32, 16)?;
    let mut index = Vec::new();
    unseal(slice(body, offset, len)?, (id, offset), &mut index)?;
    let mut bytes = 0;
    for (offset, len) in blocks(&index)? {
        unseal(slice(body, offset, len)?, (id, offset), payload)?;
        bytes += payload.len() as u64;
    }
    Ok(bytes)
}

/// Checks the block at an offset of the file with an id, and decompresses it into `payload`.
fn unseal(stored: &[u8], (id, offset): (&[u8], u64), payload: &mut Vec<u8>) -> Result<()> {
    let len = stored
        .len()
        .checked_sub(TRAILER_BYTES)
        .context("a block too short")?;
    let checked = &stored[..=len];
    let mut crc = crc32fast::Hasher::new();
    crc.update(id);
    crc.update(&offset.to_le_bytes());
    crc.update(checked);
    ensure!(
        u32_at(stored, len + 1)? == crc.finalize(),
        "a block that is damaged"
    );
    match stored[len] {
        TYPE_NONE => {
            payload.clear();
            payload.extend_from_slice(&stored[..len]);
        }
        TYPE_LZ4 => {
            payload.resize(u32_at(stored, 0)? as usize, 0);
            let written = lz4_flex::block::decompress_into(&stored[LENGTH_BYTES..len], payload)?;
            ensure!(written == payload.len(), "a block that is cut");
        }
        unknown => bail!("a block of type {unknown}"),
    }
    Ok(())
}

/// Returns the offset and the length of each data block. Every entry of an index is a restart
/// point, so it has its whole key.
fn blocks(index: &[u8]) -> Result<Vec<(u64, u64)>> {
    let count = u32_at(index, index.len() - 4)? as usize;
    let mut at = 0;
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let [_shared, key_len, _value_len] = [(); 3].map(|()| varint(index, &mut at));
        // Skips the byte with the kind of the entry.
        at += 1;
        let _seq = varint(index, &mut at)?;
        at += key_len? as usize;
        blocks.push((varint(index, &mut at)?, varint(index, &mut at)?));
    }
    Ok(blocks)
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at).context("an index that is cut")?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    bail!("a varint without an end")
}

fn slice(bytes: &[u8], offset: u64, len: u64) -> Result<&[u8]> {
    let (offset, len) = (offset as usize, len as usize);
    let end = offset.checked_add(len).context("a block too long")?;
    bytes
        .get(offset..end)
        .context("a block outside of the file")
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let bytes = bytes
        .get(at..at + 4)
        .context("four bytes that are not there")?;
    Ok(u32::from_le_bytes(bytes.try_into()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    let bytes = bytes
        .get(at..at + 8)
        .context("eight bytes that are not there")?;
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Durability, EngineName, Settings};
    use ebb_bench::ycsb::{Stamp, key, write_value};

    #[test]
    fn linked_files_are_read_after_the_database_deleted_them() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            dir: dir.path().join("db"),
            durability: Durability::Os,
            cache_bytes: 1 << 20,
            memtable_bytes: 1 << 20,
            holds_snapshots: false,
        };
        let engine = EngineName::Ebb.open(&settings).unwrap();
        let mut value = Vec::new();
        for number in 0..1000 {
            write_value(&mut value, Stamp { number, version: 0 }, 1024);
            engine.put(&key(number), &value).unwrap();
        }
        engine.settle().unwrap();
        drop(engine);
        let files = Files::link(&settings.dir).unwrap();
        // Removes the tables from the database's directory, as a merge would.
        fs::remove_dir_all(&settings.dir).unwrap();
        let bytes = files.pass().unwrap().bytes;
        let user_bytes = 1000 * (24 + 1024);
        assert!(
            (user_bytes..user_bytes * 21 / 20).contains(&bytes),
            "{bytes}"
        );

        let tables = tables_in(files.dir.path()).unwrap();
        let mut damaged = fs::read(&tables[0]).unwrap();
        damaged[100] ^= 1;
        fs::write(&tables[0], damaged).unwrap();
        assert!(read_tables(&tables[..1]).is_err());
    }
}
