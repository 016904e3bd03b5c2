//! The process that is killed.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use ebb_storage::{Db, Keyspace, Table};

use super::Life;
use super::protocol::{
    Acknowledged, SNAPSHOT_EVERY, WRITERS, batch, busy_options, counter_key, store_dir,
};
use super::script::Script;
use crate::session::Session;

/// Writes to the store below `root` until the process is killed, and prints acknowledgements on its
/// standard output.
///
/// # Errors
/// Any error of the store (there should be none), an outcome that differs from the model's, and an
/// error of the standard output.
pub fn write_until_killed(root: &Path, life: &Life) -> Result<()> {
    let db = Db::open(store_dir(root), busy_options(life))?;
    let keyspace = db.keyspace("kill")?;
    let tables = [
        keyspace.table("a", Default::default())?,
        keyspace.table("b", Default::default())?,
    ];
    let out = Out(Mutex::new(std::io::stdout()));
    let (db, keyspace, tables, out) = (&db, &keyspace, &tables, &out);
    std::thread::scope(|scope| {
        let writers = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(db, keyspace, tables, writer, out)));
        let mut threads: Vec<_> = writers.collect();
        for (thread, &done) in life.done.iter().enumerate() {
            let mut script = Script::new(life.seed, thread as u32);
            script.advance_to(done);
            threads.push(scope.spawn(move || play(db, root, life, script, out)));
        }
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no writer panics"))
    })
}

/// The output for acknowledgements.
struct Out(Mutex<std::io::Stdout>);

impl Out {
    /// Prints an acknowledgement. Fails if the process that reads the acknowledgements has ended:
    /// then further writes make no sense.
    fn print(&self, acknowledged: Acknowledged) -> Result<()> {
        let mut out = self.0.lock().expect("no writer panics");
        writeln!(out, "{}", acknowledged.line())?;
        Ok(out.flush()?)
    }
}

fn write(db: &Db, keyspace: &Keyspace, [a, b]: &[Table; 2], writer: u32, out: &Out) -> Result<()> {
    let next = match a.get(counter_key(writer).as_bytes())? {
        Some(n) => std::str::from_utf8(&n)?.parse::<u64>()? + 1,
        None => 0,
    };
    for n in next.. {
        db.write(batch([a, b], writer, n))
            .with_context(|| format!("batch {n}"))?;
        out.print(Acknowledged::Batch { writer, n })?;
        if writer == 0 && n % SNAPSHOT_EVERY == 0 {
            keyspace.create_snapshot(&format!("at-{n}"))?;
            out.print(Acknowledged::Snapshot { n })?;
        }
    }
    Ok(())
}

/// Runs the operations of a script until an error, checks the outcome of each, and prints its
/// acknowledgement.
fn play(db: &Db, root: &Path, life: &Life, mut script: Script, out: &Out) -> Result<()> {
    let setup = script.setup(root, busy_options(life));
    let mut session = Session::over(db.clone(), setup);
    loop {
        let operation = script.next().clone();
        let found = session
            .apply(&operation)
            .with_context(|| operation.to_string())?;
        let must = script.advance();
        ensure!(found == must, "{operation}: {}", found.difference(&must));
        let (thread, done) = (script.thread(), script.done());
        out.print(Acknowledged::Operation { thread, done })?;
    }
}
