//! The parts of an SSTable that are read when it is opened, and checked against each other: footer,
//! top level of the index, properties, range tombstones.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::compression::unseal_into;
use super::damage::Damage;
use super::file_id::FileId;
use super::filter::Filter;
use super::footer::Footer;
use super::handle::BlockHandle;
use super::partition::Partition;
use super::properties::Properties;
use super::read_at::read_at;
use super::stored::{read_block, with_stored};
use super::tombstone_block;
use super::top_level::{PartitionPlace, TopLevel};
use crate::error::{Error, Result};
use crate::file_system::ReadFile;
use crate::key::RangeTombstones;

/// The file number that a table records if it was written outside of a database.
pub(crate) const NO_NUMBER: u64 = 0;

/// The parts of an open table that stay in memory: all but the data blocks and the partitions of
/// filters and indexes.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) footer: Footer,
    pub(super) top: TopLevel,
    pub(super) properties: Properties,
    pub(super) tombstones: Option<Arc<RangeTombstones>>,
}

impl Parts {
    /// Reads and checks the parts of an SSTable that stay in memory while it is open: footer, top
    /// level of the index, properties, range tombstones. The properties must record `file_number`
    /// or [`NO_NUMBER`]. If the footer has the file id `id`, they may record any number. The
    /// returned properties have `file_number` in each case.
    ///
    /// # Errors
    /// The errors of [`SsTable::open`](super::SsTable::open).
    pub(super) fn read(
        file: &dyn ReadFile,
        path: &Path,
        (file_number, id): (u64, Option<FileId>),
    ) -> Result<Self> {
        let file_bytes = file.len().map_err(Error::io("get the length of", path))?;
        let Some(footer_offset) = file_bytes.checked_sub(Footer::BYTES as u64) else {
            return Err(Error::corruption(
                path,
                0,
                format!(
                    "{file_bytes} bytes are too short for an SSTable; its footer alone has {}",
                    Footer::BYTES
                ),
            ));
        };
        let mut footer = [0; Footer::BYTES];
        read_at(file, path, &mut footer, footer_offset)?;
        let footer = Footer::decode(&footer, path, file_bytes)?;

        let read_block = |handle| read_block(file, path, footer.file_id, handle);
        let top = TopLevel::decode(read_block(footer.top)?, footer.partitions)
            .map_err(|damage| damage.at(path, footer.top.offset))?;
        let properties = Properties::decode(&read_block(footer.properties)?)
            .and_then(|mut properties| {
                // One that was written outside of a database takes the number of its name, and
                // so does one that is known by its id.
                if properties.file_number == NO_NUMBER || id == Some(footer.file_id) {
                    properties.file_number = file_number;
                }
                check_properties(properties, file_number, &footer, &top)
            })
            .map_err(|damage| damage.at(path, footer.properties.offset))?;
        let tombstones = read_tombstones(file, path, &footer, &properties)?;
        Ok(Self {
            footer,
            top,
            properties,
            tombstones,
        })
    }

    /// Reads the filter and the index of the partition at `position` of the top level, which are
    /// neighbours in the file, with one read.
    pub(super) fn read_partition(
        &self,
        file: &dyn ReadFile,
        path: &Path,
        position: usize,
    ) -> Result<Partition> {
        let PartitionPlace { filter, index, .. } = self.top.place(position);
        let both = BlockHandle {
            offset: filter.offset,
            len: filter.len + index.len,
        };
        let part = |stored: &[u8], handle: BlockHandle| {
            let start = (handle.offset - both.offset) as usize;
            let stored = &stored[start..start + handle.len as usize];
            // A copy, which has no more memory than it needs.
            let place = self.footer.file_id.at(handle.offset);
            unseal_into(stored, place, Bytes::new())
        };
        with_stored(both, |stored| {
            read_at(file, path, stored, both.offset)?;
            let partition = part(stored, index)
                .and_then(|payload| Partition::decode(payload, &self.top, position))
                .map_err(|damage| damage.at(path, index.offset))?;
            let filter = part(stored, filter)
                .and_then(Filter::decode)
                .map_err(|damage| damage.at(path, filter.offset))?;
            Ok(partition.with_filter(filter))
        })
    }
}

/// Reads the range tombstones; returns `None` if the properties list none.
fn read_tombstones(
    file: &dyn ReadFile,
    path: &Path,
    footer: &Footer,
    properties: &Properties,
) -> Result<Option<Arc<RangeTombstones>>> {
    let Some(listed) = &properties.range_tombstones else {
        return Ok(None);
    };
    let handle = listed.handle();
    let tombstones = tombstone_block::decode(&read_block(file, path, footer.file_id, handle)?)
        .and_then(|tombstones| match tombstones.count() {
            count if count == listed.count => Ok(tombstones),
            count => Err(Damage(format!(
                "{count} range tombstones; the properties say {}",
                listed.count
            ))),
        })
        .map_err(|damage| damage.at(path, handle.offset))?;
    Ok(Some(Arc::new(tombstones)))
}

/// Compares the properties with the footer, with the top level, and with the file number that the
/// caller expects.
fn check_properties(
    properties: Properties,
    file_number: u64,
    footer: &Footer,
    top: &TopLevel,
) -> Result<Properties, Damage> {
    // The block of range tombstones, if any, lies between data and partitions.
    let data_end = match &properties.range_tombstones {
        Some(listed) if listed.handle().end() == Some(footer.partitions.offset) => listed.offset,
        Some(listed) => {
            return Err(Damage(format!(
                "the range tombstones, {listed:?}, do not lie before the partitions"
            )));
        }
        None => footer.partitions.offset,
    };
    let holds_versions = properties.entries > 0;
    if holds_versions == (top.len() == 0)
        || !holds_versions && properties.range_tombstones.is_none()
    {
        return Err(Damage(format!(
            "the properties say {} entries; the index says otherwise",
            properties.entries
        )));
    }
    let facts = [
        ("file number", properties.file_number, file_number),
        (
            "format version",
            properties.format_version.into(),
            footer.version.into(),
        ),
        ("end of the data", properties.data_end, data_end),
        ("end of the data", top.data_end(), data_end),
    ];
    match facts
        .into_iter()
        .find(|(_, found, expected)| found != expected)
    {
        Some((what, found, expected)) => {
            Err(Damage(format!("{what} is {found}, {expected} expected")))
        }
        None => Ok(properties),
    }
}
