//! The decoders of SSTables and their parts for [`crate::fuzzing`].

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::block::Block;
use super::block_cursor::BlockCursor;
use super::cache::BlockCache;
use super::compression::{TRAILER_BYTES, unseal};
use super::damage::Damage;
use super::file_id::{BlockPlace, FileId, HEADER_BYTES};
use super::filter::{Filter, key_hash};
use super::footer::Footer;
use super::handle::BlockHandle;
use super::partition::Partition;
use super::properties::Properties;
use super::reader::{ReadCounters, SsTable};
use super::table_cursor::SsTableCursor;
use super::tombstone_block;
use super::top_level::TopLevel;
use crate::file_system::FileSystem;
use crate::key::{Cursor, KeyRange, SeqNo};
use crate::simulation::MemDisk;
use crate::{ErrorKind, Result};

const NUMBER: u64 = 7;

/// Decodes a block's payload, walks it from both ends, and looks every entry up.
pub fn block(bytes: &[u8]) {
    if let Ok(block) = Block::new(Bytes::copy_from_slice(bytes)) {
        let _ = walk_block(block, bytes.len());
    }
}

fn walk_block(block: Block, bytes: usize) -> Result<(), Damage> {
    let (mut cursor, mut other) = (BlockCursor::new(block.clone()), BlockCursor::new(block));
    let mut steps = 0;
    let mut step = || {
        steps += 1;
        assert!(steps <= 2 * bytes, "an entry takes no bytes");
    };
    cursor.seek_to_first()?;
    while cursor.valid() {
        step();
        let (key, seq) = (cursor.key().to_vec(), cursor.seq());
        drop(cursor.value());
        // In a damaged block the order may be wrong, so anything may be found.
        let _ = other.seek(&key, seq);
        let _ = other.seek_before(&key, seq);
        cursor.next()?;
    }
    cursor.seek_to_last()?;
    while cursor.valid() {
        step();
        cursor.prev()?;
    }
    cursor.seek(b"", SeqNo::MAX)?;
    cursor.seek_before(&[0xff; 8], SeqNo::ZERO)
}

/// Decodes the bytes as a stored block: once as they are, and once with a corrected checksum.
pub fn stored_block(bytes: &[u8]) {
    let place = FileId([0; FileId::BYTES]).at(0);
    let _ = unseal(Bytes::copy_from_slice(bytes), place);
    let mut bytes = bytes.to_vec();
    reseal_block(&mut bytes, place);
    if let Ok(payload) = unseal(bytes.into(), place) {
        block(&payload);
    }
}

/// Decodes a filter's payload. A look-up in a decoded filter must not panic, whatever the hash.
pub fn filter(bytes: &[u8]) {
    if let Ok(filter) = Filter::decode(Bytes::copy_from_slice(bytes)) {
        for hash in [0, 1, u64::MAX, key_hash(bytes), key_hash(b"key")] {
            filter.may_contain(hash);
        }
    }
}

/// Decodes a footer, as it is and with its checksum made right. A decoded footer must encode to the
/// same bytes.
pub fn footer(bytes: &[u8]) {
    let mut repaired = bytes.to_vec();
    reseal_footer(&mut repaired);
    for bytes in [bytes, &repaired] {
        let Some(last) = bytes.last_chunk::<{ Footer::BYTES }>() else {
            return;
        };
        // The length is what the parts come to, or nothing could fit.
        let number = |i: usize| u64::from_le_bytes(*last[8 * i..].first_chunk().expect("8 bytes"));
        let lengths = [number(1), number(2), number(3), Footer::BYTES as u64];
        let end = lengths.into_iter().try_fold(number(0), u64::checked_add);
        for len in [end.unwrap_or(u64::MAX), bytes.len() as u64] {
            if let Ok(footer) = Footer::decode(last, Path::new("t"), len) {
                assert_eq!(&footer.encode(), last);
                assert_eq!(footer.file_bytes(), len);
            }
        }
    }
}

