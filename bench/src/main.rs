//! YCSB driver and experiments.
fn main() {}
