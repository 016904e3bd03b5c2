//! The range tombstones of a run, or of a part of a merge, as one stored block of one of its files.
//!
//! ```text
//!   fragment ...
//!
//!   fragment = varint start_len | start
//!            | bounded u8 (0 or 1) [| varint end_len | end]
//!            | varint count | varint newest seq | varint difference ...
//! ```
//!
//! See the book, Formats: SSTable.

use bytes::Bytes;

use super::damage::Damage;
use crate::key::{Fragment, KeyRange, RangeTombstones, SeqNo};
use crate::varint;

/// Returns the payload that [`decode`] reads.
pub(super) fn encode(tombstones: &RangeTombstones) -> Vec<u8> {
    let mut out = Vec::new();
    let put_key = |out: &mut Vec<u8>, key: &[u8]| {
        varint::put(out, key.len() as u64);
        out.extend_from_slice(key);
    };
    for fragment in tombstones.fragments() {
        put_key(&mut out, &fragment.range.start);
        out.push(u8::from(fragment.range.end.is_some()));
        if let Some(end) = &fragment.range.end {
            put_key(&mut out, end);
        }
        varint::put(&mut out, fragment.seqs.len() as u64);
        varint::put(&mut out, fragment.seqs[0].0);
        for pair in fragment.seqs.windows(2) {
            varint::put(&mut out, pair[0].0 - pair[1].0);
        }
    }
    out
}

/// Reads a payload, and checks that the fragments ascend and do not overlap, and that the sequence
/// numbers of each fragment descend.
pub(super) fn decode(payload: &Bytes) -> Result<RangeTombstones, Damage> {
    let mut reader = Reader { payload, at: 0 };
    let mut fragments: Vec<Fragment> = Vec::new();
    while reader.at < payload.len() {
        let start = reader.at;
        let fragment = reader.fragment().filter(|fragment| {
            let before = fragments.last().map(|before| before.range.end.as_ref());
            before.is_none_or(|end| end.is_some_and(|end| *end <= fragment.range.start))
        });
        let damage = || {
            Damage(format!(
                "the range tombstone at byte {start} of its block is none"
            ))
        };
        fragments.push(fragment.ok_or_else(damage)?);
    }
    Ok(RangeTombstones::from_fragments(fragments))
}

struct Reader<'a> {
    payload: &'a Bytes,
    at: usize,
}

impl Reader<'_> {
    fn fragment(&mut self) -> Option<Fragment> {
        let start = self.key()?;
        let bounded = *self.payload.get(self.at)?;
        self.at += 1;
        let end = match bounded {
            0 => None,
            1 => Some(self.key()?),
            _ => return None,
        };
        let range = KeyRange { start, end };
        let count = self.varint()?;
        let mut seq = self.varint()?;
        let mut seqs = vec![SeqNo(seq)];
        // Each takes a byte at least, so a count that lies ends with the payload.
        for _ in 1..count {
            let difference = self.varint().filter(|&difference| difference > 0)?;
            seq = seq.checked_sub(difference)?;
            seqs.push(SeqNo(seq));
        }
        (count > 0 && !range.is_empty()).then_some(Fragment { range, seqs })
    }

    fn varint(&mut self) -> Option<u64> {
        varint::get(self.payload, &mut self.at)
    }

    fn key(&mut self) -> Option<Bytes> {
        let len = usize::try_from(self.varint()?).ok()?;
        let end = self.at.checked_add(len)?;
        // A copy, so that a small key does not keep a large block.
        let key = Bytes::copy_from_slice(self.payload.get(self.at..end)?);
        self.at = end;
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RangeTombstone;

    fn tombstones() -> RangeTombstones {
        let ranges = [
            (&b"a"[..], Some(&b"m"[..]), 300),
            (b"f", None, 7),
            (b"f", Some(b"t"), 9),
        ];
        let tombstone = |(start, end, seq): (_, Option<_>, _)| RangeTombstone {
            range: KeyRange {
                start: Bytes::from_static(start),
                end: end.map(Bytes::from_static),
            },
            seq: SeqNo(seq),
        };
        RangeTombstones::build(ranges.map(tombstone), None)
    }

    #[test]
    fn range_tombstones_come_back() {
        for tombstones in [RangeTombstones::default(), tombstones()] {
            let payload = encode(&tombstones).into();
            assert_eq!(decode(&payload).unwrap(), tombstones);
        }
    }

    #[test]
    fn any_bytes_are_tombstones_in_order_or_damage() {
        let good = encode(&tombstones());
        let mut damaged = 0;
        for at in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut bad = good.clone();
                bad[at] = byte;
                match decode(&bad.into()) {
                    Ok(read) => {
                        let again = encode(&read).into();
                        assert_eq!(decode(&again).unwrap(), read);
                    }
                    Err(_) => damaged += 1,
                }
            }
            let cut = Bytes::copy_from_slice(&good[..at]);
            assert!(decode(&cut).map_or(0, |read| read.count()) < tombstones().count());
        }
        assert!(damaged > 1000, "only {damaged}");
    }
}