/// Decodes a payload of range tombstones. Decoded tombstones must be the same after encoding and
/// decoding again.
pub fn tombstone_block(bytes: &[u8]) {
    if let Ok(tombstones) = tombstone_block::decode(&Bytes::copy_from_slice(bytes)) {
        let back = tombstone_block::decode(&tombstone_block::encode(&tombstones).into());
        assert_eq!(back.expect("what is written reads"), tombstones);
    }
}

/// Decodes a payload of properties. Decoded properties must be the same after encoding and decoding
/// again.
pub fn properties(bytes: &[u8]) {
    if let Ok(properties) = Properties::decode(&Bytes::copy_from_slice(bytes)) {
        let back = Properties::decode(&properties.encode().into());
        assert_eq!(back.expect("what is written reads"), properties);
    }
}

/// Opens a whole file, as it is and with its checksums made right, verifies it, scans it from both
/// ends, and looks up the first 64 versions. If verification finds no error, both scans must return
/// the same versions, and the look-ups must find theirs. Every error must be `Corruption`.
pub fn sstable(bytes: &[u8]) {
    let mut repaired = bytes.to_vec();
    reseal(&mut repaired);
    for bytes in [bytes, &repaired] {
        if let Err(e) = read(bytes) {
            assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        }
    }
}

type Scanned = Vec<(Vec<u8>, SeqNo)>;

fn read(bytes: &[u8]) -> Result<()> {
    let (disk, path) = (MemDisk::new(), Path::new("/t.sst"));
    let mut file = disk.create(path).expect("there is room");
    file.append(bytes).expect("there is room");
    let table = SsTable::open(&disk, path, NUMBER, Arc::new(BlockCache::new(0)))?;
    let verified = table.verify().is_ok();
    for in_detail in [false, true] {
        let _ = table.pieces(&KeyRange::all(), in_detail).len();
    }
    let mut cursor = table.cursor(false);
    cursor.seek_to_first()?;
    let ascending = scan(&mut cursor, bytes.len(), SsTableCursor::next);
    cursor.seek_to_last()?;
    let descending = scan(&mut cursor, bytes.len(), SsTableCursor::prev);
    if let (true, Ok(ascending), Ok(mut descending)) = (verified, &ascending, descending) {
        descending.reverse();
        assert_eq!(ascending, &descending, "both ways of a table that verifies");
    } else {
        assert!(!verified, "a table that verifies reads");
    }
    for (key, seq) in ascending?.into_iter().take(64) {
        let mut newest = None;
        let mut reads = ReadCounters::default();
        let found = table.versions(&key, key_hash(&key), seq, &mut reads, |version| {
            newest.get_or_insert(version.seq);
            false
        });
        let _ = cursor.seek_before(&key, seq);
        if verified {
            found?;
            assert_eq!(newest, Some(seq), "a key of a table that verifies is found");
        }
    }
    Ok(())
}

fn scan(
    cursor: &mut SsTableCursor,
    bytes: usize,
    step: fn(&mut SsTableCursor) -> Result<()>,
) -> Result<Scanned> {
    let mut scanned = Vec::new();
    while cursor.valid() {
        // LZ4 makes at most 255 bytes of one, and an entry has six at least; an
        // index may name one block many times.
        assert!(
            scanned.len() <= 255 * bytes * bytes.max(1),
            "the scan does not end"
        );
        scanned.push((cursor.key().to_vec(), cursor.seq()));
        step(cursor)?;
    }
    Ok(scanned)
}

/// Finds the checksums in the bytes of a file, as far as its damage permits, and corrects them.
pub(crate) fn reseal(bytes: &mut [u8]) {
    reseal_footer(bytes);
    let Some(last) = bytes.last_chunk::<{ Footer::BYTES }>() else {
        return;
    };
    let Ok(footer) = Footer::decode(last, Path::new("t"), bytes.len() as u64) else {
        return;
    };
    let id = footer.file_id;
    for handle in [footer.top, footer.properties] {
        reseal_at(bytes, id, handle);
    }
    if let Some(handle) = tombstone_handle(bytes, &footer) {
        reseal_at(bytes, id, handle);
    }
    let payload = payload_at(bytes, &footer, footer.top);
    if let Ok(top) = payload.and_then(|top| TopLevel::decode(top, footer.partitions)) {
        for (position, place) in top.places().enumerate() {
            reseal_at(bytes, id, place.filter);
            reseal_at(bytes, id, place.index);
            let handles = partition_at(bytes, &footer, &top, position);
            for handle in handles.unwrap_or_default() {
                reseal_at(bytes, id, handle);
            }
        }
    }
    if let Some(header) = bytes.get_mut(..HEADER_BYTES) {
        header.copy_from_slice(&id.header());
    }
}

