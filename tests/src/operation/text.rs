//! The text form of operations: one line each.
//!
//! ```text
//! create-table app.users
//! write put app.users k20 v7x140; delete log.events k3
//! write merge app.users k20 v8x5; put-with-ttl app.mails k2 v9x10 500ms
//! transact commit put app.users k20 v7x140; delete log.events k3
//! advance 200ms
//! ingest app.users k20 v7x140; k3 -
//! snapshot app s4
//! expiring-snapshot app s4 300ms
//! renew-snapshot app s4 never
//! table-snapshot app.users s5
//! get app.users k20
//! range app.users [k3 (k20 both
//! view 0
//! read-view 0 range app.users - - front
//! ```
//!
//! In bounds, `[k3` includes the key, `(k3` excludes it, `-` is unbounded.

use std::fmt;
use std::ops::Bound;
use std::str::{FromStr, SplitWhitespace};

use super::{Bounds, Ends, KEYSPACES, Key, Operation, Read, TABLES, TableNo, Val, Write};

/// Prints a list, with one operation per line.
pub fn print_list(operations: &[Operation]) -> String {
    operations.iter().map(|op| format!("{op}\n")).collect()
}

/// Parses the output of [`print_list`]. Empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// Names the first line that is not an operation.
pub fn parse_list(text: &str) -> Result<Vec<Operation>, String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.parse().map_err(|e| format!("{line:?}: {e}")))
        .collect()
}

impl fmt::Display for TableNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace(), self.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.0)
    }
}

