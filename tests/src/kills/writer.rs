//! The process that is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use ebb_storage::{Db, Keyspace, Table};

use super::protocol::{Acknowledged, SNAPSHOT_EVERY, WRITERS, batch, busy_options, counter_key};

/// Writes to the store of `dir` until killed, and says on standard output what
/// was acknowledged.
///
/// # Errors
/// Whatever the store says; it should say nothing.
pub fn write_until_killed(dir: &Path) -> Result<()> {
    let db = Db::open(dir, busy_options())?;
    let keyspace = db.keyspace("kill")?;
    let tables = [
        keyspace.table("a", Default::default())?,
        keyspace.table("b", Default::default())?,
    ];
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        let threads = (0..WRITERS).map(|writer| {
            let (db, keyspace, tables, out) = (&db, &keyspace, &tables, &out);
            scope.spawn(move || write(db, keyspace, tables, writer, out))
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no writer panics"))
    })
}

fn write(
    db: &Db,
    keyspace: &Keyspace,
    [a, b]: &[Table; 2],
    writer: u32,
    out: &Mutex<std::io::Stdout>,
) -> Result<()> {
    let say = |acknowledged: Acknowledged| {
        let mut out = out.lock().expect("no writer panics");
        // Fails when the reader is gone: so is the reason to write.
        writeln!(out, "{}", acknowledged.line()).and_then(|()| out.flush())
    };
    let next = match a.get(counter_key(writer).as_bytes())? {
        Some(n) => std::str::from_utf8(&n)?.parse::<u64>()? + 1,
        None => 0,
    };
    for n in next.. {
        db.write(batch([a, b], writer, n))
            .with_context(|| format!("batch {n}"))?;
        say(Acknowledged::Batch { writer, n })?;
        if writer == 0 && n % SNAPSHOT_EVERY == 0 {
            keyspace.create_snapshot(&format!("at-{n}"))?;
            say(Acknowledged::Snapshot { n })?;
        }
    }
    Ok(())
}