/// Returns the payload of a stored block of the file.
///
/// # Errors
/// `Damage` if the block does not lie in the file, or cannot be unpacked.
fn payload_at(bytes: &[u8], footer: &Footer, handle: BlockHandle) -> Result<Bytes, Damage> {
    let range = usize::try_from(handle.offset).ok().zip(handle.end());
    let stored = range
        .and_then(|(start, end)| bytes.get(start..usize::try_from(end).ok()?))
        .ok_or_else(|| Damage("it does not lie in the file".into()))?;
    unseal(
        Bytes::copy_from_slice(stored),
        footer.file_id.at(handle.offset),
    )
}

fn tombstone_handle(bytes: &[u8], footer: &Footer) -> Option<BlockHandle> {
    let payload = payload_at(bytes, footer, footer.properties).ok()?;
    let tombstones = Properties::decode(&payload).ok()?.range_tombstones?;
    Some(tombstones.handle())
}

/// Reads the partition of the index at `position` of the top level, and returns the handles of its
/// data blocks.
fn partition_at(
    bytes: &[u8],
    footer: &Footer,
    top: &TopLevel,
    position: usize,
) -> Result<Vec<BlockHandle>, Damage> {
    let payload = payload_at(bytes, footer, top.place(position).index)?;
    let partition = Partition::decode(payload, top, position)?;
    let entries = partition.index.entries();
    Ok(entries.map(|entry| entry.handle).collect())
}

fn reseal_at(bytes: &mut [u8], id: FileId, handle: BlockHandle) {
    let range = usize::try_from(handle.offset).ok().zip(handle.end());
    let range = range.and_then(|(start, end)| bytes.get_mut(start..usize::try_from(end).ok()?));
    if let Some(stored) = range {
        reseal_block(stored, id.at(handle.offset));
    }
}

fn reseal_block(stored: &mut [u8], place: BlockPlace) {
    if stored.len() >= TRAILER_BYTES {
        let (checked, crc) = stored.split_at_mut(stored.len() - 4);
        crc.copy_from_slice(&place.checksum(checked).to_le_bytes());
    }
}

fn reseal_footer(bytes: &mut [u8]) {
    if let Some(footer) = bytes.last_chunk_mut::<{ Footer::BYTES }>() {
        let (checked, rest) = footer.split_at_mut(Footer::BYTES - 12);
        rest[..4].copy_from_slice(&crc32fast::hash(checked).to_le_bytes());
    }
}

