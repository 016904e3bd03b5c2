//! Writes to a store until it is killed, and says on standard output what was
//! acknowledged. `writer DIR`

#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::Mutex;

use ebb_storage::Db;
use ebb_tests::{Acknowledged, SNAPSHOT_EVERY, WRITERS, batch, busy_options, counter_key};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: writer DIR")?;
    let db = Db::open(dir, busy_options())?;
    let keyspace = db.keyspace("kill")?;
    let tables = [
        keyspace.table("a", Default::default())?,
        keyspace.table("b", Default::default())?,
    ];
    let out = Mutex::new(std::io::stdout());
    let say = |acknowledged: Acknowledged| {
        let mut out = out.lock().expect("no writer panics");
        // The reader is gone: so is the reason to write.
        if writeln!(out, "{}", acknowledged.line())
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, keyspace, [a, b], say) = (&db, &keyspace, &tables, &say);
            scope.spawn(move || {
                let before = a.get(counter_key(writer).as_bytes()).expect("readable");
                let next = before.map_or(0, |n| {
                    std::str::from_utf8(&n)
                        .expect("digits")
                        .parse::<u64>()
                        .expect("a number")
                        + 1
                });
                for n in next.. {
                    db.write(batch([a, b], writer, n)).expect("writable");
                    say(Acknowledged::Batch { writer, n });
                    if writer == 0 && n % SNAPSHOT_EVERY == 0 {
                        keyspace
                            .create_snapshot(&format!("at-{n}"))
                            .expect("a new name");
                        say(Acknowledged::Snapshot { n });
                    }
                }
            });
        }
    });
    Ok(())
}
