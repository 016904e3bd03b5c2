#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ebb_storage::fuzzing::tombstone_block(bytes));
