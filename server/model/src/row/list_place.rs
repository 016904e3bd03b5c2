//! The places of a list's elements.
//!
//! A place is bytes by which the elements sort. As in Cassandra they sort by when they came,
//! whatever timestamp a statement writes them at. When that was the request says, by the
//! timestamp that drivers send with it, and otherwise the server's. So a request that a
//! driver sends again names the same places and adds nothing.
//!
//! ```text
//! side       1  00 prepended, 01 appended
//! time       8  of the request, sign flipped; prepended: all bits inverted, the newest first
//! operation  4  which one of its request; prepended: inverted
//! element    4  which one of its operation
//! mark       4  a hash of the value: other values of the same time have other places
//! ```

use crate::key::hash3_x64_128;

/// Where new elements go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEnd {
    /// Before all that are there.
    Front,
    /// After all that are there.
    Back,
}

/// The place of the `element`th value that the `operation`th operation of a request adds, both
/// counted from 0. The request came at `came_us`, in microseconds since 1970.
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
            // The newer of two prepends comes first, its own elements in their order.
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
