//! Tests of the lab's commands, in one binary. Tests that read the memory of their process have
//! binaries of their own.

mod colocation;
mod simulate;
mod thesis_5_2_4;
mod ycsb;
