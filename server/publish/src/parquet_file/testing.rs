//! Parquet files with schemas that are nested too deeply, for tests.

/// Returns a file without rows. Its only column lies in `groups` groups, each in the one before. The library
/// for Parquet could not write a schema of a hundred thousand groups.
pub(crate) fn nested(groups: usize) -> Vec<u8> {
    with_children(groups, b"\x02")
}

/// Returns a file as [`nested`] does, but with `children` as the number of children of the root, encoded as
/// in Thrift. So a test can write a number that is too large.
pub(crate) fn with_children(groups: usize, children: &[u8]) -> Vec<u8> {
    let mut footer = b"\x15\x02\x19\xfc".to_vec();
    let elements = groups + 2;
    let sevens = [
        0x80 | (elements & 0x7f),
        0x80 | ((elements >> 7) & 0x7f),
        elements >> 14,
    ];
    footer.extend(sevens.map(|seven| u8::try_from(seven).unwrap()));
    footer.extend([&b"\x48\x01m\x15"[..], children, b"\0"].concat());
    footer.extend(b"\x35\0\x18\x01g\x15\x02\0".repeat(groups));
    footer.extend(b"\x15\x02\x25\0\x18\x01x\0\x16\0\x19\x0c\0");
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    let parts = [&b"PAR1"[..], &footer, &length, b"PAR1"];
    parts.concat()
}
