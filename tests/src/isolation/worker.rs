//! A thread with several open transactions, which does a random step in one of them at a time.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ebb_storage::{Db, Entry, Error, Result, Table, WriteBatch, WriteOptions};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Sabotage;
use super::history::{Content, Element, KEYS, Key, LISTS, Outcome, Step, Transaction};

/// The most transactions that a worker has open at once.
pub(super) const OPEN_MAX: usize = 4;

/// The state that all workers share while a database is open.
pub(super) struct Shared<'a> {
    pub(super) db: &'a Db,
    /// The first table has the even keys, the second the odd ones.
    pub(super) tables: &'a [Table; 2],
    pub(super) sabotage: Sabotage,
    /// Whether the workers flush and merge themselves.
    pub(super) manual: bool,
    pub(super) events: AtomicU64,
    pub(super) elements: AtomicU32,
    /// Number of transactions still to begin.
    pub(super) budget: AtomicU64,
}

/// The result of a worker.
#[derive(Default)]
pub(super) struct Done {
    pub(super) transactions: Vec<Transaction>,
    /// Whether the worker stopped at an error, as it does when the power fails.
    pub(super) stopped: bool,
    pub(super) violations: Vec<String>,
}

struct Open {
    transaction: ebb_storage::Transaction,
    record: Transaction,
    /// The writes of the transaction as a plain batch. Only under [`Sabotage::NoValidation`] is it
    /// filled, and then it is written instead of the commit.
    batch: WriteBatch,
    steps_left: u32,
}

pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    rng: ChaCha8Rng,
    processes: Range<u32>,
    done: Done,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, rng: ChaCha8Rng, thread: u32) -> Self {
        let first = thread * OPEN_MAX as u32;
        Self {
            shared,
            rng,
            processes: first..first + OPEN_MAX as u32,
            done: Done::default(),
        }
    }

    /// Works until all transactions of the budget have begun and ended, or until an error, such as
    /// a power failure, which rolls the open transactions back.
    pub(super) fn run(mut self) -> Done {
        let mut open: [Option<Open>; OPEN_MAX] = Default::default();
        let mut more = true;
        while more || open.iter().any(Option::is_some) {
            let slot = self.rng.random_range(0..OPEN_MAX);
            let outcome = match open[slot].take() {
                None if more => self.begin(slot).map(|began| {
                    more = began.is_some();
                    open[slot] = began;
                }),
                None => Ok(()),
                Some(mut one) if one.steps_left > 0 => {
                    one.steps_left -= 1;
                    let stepped = self.step(&mut one);
                    match stepped {
                        Ok(()) => open[slot] = Some(one),
                        Err(_) => self.end(one, Outcome::RolledBack),
                    }
                    stepped
                }
                Some(one) => self.finish(one),
            };
            let outcome = outcome.and_then(|()| self.maintain());
            if let Err(e) = outcome {
                self.done.stopped = true;
                self.done
                    .violations
                    .extend(not_of_power(&e).then(|| format!("failed: {e}")));
                break;
            }
        }
        for one in open.into_iter().flatten() {
            self.end(one, Outcome::RolledBack);
        }
        self.done
    }

    fn event(&self) -> u64 {
        self.shared.events.fetch_add(1, Ordering::SeqCst)
    }

    fn maintain(&mut self) -> Result<()> {
        if self.shared.manual && self.rng.random_ratio(1, 100) {
            self.shared.db.flush()?;
            if self.rng.random_bool(0.3) {
                self.shared.db.compact()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, slot: usize) -> Result<Option<Open>> {
        let budget = &self.shared.budget;
        let spend = |left: u64| left.checked_sub(1);
        if budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
            .is_err()
        {
            return Ok(None);
        }
        let began = self.event();
        let options = WriteOptions {
            sync: self.rng.random_bool(0.1),
        };
        let transaction = self.shared.db.begin_with(options);
        let record = Transaction {
            process: self.processes.start + slot as u32,
            began,
            ended: 0,
            start: transaction.seq().0,
            steps: Vec::new(),
            outcome: Outcome::RolledBack,
        };
        Ok(Some(Open {
            transaction,
            record,
            batch: WriteBatch::new(),
            steps_left: self.rng.random_range(1..7),
        }))
    }

    fn end(&mut self, one: Open, outcome: Outcome) {
        drop(one.transaction);
        let ended = self.event();
        self.done.transactions.push(Transaction {
            ended,
            outcome,
            ..one.record
        });
    }

    fn finish(&mut self, one: Open) -> Result<()> {
        if self.rng.random_ratio(1, 20) {
            self.end(one, Outcome::RolledBack);
            return Ok(());
        }
        let Open {
            transaction,
            mut record,
            batch,
            ..
        } = one;
        let committed = if self.shared.sabotage == Sabotage::NoValidation {
            drop(transaction);
            self.shared.db.write(batch).map(|()| None)
        } else {
            transaction.commit().map(|seq| Some(seq.0))
        };
        record.ended = self.event();
        let (outcome, result) = match committed {
            Ok(number) => (Outcome::Committed { number }, Ok(())),
            Err(Error::Conflict { key, .. }) => (
                Outcome::Conflict {
                    key: key_of(&key).expect("it has no other keys"),
                },
                Ok(()),
            ),
            Err(e) => (Outcome::Unknown, Err(e)),
        };
        record.outcome = outcome;
        self.done.transactions.push(record);
        result
    }

    fn step(&mut self, one: &mut Open) -> Result<()> {
        let list = self.rng.random_range(0..LISTS);
        let register = self.rng.random_range(LISTS..KEYS);
        let any = self.rng.random_range(0..KEYS);
        match self.rng.random_range(0..100) {
            0..15 => self.get(one, any),
            15..20 => self.get_many(one, [any, register, list]),
            20..30 => self.range(one),
            30..32 => self.guard(one, any),
            32..34 => self.guard_range(one, any),
            34..38 => {
                let (table, name) = self.locate(any);
                let value = one.transaction.get_for_update(table, name.as_bytes())?;
                one.record.steps.push(Step::Guard { key: any });
                self.note_read(one, any, value.as_deref())
            }
            38..60 => self.append(one, list),
            60..75 => self.merge(one, list),
            75..90 => self.put(one, register),
            90..96 => self.delete(one, register),
            _ => self.delete_range(one, register),
        }
    }

    fn locate(&self, key: Key) -> (&'a Table, String) {
        let table = &self.shared.tables[usize::from(key % 2)];
        (table, name_of(key))
    }

    fn guard(&mut self, one: &mut Open, key: Key) -> Result<()> {
        let (table, name) = self.locate(key);
        one.transaction.guard(table, name.as_bytes())?;
        one.record.steps.push(Step::Guard { key });
        Ok(())
    }

    /// Guards the keys of one table from `from` to a random end: the commit is refused if another
    /// transaction has written one of them since this one began.
    fn guard_range(&mut self, one: &mut Open, from: Key) -> Result<()> {
        let (table, first) = self.locate(from);
        let to = self.rng.random_range(from..=KEYS);
        one.transaction.guard_range(table, first..name_of(to))?;
        let keys = (from..to).step_by(2);
        one.record.steps.extend(keys.map(|key| Step::Guard { key }));
        Ok(())
    }

    /// Records a read of this key. If the transaction has only merged into the key (which must then
    /// be a list) and does not guard the key yet, guards it: the commit then fails if another
    /// transaction has changed the list. Without the guard, other transactions might merge into the
    /// list before the commit, and the content that was read, with the transaction's own element,
    /// would never have existed.
    fn note_read(&mut self, one: &mut Open, key: Key, value: Option<&[u8]>) -> Result<()> {
        let content = value.map(decode);
        one.record.steps.push(Step::Read { key, content });
        if one.record.writes(key) && one.record.merges_freely(key) {
            self.guard(one, key)?;
        }
        Ok(())
    }

    fn get(&mut self, one: &mut Open, key: Key) -> Result<()> {
        let (table, name) = self.locate(key);
        let value = match self.shared.sabotage {
            Sabotage::ReadsNow if !one.record.writes(key) => table.get(name.as_bytes())?,
            _ => one.transaction.get(table, name.as_bytes())?,
        };
        self.note_read(one, key, value.as_deref())
    }

    fn get_many(&mut self, one: &mut Open, keys: [Key; 3]) -> Result<()> {
        let keys = keys.map(|key| key - key % 2);
        let names = keys.map(name_of);
        let values = one.transaction.get_many(&self.shared.tables[0], &names)?;
        for (key, value) in keys.into_iter().zip(values) {
            self.note_read(one, key, value.as_deref())?;
        }
        Ok(())
    }

    /// Reads a range of one table with an iterator: forwards, backwards, or with random steps from
    /// both ends. Keys of the range that are not in the result are recorded as absent.
    fn range(&mut self, one: &mut Open) -> Result<()> {
        let table = self.rng.random_range(0..2);
        let from = self.rng.random_range(0..KEYS);
        let to = self.rng.random_range(from..=KEYS);
        let bounds = name_of(from)..name_of(to);
        let mut range = one
            .transaction
            .range(&self.shared.tables[usize::from(table)], bounds)?;
        let mut found: Vec<Entry> = Vec::new();
        let back_ratio = [0.0, 1.0, 0.5][self.rng.random_range(0..3)];
        loop {
            let entry = if self.rng.random_bool(back_ratio) {
                range.next_back()
            } else {
                range.next()
            };
            let Some(entry) = entry.transpose()? else {
                break;
            };
            found.push(entry);
        }
        drop(range);
        for key in (from..to).filter(|key| key % 2 == table) {
            let name = name_of(key);
            let at = found.iter().position(|(found, _)| found == name.as_bytes());
            let value = at.map(|at| found.swap_remove(at).1);
            self.note_read(one, key, value.as_deref())?;
        }
        let stray = found.iter().map(|(key, _)| {
            let key = key.escape_ascii();
            format!("a range from {from} to {to} has {key}, again or wrongly")
        });
        self.done.violations.extend(stray);
        Ok(())
    }

    fn append(&mut self, one: &mut Open, key: Key) -> Result<()> {
        self.get(one, key)?;
        let mut steps = one.record.steps.iter().rev();
        let content = steps.find_map(|step| match step {
            Step::Read { content, .. } => Some(content.clone()),
            _ => None,
        });
        let mut list = content.flatten().unwrap_or_default();
        let element = self.element();
        list.push(element);
        self.set(one, key, &list)?;
        one.record.steps.push(Step::Append { key, element });
        Ok(())
    }

    fn merge(&mut self, one: &mut Open, key: Key) -> Result<()> {
        let (table, name) = self.locate(key);
        let element = self.element();
        let operand = encode(&[element]);
        if self.shared.sabotage == Sabotage::NoValidation {
            one.batch.merge(table, name.as_bytes(), &operand);
        }
        one.transaction.merge(table, name.as_bytes(), &operand)?;
        let read = |step: &Step| matches!(step, Step::Read { key: read, .. } if *read == key);
        if one.record.steps.iter().any(read) {
            self.guard(one, key)?;
        }
        one.record.steps.push(Step::Merge { key, element });
        Ok(())
    }

    fn put(&mut self, one: &mut Open, key: Key) -> Result<()> {
        let element = self.element();
        self.set(one, key, &[element])?;
        one.record.steps.push(Step::Put { key, element });
        Ok(())
    }

    fn set(&mut self, one: &mut Open, key: Key, content: &[Element]) -> Result<()> {
        let (table, name) = self.locate(key);
        let value = encode(content);
        if self.shared.sabotage == Sabotage::NoValidation {
            one.batch.put(table, name.as_bytes(), &value);
        }
        one.transaction.put(table, name.as_bytes(), &value)
    }

    fn delete(&mut self, one: &mut Open, key: Key) -> Result<()> {
        let (table, name) = self.locate(key);
        if self.shared.sabotage == Sabotage::NoValidation {
            one.batch.delete(table, name.as_bytes());
        }
        one.transaction.delete(table, name.as_bytes())?;
        one.record.steps.push(Step::Delete { key });
        Ok(())
    }

    /// Deletes a range of one table, from the key `from` to a random end, in the transaction.
    fn delete_range(&mut self, one: &mut Open, from: Key) -> Result<()> {
        let (table, first) = self.locate(from);
        let to = self.rng.random_range(from..=KEYS);
        let range = first..name_of(to);
        if self.shared.sabotage == Sabotage::NoValidation {
            one.batch.delete_range(table, range.clone());
        }
        one.transaction.delete_range(table, range)?;
        let keys = (from..to).step_by(2);
        one.record
            .steps
            .extend(keys.map(|key| Step::Delete { key }));
        Ok(())
    }

    fn element(&self) -> Element {
        self.shared.elements.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns whether the error has another cause than the power loss.
fn not_of_power(error: &Error) -> bool {
    !matches!(error, Error::Io { .. } | Error::ReadOnly { .. })
}

/// Returns the name of a key in its table.
pub(super) fn name_of(key: Key) -> String {
    format!("key{key:03}")
}

fn key_of(name: &[u8]) -> Option<Key> {
    std::str::from_utf8(name)
        .ok()?
        .strip_prefix("key")?
        .parse()
        .ok()
}

fn encode(content: &[Element]) -> Vec<u8> {
    content
        .iter()
        .flat_map(|element| element.to_le_bytes())
        .collect()
}

/// Decodes the value of a key: the elements of a list, or the one of a register.
pub(super) fn decode(value: &[u8]) -> Vec<Element> {
    let elements = value.chunks_exact(4);
    elements
        .map(|bytes| Element::from_le_bytes(bytes.try_into().expect("four bytes")))
        .collect()
}

pub(super) fn read_all(tables: &[Table; 2]) -> Result<Vec<Content>> {
    (0..KEYS)
        .map(|key| {
            let table = &tables[usize::from(key % 2)];
            let value = table.get(name_of(key).as_bytes())?;
            Ok(value.as_deref().map(decode))
        })
        .collect()
}