impl fmt::Display for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}x{}", self.number, self.bytes)
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, bound) in [self.0, self.1].iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            match bound {
                Bound::Included(key) => write!(f, "{space}[{key}")?,
                Bound::Excluded(key) => write!(f, "{space}({key}")?,
                Bound::Unbounded => write!(f, "{space}-")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Front => "front",
            Self::Back => "back",
            Self::Both => "both",
        })
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(table, key, value) => write!(f, "put {table} {key} {value}"),
            Self::Delete(table, key) => write!(f, "delete {table} {key}"),
            Self::Merge(table, key, operand) => write!(f, "merge {table} {key} {operand}"),
            Self::PutWithTtl(table, key, value, ttl_ms) => {
                write!(f, "put-with-ttl {table} {key} {value} {ttl_ms}ms")
            }
            Self::DeleteRange(table, bounds) => write!(f, "delete-range {table} {bounds}"),
        }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get(table, key) => write!(f, "get {table} {key}"),
            Self::Range(table, bounds, ends) => write!(f, "range {table} {bounds} {ends}"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a default arm, so that a new kind of operation does not compile without its line.
        // `from_str` has no such guard: a test prints and parses the kinds that `Generator` draws.
        let keyspace = |number: &u8| KEYSPACES[usize::from(*number)];
        match self {
            Self::CreateTable(table) => write!(f, "create-table {table}"),
            Self::DropTable(table) => write!(f, "drop-table {table}"),
            Self::Write(writes) => write!(f, "write {}", joined(writes)),
            Self::Transact { writes, commit } => {
                let end = if *commit { "commit" } else { "rollback" };
                write!(f, "transact {end} {}", joined(writes))
            }
            Self::Truncate(table) => write!(f, "truncate {table}"),
            // `-` is a deletion.
            Self::Ingest(table, entries) => {
                write!(f, "ingest {table}")?;
                entries.iter().enumerate().try_for_each(|(i, entry)| {
                    let and = if i == 0 { "" } else { ";" };
                    match entry {
                        (key, Some(value)) => write!(f, "{and} {key} {value}"),
                        (key, None) => write!(f, "{and} {key} -"),
                    }
                })
            }
            Self::Advance(ms) => write!(f, "advance {ms}ms"),
            Self::CreateSnapshot {
                keyspace: ks,
                name,
                ms,
            } => match ms {
                Some(ms) => write!(f, "expiring-snapshot {} s{name} {ms}ms", keyspace(ks)),
                None => write!(f, "snapshot {} s{name}", keyspace(ks)),
            },
            Self::CreateTableSnapshot { table, name } => {
                write!(f, "table-snapshot {table} s{name}")
            }
            Self::RenewSnapshot {
                keyspace: ks,
                name,
                ms,
            } => {
                write!(f, "renew-snapshot {} s{name} ", keyspace(ks))?;
                match ms {
                    Some(ms) => write!(f, "{ms}ms"),
                    None => f.write_str("never"),
                }
            }
            Self::DeleteSnapshot { keyspace: ks, name } => {
                write!(f, "delete-snapshot {} s{name}", keyspace(ks))
            }
            Self::Flush => f.write_str("flush"),
            Self::Compact => f.write_str("compact"),
            Self::Sync => f.write_str("sync"),
            Self::Reopen => f.write_str("reopen"),
            Self::Read(read) => write!(f, "{read}"),
            Self::ReadAll => f.write_str("read-all"),
            Self::Backup => f.write_str("backup"),
            Self::OpenView(slot) => write!(f, "view {slot}"),
            Self::ReadView(slot, read) => write!(f, "read-view {slot} {read}"),
            Self::CloseView(slot) => write!(f, "close-view {slot}"),
            Self::OpenSnapshot {
                slot,
                keyspace: ks,
                name,
            } => write!(f, "open-snapshot {slot} {} s{name}", keyspace(ks)),
            Self::ReadSnapshot(slot, read) => write!(f, "read-snapshot {slot} {read}"),
            Self::CloseSnapshot(slot) => write!(f, "close-snapshot {slot}"),
            Self::Pin {
                slot,
                keyspace: ks,
                name,
            } => write!(f, "pin {slot} {} s{name}", keyspace(ks)),
            Self::ReadPinned(slot, read) => write!(f, "read-pinned {slot} {read}"),
            Self::Unpin(slot) => write!(f, "unpin {slot}"),
            Self::OpenRange(slot, table, bounds) => {
                write!(f, "open-range {slot} {table} {bounds}")
            }
            Self::ReadOn(slot, entries, ends) => write!(f, "read-on {slot} {entries} {ends}"),
            Self::CloseRange(slot) => write!(f, "close-range {slot}"),
            Self::Begin(slot) => write!(f, "begin {slot}"),
            Self::WriteIn(slot, write) => write!(f, "write-in {slot} {write}"),
            Self::ReadIn(slot, read) => write!(f, "read-in {slot} {read}"),
            Self::Guard(slot, table, key) => write!(f, "guard {slot} {table} {key}"),
            Self::GuardRange(slot, table, bounds) => {
                write!(f, "guard-range {slot} {table} {bounds}")
            }
            Self::Commit(slot) => write!(f, "commit {slot}"),
            Self::Rollback(slot) => write!(f, "rollback {slot}"),
        }
    }
}

fn joined(writes: &[Write]) -> String {
    let writes: Vec<_> = writes.iter().map(Write::to_string).collect();
    writes.join("; ")
}