/// Returns small whole tables with several layouts, each with the name of the layout.
#[cfg(test)]
pub(crate) fn tables() -> Vec<(&'static str, Vec<u8>)> {
    use super::options::SsTableOptions;
    use super::writer::SsTableWriter;
    use crate::Compression;
    use crate::key::Kind;

    // So small that the twelve keys below take many blocks.
    let small = SsTableOptions {
        block_bytes: 64,
        restart_interval: 2,
        filter_bits_per_key: 10,
        filter_prefix: None,
        compression: Compression::None,
        bottom_compression: None,
    };
    let forms = [
        ("plain", small.clone()),
        // Into partitions of one block each.
        ("parted", small.clone()),
        (
            "unfiltered",
            SsTableOptions {
                filter_bits_per_key: 0,
                ..small.clone()
            },
        ),
        (
            "lz4",
            SsTableOptions {
                // Larger: a block that compression hardly makes smaller is stored as it is.
                block_bytes: 512,
                compression: Compression::Lz4,
                ..small
            },
        ),
        ("default", SsTableOptions::default()),
    ];
    let table = |name: &str, options: SsTableOptions| {
        let (disk, path) = (MemDisk::new(), Path::new("/t.sst"));
        let mut writer = SsTableWriter::create(&disk, path, (NUMBER, 1), options).unwrap();
        // The saved corpora are these very bytes.
        writer.set_id(FileId([7; FileId::BYTES]));
        if name == "parted" {
            writer.set_partition_bytes(1);
        }
        for key in 0..12_u64 {
            let name = format!("key-{key:03}");
            // One to three versions, newest first; some are tombstones.
            for seq in (1..=key % 3 + 1).rev().map(|n| SeqNo(10 * key + n)) {
                let (kind, value) = match seq.0 % 4 {
                    3 => (Kind::Delete, String::new()),
                    _ => (Kind::Put, format!("value of {seq} ").repeat(3)),
                };
                writer
                    .add(name.as_bytes(), seq, kind, value.as_bytes())
                    .unwrap();
            }
        }
        writer.finish().unwrap();
        disk.read_all(path).unwrap()
    };
    forms
        .map(|(name, options)| (name, table(name, options)))
        .to_vec()
}

/// Returns parts of a whole table, each with the name of the fuzz target that decodes it.
#[cfg(test)]
pub(crate) fn parts(table: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let last = table.last_chunk().unwrap();
    let footer = Footer::decode(last, Path::new("t"), table.len() as u64).unwrap();
    let stored = |handle: BlockHandle| {
        let stored = &table[handle.offset as usize..][..handle.len as usize];
        Bytes::copy_from_slice(stored)
    };
    let payload = |handle| payload_at(table, &footer, handle).unwrap().to_vec();
    let top = TopLevel::decode(payload(footer.top).into(), footer.partitions).unwrap();
    let first = partition_at(table, &footer, &top, 0).unwrap()[0];
    vec![
        ("footer", last.to_vec()),
        ("filter", payload(top.place(0).filter)),
        ("properties", payload(footer.properties)),
        ("block", payload(first)),
        ("stored_block", stored(first).to_vec()),
    ]
}

/// Regression: the restart points of data blocks were verified, but not those of the index. A table
/// whose index had a misplaced restart point passed, and could not be read backwards. Now the table
/// does not open, or the partition cannot be read.
#[cfg(test)]
#[test]
fn a_misplaced_restart_point_of_the_index_is_damage() {
    let (_, good) = tables().remove(0);
    let last = good.last_chunk().unwrap();
    let footer = Footer::decode(last, Path::new("t"), good.len() as u64).unwrap();
    let top = TopLevel::decode(
        payload_at(&good, &footer, footer.top).unwrap(),
        footer.partitions,
    );
    let index = top.unwrap().place(0).index;
    for level in [footer.top, index] {
        let mut bytes = good.clone();
        // The last restart offset stands before the number of them and the trailer.
        bytes[level.end().unwrap() as usize - TRAILER_BYTES - 8] ^= 1;
        reseal(&mut bytes);
        let (disk, path) = (MemDisk::new(), Path::new("/t.sst"));
        disk.create(path).unwrap().append(&bytes).unwrap();
        let opened = SsTable::open(&disk, path, NUMBER, Arc::new(BlockCache::new(0)));
        let found = opened.and_then(|table| {
            assert_eq!(level, index, "it opened");
            let mut cursor = table.cursor(false);
            assert!(cursor.seek_to_last().is_err(), "it reads backwards");
            table.verify()
        });
        assert!(
            matches!(found, Err(crate::Error::Corruption { .. })),
            "{found:?}"
        );
    }
}

/// Returns the payload of a real table's range tombstones; `None` if it has none.
#[cfg(test)]
pub(crate) fn tombstones(table: &[u8]) -> Option<Vec<u8>> {
    let last = table.last_chunk().unwrap();
    let footer = Footer::decode(last, Path::new("t"), table.len() as u64).unwrap();
    let handle = tombstone_handle(table, &footer)?;
    Some(payload_at(table, &footer, handle).unwrap().to_vec())
}
