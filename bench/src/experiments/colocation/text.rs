//! The text that jobs read repeatedly.

use anyhow::Result;
use ebb_storage::{Db, Table, WriteBatch};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TEXT_BYTES: usize = 32 << 20;
const WORDS: u32 = 30_000;
const ROWS_IN_BATCH: usize = 500;

/// Writes lines of frequent and rare words into `table`. The lines are the same in each run.
pub fn write_text(db: &Db, table: &Table) -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut written = 0;
    let mut row = 0_u64;
    while written < TEXT_BYTES {
        let mut batch = WriteBatch::new();
        for _ in 0..ROWS_IN_BATCH {
            let mut line = String::new();
            for _ in 0..rng.random_range(4..16) {
                // Rank r is drawn with a frequency of about 1/r, as in natural text.
                let rank = f64::from(WORDS).powf(rng.random::<f64>()) as u32;
                line += &format!("w{rank} ");
            }
            written += line.len();
            batch.put(table, &row.to_be_bytes(), line.as_bytes());
            row += 1;
        }
        db.write(batch)?;
    }
    Ok(())
}
