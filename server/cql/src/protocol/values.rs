//! Values bound to a statement, as they are in the request.

use bytes::BytesMut;

use super::fault::Result;
use super::reader::{Reader, Value};
use super::writer;

/// The bound values of one statement. They are validated when the request is decoded. Iterations
/// then read them from the bytes of the request, without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Values<'a> {
    count: u16,
    named: bool,
    // `count` times a [string] (if named) and a [value].
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, named: bool) -> Result<Self> {
        let count = reader.short("the count of values")?;
        let from = reader.rest();
        for _ in 0..count {
            if named {
                reader.string("the name of a value")?;
            }
            reader.value("a value")?;
        }
        let bytes = &from[..from.len() - reader.rest().len()];
        Ok(Self {
            count,
            named: named && count > 0,
            bytes,
        })
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(self.bytes);
    }

    pub fn len(&self) -> usize {
        self.count.into()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the length, in bytes, of the values with their names and lengths in the request.
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether each value has the name of its marker.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// Returns the values in the order sent, with their names if they have any.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&'a str>, Value<'a>)> + use<'a> {
        let (named, mut reader) = (self.named, Reader::new(self.bytes));
        (0..self.count).map_while(move |_| {
            let name = named.then(|| reader.string("the name of a value"));
            // Both were decoded before, so this cannot fail.
            Some((name.transpose().ok()?, reader.value("a value").ok()?))
        })
    }
}

/// A buffer for the encoded values of a request to send.
#[derive(Debug, Clone, Default)]
pub struct ValuesBuf {
    count: u16,
    named: bool,
    bytes: BytesMut,
}

impl ValuesBuf {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a value by position.
    ///
    /// # Panics
    /// If an earlier value has a name, or there are 65,535 values.
    pub fn push(&mut self, value: Value<'_>) -> &mut Self {
        assert!(!self.named, "the values before this have names");
        self.append(value)
    }

    /// Appends a value by the name of its marker.
    ///
    /// # Panics
    /// If an earlier value has no name, or there are 65,535 values.
    pub fn push_named(&mut self, name: &str, value: Value<'_>) -> &mut Self {
        assert!(
            self.named || self.count == 0,
            "the values before this have no names"
        );
        self.named = true;
        writer::string(&mut self.bytes, name);
        self.append(value)
    }

    fn append(&mut self, value: Value<'_>) -> &mut Self {
        self.count = self.count.checked_add(1).expect("at most 65,535 values");
        writer::value(&mut self.bytes, value);
        self
    }

    pub fn as_values(&self) -> Values<'_> {
        Values {
            count: self.count,
            named: self.named,
            bytes: &self.bytes,
        }
    }
}

impl<'a> FromIterator<Value<'a>> for ValuesBuf {
    /// Appends the values by position.
    fn from_iter<I: IntoIterator<Item = Value<'a>>>(values: I) -> Self {
        let mut buffer = Self::new();
        for value in values {
            buffer.push(value);
        }
        buffer
    }
}
