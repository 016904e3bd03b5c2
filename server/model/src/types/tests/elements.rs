use crate::types::elements::{build, build_map, build_tuple, components, elements, pairs};
use crate::types::vint;

#[test]
fn built_collections_and_tuples_are_read_back() {
    let list = build([&b"a"[..], b"", b"ccc"]);
    assert_eq!(list, b"\0\0\0\x03\0\0\0\x01a\0\0\0\0\0\0\0\x03ccc");
    let read: Vec<_> = elements(&list)
        .unwrap()
        .map(|e| e.unwrap().unwrap())
        .collect();
    assert_eq!(read, [&b"a"[..], b"", b"ccc"]);

    let map = build_map([(&b"k"[..], &b"v"[..])]);
    let read: Vec<_> = pairs(&map).unwrap().map(|e| e.unwrap().unwrap()).collect();
    assert_eq!(read, [b"k", b"v"]);

    let tuple = build_tuple([Some(&b"x"[..]), None]);
    let read: Vec<_> = components(&tuple).map(|e| e.unwrap()).collect();
    assert_eq!(read, [Some(&b"x"[..]), None]);
}

#[test]
fn a_count_that_is_too_large_ends_at_the_end_of_the_bytes() {
    let bytes = b"\x7f\xff\xff\xff\0\0\0\x01a";
    let read: Vec<_> = pairs(bytes).unwrap().collect();
    assert_eq!(read.len(), 2);
    assert!(read[1].is_err());
    assert!(elements(b"\xff\xff\xff\xff").is_err());
    assert!(elements(b"\0\0").is_err());
}

#[test]
fn vints_are_cassandras() {
    for (value, bytes) in [
        (0u64, &[0u8][..]),
        (127, &[0x7f]),
        (128, &[0x80, 0x80]),
        (16383, &[0xbf, 0xff]),
        (16384, &[0xc0, 0x40, 0]),
        (u64::MAX, &[0xff; 9]),
    ] {
        let mut out = Vec::new();
        vint::write_unsigned(value, &mut out);
        assert_eq!(out, bytes);
    }
    for shift in 0..64 {
        let power = 1i64 << shift;
        for value in [power, power.wrapping_neg(), power.wrapping_sub(1), i64::MAX] {
            let mut out = Vec::new();
            vint::write_signed(value, &mut out);
            assert_eq!(vint::read_signed(&mut &out[..]), Some(value));
            assert_eq!(vint::read_signed(&mut &out[..out.len() - 1]), None);
        }
    }
}
