#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ebb_cql_server::fuzzing::state(bytes));
