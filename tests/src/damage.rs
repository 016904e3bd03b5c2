//! Flips every bit of a small database, and cuts every file at every length, one damage at a time.
//!
//! The database then either reads correctly, or fails with an error that names one of its files. It
//! never returns a wrong value, panics, runs for ever (the I/O calls are bounded), or allocates
//! memory by an unchecked length.
//!
//! One kind of damage looks like a crash: a torn record at the very end of the log. So damage to
//! the last record may lose that record, and a cut of the last segment may lose several at its end.
//! Nothing else may be lost.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use ebb_storage::{Durability, Error, Options};

use crate::caught::caught;
use crate::disk::{self, DIR, MemDisk};
use crate::memory;
use crate::model::State;
use crate::operation::{Generator, Mix, Operation};
use crate::report::{Budget, Counter, Report};
use crate::seed::rng;
use crate::session::{Session, Setup, read_everything};
use crate::setup::drawn;

/// Number of random operations that make the database.
const OPERATIONS: usize = 45;
/// Approximate number of bytes that the database's operations write.
const WRITTEN_BYTES: u64 = 5000;
/// Limit on the I/O calls to open and read a damaged database. Some hundred are enough, so a case
/// that reaches this limit has an endless loop.
const IO_CALLS_MAX: u64 = 20_000;
/// Limit on the bytes of memory in use while a damaged database (of about ten kilobytes) is opened
/// and read. Caches and the other threads of the test are included.
const MEMORY_BYTES_MAX: usize = 128 << 20;
/// The step from each case to the next one in the list of all cases. The step is large, so that a
/// run which is cut short has tried some cases of every kind, and prime, so that each case is tried
/// once.
const STRIDE: usize = 1_000_003;

/// Damage to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// Flips a bit: the name of the file, the offset of the byte, the bit from 0 to 7.
    Flip(String, u64, u8),
    /// Cuts a file to a length: the name of the file, the number of bytes that stay.
    Cut(String, u64),
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flip(file, byte, bit) => write!(f, "flip:{file}:{byte}:{bit}"),
            Self::Cut(file, bytes) => write!(f, "cut:{file}:{bytes}"),
        }
    }
}

impl std::str::FromStr for Damage {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match *text.split(':').collect::<Vec<_>>() {
            ["flip", file, byte, bit] => Ok(Self::Flip(file.into(), byte.parse()?, bit.parse()?)),
            ["cut", file, bytes] => Ok(Self::Cut(file.into(), bytes.parse()?)),
            _ => bail!("{text} is neither flip:FILE:BYTE:BIT nor cut:FILE:BYTES"),
        }
    }
}

impl Damage {
    fn file(&self) -> PathBuf {
        let (Self::Flip(file, ..) | Self::Cut(file, _)) = self;
        PathBuf::from(DIR).join(file)
    }
}

/// Tries every flipped bit and every cut of each file of this seed's database, each on a copy of
/// the database, until the budget is spent.
pub fn run(seed: u64, budget: &Budget) -> Report {
    let mut report = Report::default();
    let case = match caught(|| Case::new(seed)) {
        Ok(case) => case,
        Err(e) => {
            report.note(Err(e), || format!("damage:{seed}"));
            return report;
        }
    };
    let all = case.damages();
    let mut at = 0;
    for cases in 1..=all.len() {
        let damage = &all[at];
        at = (at + STRIDE) % all.len();
        report.count(
            match damage {
                Damage::Flip(..) => Counter::BitsFlipped,
                Damage::Cut(..) => Counter::FilesCut,
            },
            1,
        );
        let outcome = caught(|| case.survives(damage));
        report.note(outcome, || format!("damage:{seed}:{damage}"));
        if budget.is_spent_after(cases as u64) {
            break;
        }
    }
    report
}

/// Tries one damage to the database of this seed.
///
/// # Errors
/// Describes the check that failed.
pub fn replay(seed: u64, damage: &Damage) -> Result<()> {
    caught(|| Case::new(seed)?.survives(damage))
}

struct Case {
    seed: u64,
    mem: MemDisk,
    /// The content that a reader may find: first all of it, then the content without the last
    /// record of the log, without the last two, and so on.
    states: Vec<State>,
    last_segment: PathBuf,
    setup: Setup,
}

impl Case {
    fn new(seed: u64) -> Result<Self> {
        let mem = MemDisk::new();
        let mut operations = Generator::new(rng(seed), Mix::CHANGES).list(OPERATIONS);
        // Some of the data is in files; three seeds of four also have some in the log.
        operations.insert(OPERATIONS / 2, Operation::Flush);
        if seed % 4 == 3 {
            operations.push(Operation::Flush);
        }
        let mut setup = drawn(&mut rng(seed ^ 0xda), &mem, WRITTEN_BYTES);
        setup.options.durability = Durability::Sync;
        let mut session = Session::open(setup.clone())?;
        for operation in &operations {
            session.apply(operation).context(operation.to_string())?;
        }
        drop(session);
        let mut case = Self {
            seed,
            setup,
            last_segment: PathBuf::new(),
            states: Vec::new(),
            mem: mem.fork(),
        };
        let mut segments = disk::files(&case.mem, DIR, ".log")?;
        case.last_segment = segments.pop().context("there is no log")?;
        // Cuts the log at every length: at the ends of records, and within them.
        for bytes in (0..=case.mem.file_len(&case.last_segment)?).rev() {
            let mem = case.mem.fork();
            mem.cut(&case.last_segment, bytes)?;
            let state = case.read(&mem).context("with a torn log")?;
            if case.states.last() != Some(&state) {
                case.states.push(state);
            }
        }
        Ok(case)
    }

