//! Types in the native protocol's result metadata: an `[option]` is an id of 16 bits, followed by
//! the parameters of the type (native protocol v5, sections 3 and 4.2.5.2).

use super::CqlType;

/// The id of types that are followed by the name of a Java class.
const CUSTOM: u16 = 0x00;
/// The class of durations, which all drivers know.
const DURATION_CLASS: &str = "org.apache.cassandra.db.marshal.DurationType";

/// The form in which a message names the type `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationOption {
    /// The name of the Java class of `duration`, as for a custom type: Cassandra sends it in
    /// protocol v4.
    Class,
    /// The numeric id, which the protocol has since v5.
    Id,
}

impl DurationOption {
    /// The id of `duration` since v5.
    pub const ID: u16 = 0x15;

    /// Appends the `[option]` of the type `duration`.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Id => out.extend(Self::ID.to_be_bytes()),
            Self::Class => {
                out.extend(CUSTOM.to_be_bytes());
                write_string(DURATION_CLASS, out);
            }
        }
    }

    /// Returns whether `class` is the name of the Java class of `duration`.
    pub fn is_class(class: &str) -> bool {
        class == DURATION_CLASS
    }
}

impl CqlType {
    /// Appends the type as an `[option]`, which is the same for a frozen type and for one that is
    /// not.
    pub fn write_option(&self, durations: DurationOption, out: &mut Vec<u8>) {
        let id: u16 = match self {
            Self::Duration => return durations.write(out),
            Self::Ascii => 0x01,
            Self::Bigint => 0x02,
            Self::Blob => 0x03,
            Self::Boolean => 0x04,
            Self::Counter => 0x05,
            Self::Decimal => 0x06,
            Self::Double => 0x07,
            Self::Float => 0x08,
            Self::Int => 0x09,
            // 0x0A was a second id of `text` in version 1 of the protocol.
            Self::Timestamp => 0x0B,
            Self::Uuid => 0x0C,
            // `varchar`, the protocol's name of `text`.
            Self::Text => 0x0D,
            Self::Varint => 0x0E,
            Self::Timeuuid => 0x0F,
            Self::Inet => 0x10,
            Self::Date => 0x11,
            Self::Time => 0x12,
            Self::Smallint => 0x13,
            Self::Tinyint => 0x14,
            Self::List { .. } => 0x20,
            Self::Map { .. } => 0x21,
            Self::Set { .. } => 0x22,
            Self::Udt { .. } => 0x30,
            Self::Tuple(_) => 0x31,
        };
        out.extend(id.to_be_bytes());
        match self {
            Self::List { element, .. } | Self::Set { element, .. } => {
                element.write_option(durations, out);
            }
            Self::Map { key, value, .. } => {
                key.write_option(durations, out);
                value.write_option(durations, out);
            }
            // A type has at most `NODES_MAX` parts, so 16 bits hold their number.
            Self::Tuple(types) => {
                out.extend((types.len() as u16).to_be_bytes());
                types.iter().for_each(|t| t.write_option(durations, out));
            }
            Self::Udt { definition, .. } => {
                write_string(definition.keyspace(), out);
                write_string(definition.name(), out);
                out.extend((definition.fields().len() as u16).to_be_bytes());
                for (name, ty) in definition.fields() {
                    write_string(name, out);
                    ty.write_option(durations, out);
                }
            }
            _ => {}
        }
    }
}

/// Appends a `[string]`: a length of 16 bits and as many bytes. A longer text is cut at the last character
/// that fits: earlier versions accepted names of any length.
fn write_string(text: &str, out: &mut Vec<u8>) {
    let len = text.floor_char_boundary(usize::from(u16::MAX));
    out.extend((len as u16).to_be_bytes());
    out.extend(&text.as_bytes()[..len]);
}
