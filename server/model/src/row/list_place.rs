//! The places of a list's elements.
//!
//! A place is the sort key of an element. As in Cassandra, elements sort by the time of their
//! request, not by the timestamp that a statement writes with. The time of a request is the
//! timestamp that drivers send with it, otherwise the server's time. So when a driver repeats a
//! request, its elements get the same places, and the repetition adds nothing.
//!
//! ```text
//! side       1  00 prepended, 01 appended
//! time       8  of the request, sign flipped; prepended: all bits inverted, the newest first
//! operation  4  the index within the request; prepended: inverted
//! element    4  the index within the operation
//! mark       4  a hash of the value: other values of the same time have other places
//! ```

use crate::key::hash3_x64_128;

/// The end of a list that new elements are added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEnd {
    /// Before all elements that earlier requests added.
    Front,
    /// After all elements that earlier requests added.
    Back,
}

/// Returns the place (the sort key) of the `element`th value that the `operation`th operation of a
/// request adds to a list, both counted from 0. `came_us` is the timestamp of the request, in
/// microseconds since 1970. The place contains a hash of `value`: two requests with the same
/// timestamp that add different values get different places, and both values stay (unless their
/// hashes collide).
pub fn list_place(
    side: ListEnd,
    came_us: i64,
    operation: u32,
    element: u32,
    value: &[u8],
) -> Vec<u8> {
    let time = came_us as u64 ^ 1 << 63;
    let (side, time, operation) = match side {
        ListEnd::Front => (0, !time, !operation),
        ListEnd::Back => (1, time, operation),
    };
    let mark = hash3_x64_128(value).0 as u32;
    let mut place = Vec::with_capacity(21);
    place.push(side);
    place.extend(time.to_be_bytes());
    place.extend(operation.to_be_bytes());
    place.extend(element.to_be_bytes());
    place.extend(mark.to_be_bytes());
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_as_the_list_is_read() {
        let in_order = [
            // The newer of two prepends comes first, with its elements in their order.
            list_place(ListEnd::Front, 20, 0, 0, b"a"),
            list_place(ListEnd::Front, 20, 0, 1, b"b"),
            list_place(ListEnd::Front, 10, 1, 0, b"c"),
            list_place(ListEnd::Front, 10, 0, 0, b"d"),
            list_place(ListEnd::Front, -5, 0, 0, b"e"),
            list_place(ListEnd::Back, i64::MIN + 1, 0, 0, b"f"),
            list_place(ListEnd::Back, -5, 0, 0, b"g"),
            list_place(ListEnd::Back, 10, 0, 0, b"h"),
            list_place(ListEnd::Back, 10, 0, 1, b"i"),
            list_place(ListEnd::Back, 10, 1, 0, b"j"),
            list_place(ListEnd::Back, i64::MAX, 0, 0, b"k"),
        ];
        assert!(in_order.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn the_same_write_has_the_same_place_and_another_value_has_another() {
        let place = |value| list_place(ListEnd::Back, 7, 0, 0, value);
        assert_eq!(place(b"x"), place(b"x"));
        assert_ne!(place(b"x"), place(b"y"));
    }
}
