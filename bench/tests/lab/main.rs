//! The lab as its users call it, in one binary. Tests that read the memory of their process are in
//! binaries of their own.

mod colocation;
mod simulate;
mod thesis_5_2_4;
mod ycsb;