/// The words of a line, taken one by one.
struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "ends too early".into())
    }

    fn number<T: FromStr>(&mut self, prefix: &str) -> Result<T, String> {
        number(self.word()?, prefix)
    }

    fn table(&mut self) -> Result<TableNo, String> {
        let word = self.word()?;
        TableNo::all()
            .find(|table| table.to_string() == word)
            .ok_or_else(|| format!("no table {word}; there are {TABLES:?}"))
    }

    fn keyspace(&mut self) -> Result<u8, String> {
        let word = self.word()?;
        let at = KEYSPACES.iter().position(|name| *name == word);
        at.map(|at| at as u8)
            .ok_or_else(|| format!("no keyspace {word}; there are {KEYSPACES:?}"))
    }

    fn key(&mut self) -> Result<Key, String> {
        self.number("k").map(Key)
    }

    fn value(&mut self) -> Result<Val, String> {
        let word = self.word()?;
        let (value, bytes) = word.split_once('x').ok_or("a value is v<number>x<bytes>")?;
        Ok(Val {
            number: number(value, "v")?,
            bytes: number(bytes, "")?,
        })
    }

    fn bound(&mut self) -> Result<Bound<Key>, String> {
        let word = self.word()?;
        match word.split_at_checked(1) {
            Some(("-", "")) => Ok(Bound::Unbounded),
            Some(("[", key)) => number(key, "k").map(|key| Bound::Included(Key(key))),
            Some(("(", key)) => number(key, "k").map(|key| Bound::Excluded(Key(key))),
            _ => Err(format!("no bound: {word}")),
        }
    }

    fn bounds(&mut self) -> Result<Bounds, String> {
        Ok(Bounds(self.bound()?, self.bound()?))
    }

    fn ends(&mut self) -> Result<Ends, String> {
        match self.word()? {
            "front" => Ok(Ends::Front),
            "back" => Ok(Ends::Back),
            "both" => Ok(Ends::Both),
            word => Err(format!("no end: {word}")),
        }
    }

    fn milliseconds(&mut self) -> Result<u32, String> {
        let word = self.word()?;
        let digits = word.strip_suffix("ms").unwrap_or(word);
        number(digits, "")
    }

    fn entry(&mut self) -> Result<(Key, Option<Val>), String> {
        let key = self.key()?;
        match self.0.clone().next() {
            Some("-") => self.word().map(|_| (key, None)),
            _ => Ok((key, Some(self.value()?))),
        }
    }

    fn write(&mut self) -> Result<Write, String> {
        match self.word()? {
            "put" => Ok(Write::Put(self.table()?, self.key()?, self.value()?)),
            "delete" => Ok(Write::Delete(self.table()?, self.key()?)),
            "merge" => Ok(Write::Merge(self.table()?, self.key()?, self.value()?)),
            "put-with-ttl" => Ok(Write::PutWithTtl(
                self.table()?,
                self.key()?,
                self.value()?,
                self.milliseconds()?,
            )),
            "delete-range" => Ok(Write::DeleteRange(self.table()?, self.bounds()?)),
            verb => Err(format!("no write: {verb}")),
        }
    }

    fn read(&mut self) -> Result<Read, String> {
        let verb = self.word()?;
        self.read_of(verb)
    }

    fn read_of(&mut self, verb: &str) -> Result<Read, String> {
        match verb {
            "get" => Ok(Read::Get(self.table()?, self.key()?)),
            "range" => Ok(Read::Range(self.table()?, self.bounds()?, self.ends()?)),
            verb => Err(format!("no operation: {verb}")),
        }
    }
}

fn number<T: FromStr>(word: &str, prefix: &str) -> Result<T, String> {
    let digits = word.strip_prefix(prefix);
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| format!("{word} is not {prefix}<number>"))
}

