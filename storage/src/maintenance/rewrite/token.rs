//! The token of a list of losses. An operator accepts the losses by the token of the list that was
//! printed, so that no loss is accepted that was not shown.

use std::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3;

use super::report::FileLoss;
use crate::runs::FileMeta;

/// Returns the hash of the loss of a file: of the table, the file's number and id, the numbers of
/// entries that were read and that are lost, and the offset and the keys of each lost part. Leaves out
/// paths and descriptions, because they depend on the process that reads.
pub(super) fn hash_of(file: &FileMeta, loss: &FileLoss) -> u64 {
    let mut hasher = Xxh3::new();
    (&loss.table, file.number, file.id).hash(&mut hasher);
    (loss.entries_read, loss.entries_lost, loss.lost.len()).hash(&mut hasher);
    for part in &loss.lost {
        (part.offset, &part.from_key, &part.to_key).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the token of a list of losses, made of the hash of each. The order of the list does not
/// matter. `None` if the list is empty.
pub(super) fn token_of(mut hashes: Vec<u64>) -> Option<String> {
    hashes.sort_unstable();
    let mut hasher = Xxh3::new();
    hashes.hash(&mut hasher);
    (!hashes.is_empty()).then(|| format!("{:016x}", hasher.finish()))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::maintenance::Lost;

    fn loss(from_key: Option<&str>) -> FileLoss {
        FileLoss {
            table: "app.t".into(),
            path: "/data/000007.sst".into(),
            detail: "block checksum".into(),
            entries_read: 5,
            entries_lost: 2,
            lost: vec![Lost {
                from_key: from_key.map(|key| key.as_bytes().to_vec()),
                ..Lost::default()
            }],
            is_rewritten: false,
            kept_as: None,
        }
    }

    #[test]
    fn a_hash_depends_on_the_file_and_on_the_keys_and_not_on_the_place() {
        let file = FileMeta::of_nothing(7);
        let hash = hash_of(&file, &loss(Some("a")));
        let elsewhere = FileLoss {
            path: "./000007.sst".into(),
            detail: "cannot read".into(),
            ..loss(Some("a"))
        };
        assert_eq!(hash_of(&file, &elsewhere), hash);
        let other = FileMeta::of_nothing(8);
        let more = FileLoss {
            entries_lost: 3,
            ..loss(Some("a"))
        };
        let hashes = [
            hash_of(&other, &loss(Some("a"))),
            hash_of(&file, &loss(Some("b"))),
            hash_of(&file, &loss(None)),
            hash_of(&file, &more),
        ];
        assert!(!hashes.contains(&hash), "{hashes:x?}");
    }

    #[test]
    fn a_token_is_that_of_a_list_in_any_order() {
        assert_eq!(token_of(vec![]), None);
        let token = token_of(vec![1, 2]).unwrap();
        assert_eq!(token.len(), 16);
        assert_eq!(token_of(vec![2, 1]), Some(token.clone()));
        assert_ne!(token_of(vec![1]), Some(token));
    }
}
