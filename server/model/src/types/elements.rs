//! The parts of collections, tuples and user-defined types (native protocol v3 and later).
//!
//! ```text
//! list, set   count: i32 | count x element
//! map         count: i32 | count x (key, value)
//! tuple, udt  one element per type; trailing ones may be missing and are null then
//! element     length: i32, negative is null | length x byte
//! ```
//!
//! All integers are big endian.

use super::TypeError;

/// Reads the elements of a list or set. For a map use [`pairs`].
///
/// # Errors
/// If there is no count or a negative one. A count above the real number of elements is detected only
/// by the iteration, which ends with an error at the end of the bytes.
pub fn elements(bytes: &[u8]) -> Result<Elements<'_>, TypeError> {
    let (count, rest) = split_count(bytes)?;
    Ok(Elements {
        left: count as u64,
        rest,
    })
}

/// Reads keys and values of a map in turn: two elements for each entry.
///
/// # Errors
/// See [`elements`].
pub fn pairs(bytes: &[u8]) -> Result<Elements<'_>, TypeError> {
    let mut parts = elements(bytes)?;
    parts.left *= 2;
    Ok(parts)
}

/// Returns an iterator over the components of a tuple or the fields of a user-defined type that the
/// bytes contain. The last ones may be missing.
pub fn components(bytes: &[u8]) -> Components<'_> {
    Components { rest: bytes }
}

/// Returns the number of elements or entries in the header of a collection.
///
/// # Errors
/// If there is no count or a negative one.
pub fn count(bytes: &[u8]) -> Result<usize, TypeError> {
    split_count(bytes).map(|(count, _)| count)
}

fn split_count(bytes: &[u8]) -> Result<(usize, &[u8]), TypeError> {
    let (count, rest) = split_i32(bytes)
        .ok_or_else(|| TypeError::new("Not enough bytes to read the size of a collection"))?;
    match usize::try_from(count) {
        Ok(count) => Ok((count, rest)),
        Err(_) => Err(TypeError::new(
            "The data cannot be deserialized as a collection: its size is negative",
        )),
    }
}

pub(super) fn split_i32(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*head), rest))
}

/// Removes one element from the front of `rest`, and returns it: `Some(None)` is a null, and `None`
/// means that there are too few bytes.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, after) = split_i32(rest)?;
    let Ok(len) = usize::try_from(len) else {
        *rest = after;
        return Some(None);
    };
    let (element, after) = after.split_at_checked(len)?;
    *rest = after;
    Some(Some(element))
}

/// The elements of a collection; `None` is a null, which CQL does not allow there. The iteration
/// ends after an error.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    left: u64,
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Returns the bytes that the iteration has not read; after the last element none should be
    /// left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Option<&'a [u8]>, TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(take(&mut self.rest).ok_or_else(|| {
            self.left = 0;
            TypeError::new("Not enough bytes to read a collection")
        }))
    }
}

/// The components of a tuple or user-defined type. The iteration ends after an error.
#[derive(Debug, Clone)]
pub struct Components<'a> {
    rest: &'a [u8],
}

impl<'a> Components<'a> {
    /// Returns the bytes behind the components that the iteration has returned so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = Result<Option<&'a [u8]>, TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(take(&mut self.rest).ok_or_else(|| {
            self.rest = &[];
            TypeError::new("Not enough bytes to read a component")
        }))
    }
}

/// Appends one element: its length and its bytes, or null.
///
/// # Panics
/// If the element is longer than `i32::MAX`. Elements come in frames, which are far smaller.
pub fn write_element(element: Option<&[u8]>, out: &mut Vec<u8>) {
    match element {
        Some(bytes) => {
            let len = i32::try_from(bytes.len()).expect("values are smaller than a frame");
            out.extend(len.to_be_bytes());
            out.extend(bytes);
        }
        None => out.extend((-1i32).to_be_bytes()),
    }
}

/// Encodes a list or set of `elements` in the given order.
///
/// # Panics
/// If there are more than `i32::MAX` elements, or more bytes in one of them.
pub fn build<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut out = vec![0; 4];
    let mut count = 0i32;
    for element in elements {
        write_element(Some(element.as_ref()), &mut out);
        count += 1;
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    out
}

/// Encodes a map of `entries` in the given order.
///
/// # Panics
/// If there are more than `i32::MAX` entries, or more bytes in one key or value.
pub fn build_map<K, V>(entries: impl IntoIterator<Item = (K, V)>) -> Vec<u8>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    let mut out = vec![0; 4];
    let mut count = 0i32;
    for (key, value) in entries {
        write_element(Some(key.as_ref()), &mut out);
        write_element(Some(value.as_ref()), &mut out);
        count += 1;
    }
    out[..4].copy_from_slice(&count.to_be_bytes());
    out
}

/// Encodes a tuple or a value of a user-defined type.
///
/// # Panics
/// If a component is longer than `i32::MAX`.
pub fn build_tuple<'a>(components: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    for component in components {
        write_element(component, &mut out);
    }
    out
}