fn writes(text: &str) -> Result<Vec<Write>, String> {
    let write = |text: &str| Words(text.split_whitespace()).write();
    text.split(';').map(write).collect()
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        // Operations with a list come first: their lists are split at `;`, and not only at spaces.
        if let Some(list) = line.strip_prefix("write ") {
            return writes(list).map(Self::Write);
        }
        for (prefix, commit) in [("transact commit ", true), ("transact rollback ", false)] {
            if let Some(list) = line.strip_prefix(prefix) {
                return writes(list).map(|writes| Self::Transact { writes, commit });
            }
        }
        if let Some(list) = line.strip_prefix("ingest ") {
            let (table, entries) = list.split_once(' ').ok_or("it ends too early")?;
            let entry = |text: &str| Words(text.split_whitespace()).entry();
            let entries = entries.split(';').map(entry).collect::<Result<_, _>>()?;
            let table = Words(table.split_whitespace()).table()?;
            return Ok(Self::Ingest(table, entries));
        }
        let words = &mut Words(line.split_whitespace());
        let operation = match words.word()? {
            "create-table" => Self::CreateTable(words.table()?),
            "drop-table" => Self::DropTable(words.table()?),
            "snapshot" => Self::CreateSnapshot {
                keyspace: words.keyspace()?,
                name: words.number("s")?,
                ms: None,
            },
            "table-snapshot" => Self::CreateTableSnapshot {
                table: words.table()?,
                name: words.number("s")?,
            },
            "expiring-snapshot" => Self::CreateSnapshot {
                keyspace: words.keyspace()?,
                name: words.number("s")?,
                ms: Some(words.milliseconds()?),
            },
            "renew-snapshot" => Self::RenewSnapshot {
                keyspace: words.keyspace()?,
                name: words.number("s")?,
                // Looks at the next word without taking it.
                ms: match words.0.clone().next() {
                    Some("never") => words.word().map(|_| None)?,
                    _ => Some(words.milliseconds()?),
                },
            },
            "delete-snapshot" => Self::DeleteSnapshot {
                keyspace: words.keyspace()?,
                name: words.number("s")?,
            },
            "flush" => Self::Flush,
            "compact" => Self::Compact,
            "sync" => Self::Sync,
            "reopen" => Self::Reopen,
            "read-all" => Self::ReadAll,
            "backup" => Self::Backup,
            "view" => Self::OpenView(words.number("")?),
            "read-view" => Self::ReadView(words.number("")?, words.read()?),
            "close-view" => Self::CloseView(words.number("")?),
            "open-snapshot" => Self::OpenSnapshot {
                slot: words.number("")?,
                keyspace: words.keyspace()?,
                name: words.number("s")?,
            },
            "read-snapshot" => Self::ReadSnapshot(words.number("")?, words.read()?),
            "close-snapshot" => Self::CloseSnapshot(words.number("")?),
            "pin" => Self::Pin {
                slot: words.number("")?,
                keyspace: words.keyspace()?,
                name: words.number("s")?,
            },
            "read-pinned" => Self::ReadPinned(words.number("")?, words.read()?),
            "unpin" => Self::Unpin(words.number("")?),
            "open-range" => Self::OpenRange(words.number("")?, words.table()?, words.bounds()?),
            "read-on" => Self::ReadOn(words.number("")?, words.number("")?, words.ends()?),
            "close-range" => Self::CloseRange(words.number("")?),
            "truncate" => Self::Truncate(words.table()?),
            "advance" => Self::Advance(words.milliseconds()?),
            "begin" => Self::Begin(words.number("")?),
            "write-in" => Self::WriteIn(words.number("")?, words.write()?),
            "read-in" => Self::ReadIn(words.number("")?, words.read()?),
            "guard" => Self::Guard(words.number("")?, words.table()?, words.key()?),
            "guard-range" => Self::GuardRange(words.number("")?, words.table()?, words.bounds()?),
            "commit" => Self::Commit(words.number("")?),
            "rollback" => Self::Rollback(words.number("")?),
            // Reads of the current content have no word before `get` or `range`.
            verb => Self::Read(words.read_of(verb)?),
        };
        match words.0.next() {
            Some(word) => Err(format!("{word} is too much")),
            None => Ok(operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Generator, Mix};
    use crate::seed::rng;

    const MIXES: [Mix; 2] = [Mix::EVERYTHING, Mix::CHANGES];

    #[test]
    fn printed_operations_parse_back_unchanged() {
        for seed in 0..20 {
            let operations = Generator::new(rng(seed), MIXES[seed as usize % 2]).list(300);
            let text = print_list(&operations);
            assert_eq!(parse_list(&text).unwrap(), operations);
        }
    }

    #[test]
    fn a_line_that_is_no_operation_is_named() {
        for line in ["", "fly", "get app.users", "get app.nobody k1", "flush now"] {
            assert!(line.parse::<Operation>().is_err(), "{line}");
        }
        let error = parse_list("flush\nput x\n").unwrap_err();
        assert!(error.contains("put x"), "{error}");
    }
}
