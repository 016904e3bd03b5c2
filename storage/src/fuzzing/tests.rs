//! The saved corpora, and seeded mutations of them.

use std::fs;
use std::path::{Path, PathBuf};

use ebb_test_support::seed::for_seeds;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// The number of mutations of each saved input for each seed.
const MUTATIONS: u64 = 40;
/// The largest size of all corpora together, in bytes: they are part of the repository.
const CORPORA_BYTES_MAX: u64 = 300 << 10;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = corpora().join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), fs::read(&path).unwrap());
    paths.into_iter().map(read).collect()
}

/// Damages bytes as disks and bugs do: changes, cuts, inserts or repeats some of them, one to three
/// times.
fn mutate(bytes: &mut Vec<u8>, rng: &mut impl Rng) {
    for _ in 0..rng.random_range(1..4) {
        let len = bytes.len();
        let at = rng.random_range(0..=len.saturating_sub(1));
        match rng.random_range(0..6) {
            _ if len == 0 => bytes.push(rng.random()),
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, rng.random()),
            4 => {
                // A number at its ends is where sums overflow.
                let end = (at + [1, 4, 8][rng.random_range(0..3)]).min(len);
                bytes[at..end].fill([0, 0xff][rng.random_range(0..2)]);
            }
            _ => {
                let end = rng.random_range(at..len.min(at + 64) + 1).min(len);
                let copied = bytes[at..end].to_vec();
                let to = rng.random_range(0..=len);
                bytes.splice(to..to, copied);
            }
        }
    }
}

#[test]
fn no_bytes_that_were_ever_interesting_harm_a_decoder() {
    let mut total = 0;
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for (path, bytes) in inputs {
            total += bytes.len() as u64;
            eprintln!("{}", path.display());
            target(&bytes);
        }
    }
    assert!(total <= CORPORA_BYTES_MAX, "the corpora have {total} bytes");
}

#[test]
fn no_bytes_close_to_real_ones_harm_a_decoder() {
    let test = "no_bytes_close_to_real_ones_harm_a_decoder";
    for_seeds(test, 1, decode_mutated);
}

/// Runs every decoder on mutations of its saved inputs.
fn decode_mutated(seed: u64) {
    for (name, target) in TARGETS {
        for (path, bytes) in inputs(name) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for mutation in 0..MUTATIONS {
                let mut mutated = bytes.clone();
                mutate(&mut mutated, &mut rng);
                let outcome = std::panic::catch_unwind(|| target(&mutated));
                if outcome.is_err() {
                    let saved = std::env::temp_dir().join(format!("ebb-{name}-{seed}-{mutation}"));
                    fs::write(&saved, &mutated).unwrap();
                    panic!(
                        "mutation {mutation} of {} harms {name}; its bytes are in {}",
                        path.display(),
                        saved.display()
                    );
                }
            }
        }
    }
}

/// Writes the saved inputs of the fuzz targets anew, from the files of a real database. Run this
/// after a change of a format: `cargo test -p ebb-storage --lib write_the_corpora -- --ignored`.
#[test]
#[ignore = "it writes into the source tree"]
fn write_the_corpora() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let dir = corpora().join(target);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(name), bytes).unwrap();
    };
    let disk = small_database();
    let mut files = disk.list(Path::new(DIR)).unwrap();
    files.retain(|path| !path.ends_with("LOCK"));
    files.sort();
    for (i, path) in files.iter().enumerate() {
        let bytes = disk.read_all(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        write("database", name, &[&[i as u8], &bytes[..]].concat());
        match name {
            "CURRENT" | "CURRENT.copy" => write("current", name, &bytes),
            _ if name.starts_with("MANIFEST") => {
                write("manifest", "real", &bytes);
                for (i, json) in crate::manifest::fuzzing::edits(&bytes).iter().enumerate() {
                    write("edit", &format!("real-{i}"), json);
                }
            }
            _ if name.ends_with(".log") => {
                write("wal_segment", name, &bytes);
                for (first, payload) in crate::wal::fuzzing::payloads(&bytes) {
                    let commit = [&first.to_le_bytes()[..], &payload].concat();
                    write("commit", &format!("real-{first}"), &commit);
                }
            }
            _ => {
                if let Some(payload) = crate::sstable::fuzzing::tombstones(&bytes) {
                    write("tombstone_block", name, &payload);
                }
            }
        }
    }
    for (name, bytes) in crate::sstable::fuzzing::tables() {
        write("sstable", name, &bytes);
        for (part, bytes) in crate::sstable::fuzzing::parts(&bytes) {
            write(part, name, &bytes);
        }
    }
    for value in [0, 127, 128, 1 << 35, u64::MAX] {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, value);
        write("varint", &format!("{value:x}"), &bytes);
    }
}

/// Regression: a bug or faulty memory can leave an SSTable with good checksums and versions out of
/// order. A merge that read such a file panicked while it wrote its output.
#[test]
fn a_merge_of_versions_out_of_order_names_the_file() {
    let disk = MemDisk::new();
    let form = crate::SsTableOptions {
        restart_interval: 1,
        compression: crate::Compression::None,
        ..Default::default()
    };
    let options_of_table = crate::TableOptions {
        sstable: form,
        ..Default::default()
    };
    let table = |db: &Db| {
        let app = db.keyspace("app").unwrap();
        app.table("t", options_of_table.clone()).unwrap()
    };
    let db = Db::open(DIR, options(&disk)).unwrap();
    for round in 0..2 {
        for key in ["early", "later"] {
            table(&db).put(key.as_bytes(), &[round]).unwrap();
        }
        db.flush().unwrap();
    }
    drop(db);
    let path = Path::new(DIR).join("000001.sst");
    let mut bytes = disk.read_all(&path).unwrap();
    // Long enough that the random id at the start of the file does not have it by chance.
    let at = bytes.windows(5).position(|part| part == b"early").unwrap();
    bytes[at..at + 5].copy_from_slice(b"zzzzz");
    crate::sstable::fuzzing::reseal(&mut bytes);
    disk.create(&path).unwrap().append(&bytes).unwrap();

    let db = Db::open(DIR, options(&disk)).unwrap();
    db.compact().unwrap();
    let stats = db.stats();
    let [damaged] = &stats.tables[0].quarantine[..] else {
        panic!("{stats:?}");
    };
    assert_eq!(damaged.path, path);
}