    fn damages(&self) -> Vec<Damage> {
        let mut all = Vec::new();
        for path in disk::files(&self.mem, DIR, "").unwrap_or_default() {
            let name = path.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            for byte in 0..self.mem.file_len(&path).unwrap_or(0) {
                all.extend((0..8).map(|bit| Damage::Flip(name.clone(), byte, bit)));
                all.push(Damage::Cut(name.clone(), byte));
            }
        }
        all
    }

    fn survives(&self, damage: &Damage) -> Result<()> {
        let mem = self.mem.fork();
        let file = damage.file();
        match damage {
            Damage::Flip(_, byte, bit) => mem.flip_bit(&file, *byte, *bit),
            Damage::Cut(_, bytes) => mem.cut(&file, *bytes),
        }
        .with_context(|| format!("{} of seed {}", file.display(), self.seed))?;
        mem.crash_at(IO_CALLS_MAX);
        memory::reset_peak();
        let outcome = self.read(&mem);
        let peak = memory::peak_bytes();
        ensure!(
            peak < MEMORY_BYTES_MAX,
            "reading it took {peak} bytes of memory"
        );
        ensure!(
            mem.has_power(),
            "reading it took more than {IO_CALLS_MAX} I/O calls"
        );
        match outcome {
            Err(e) => names_a_file(&e),
            Ok(found) if found == self.states[0] => Ok(()),
            Ok(found) if file == self.last_segment => {
                // Nothing records that the last record was durable, so it may be lost.
                let lost = match damage {
                    Damage::Flip(..) => 1..2.min(self.states.len()),
                    Damage::Cut(..) => 1..self.states.len(),
                };
                ensure!(
                    self.states[lost].contains(&found),
                    "more is lost than the last record: {}",
                    found.difference(&self.states[0])
                );
                Ok(())
            }
            Ok(found) => bail!("wrong: {}", found.difference(&self.states[0])),
        }
    }

    fn read(&self, mem: &MemDisk) -> ebb_storage::Result<State> {
        let setup = self.setup.clone();
        let session = Session::open(Setup {
            options: Options {
                cache_bytes: 0,
                ..disk::on(mem, setup.options)
            },
            ..setup
        })?;
        read_everything(session.db())
    }
}

fn names_a_file(error: &Error) -> Result<()> {
    match error {
        Error::Corruption { path, .. }
        | Error::Io { path, .. }
        | Error::Unreadable { path, .. }
        | Error::UnsupportedFormat { path, .. } => {
            ensure!(path.starts_with(DIR), "it names another file: {error}");
            Ok(())
        }
        _ => bail!("it names no file: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries a sample of the cases: all of them take a minute.
    #[test]
    fn a_flipped_bit_or_a_cut_file_is_found_or_harmless() {
        for seed in 0..2 {
            let case = Case::new(seed).unwrap();
            for damage in case.damages().iter().step_by(127) {
                case.survives(damage)
                    .unwrap_or_else(|e| panic!("damage:{seed}:{damage}: {e:#}"));
            }
        }
    }

    #[test]
    fn an_answer_that_is_wrong_is_caught() {
        let mut case = Case::new(0).unwrap();
        let all = case.damages();
        let strewn = (0..all.len()).map(|i| &all[i * STRIDE % all.len()]);
        let harmless = strewn.filter(|damage| {
            let mem = case.mem.fork();
            let Damage::Flip(_, byte, bit) = damage else {
                return false;
            };
            mem.flip_bit(damage.file(), *byte, *bit).unwrap();
            damage.file() != case.last_segment && case.read(&mem).is_ok()
        });
        let harmless = harmless.take(1).cloned().collect::<Vec<_>>();
        assert_eq!(harmless.len(), 1);
        case.states[0].tables[0] = None;
        for damage in harmless {
            let error = case.survives(&damage).unwrap_err();
            assert!(error.to_string().starts_with("wrong"), "{error}");
        }
        assert!(names_a_file(&Error::InvalidRequest("bad luck".into())).is_err());
    }

    #[test]
    fn damages_read_back_as_they_were_printed() {
        for damage in [
            Damage::Flip("CURRENT".into(), 3, 7),
            Damage::Cut("x".into(), 5),
        ] {
            assert_eq!(damage.to_string().parse::<Damage>().unwrap(), damage);
        }
    }
}
