mod decided;
mod golden;
mod hostile;
mod model;
mod operands;
mod properties;
mod purging;
mod rules;

use super::{Cell, Lifetime};

fn cell(timestamp: i64, lifetime: Lifetime, value: &[u8]) -> Cell<'_> {
    Cell {
        timestamp,
        lifetime,
        value,
    }
}
