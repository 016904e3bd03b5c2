//! Changes of the schema, as the results of statements and as events. Clients may register for the
//! other types of events too, but ebb has a single node and sends none of them.

use bytes::BytesMut;

use super::fault::{ProtocolError, Result};
use super::reader::Reader;
use super::writer;

const TOPOLOGY: &str = "TOPOLOGY_CHANGE";
const STATUS: &str = "STATUS_CHANGE";
const SCHEMA: &str = "SCHEMA_CHANGE";

/// The event types that a connection has registered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTypes {
    /// Whether the connection has registered for events of nodes that join and leave.
    pub topology: bool,
    /// Whether the connection has registered for events of nodes that go up and down.
    pub status: bool,
    /// Whether the connection has registered for changes of the schema.
    pub schema: bool,
}

impl EventTypes {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut types = Self::default();
        let what = "the type of an event";
        for _ in 0..reader.short(what)? {
            let name = reader.string(what)?;
            let known = [
                (TOPOLOGY, &mut types.topology),
                (STATUS, &mut types.status),
                (SCHEMA, &mut types.schema),
            ];
            let mut known = known.into_iter();
            match known.find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, is_registered)) => *is_registered = true,
                None => return Err(ProtocolError::unknown_word("type of an event", name)),
            }
        }
        Ok(types)
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        let all = [
            (self.topology, TOPOLOGY),
            (self.status, STATUS),
            (self.schema, SCHEMA),
        ];
        let registered = all.into_iter().filter(|(is_registered, _)| *is_registered);
        let names: Vec<_> = registered.map(|(_, name)| name).collect();
        writer::string_list(out, &names);
    }
}

/// Declares enums whose values the protocol encodes as strings, such as `SIMPLE`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$each:meta])* $variant:ident = $word:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
                match reader.string($what)? {
                    $($word => Ok(Self::$variant),)*
                    other => Err(ProtocolError::unknown_word($what, other)),
                }
            }
        }
    };
}
pub(super) use words;

words! {
    SchemaChangeKind, "change of the schema",
    Created = "CREATED",
    Updated = "UPDATED",
    Dropped = "DROPPED",
}

/// A change of the schema, in an event or in the result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    pub kind: SchemaChangeKind,
    /// The changed keyspace, or the keyspace of the changed object.
    pub keyspace: String,
    pub target: SchemaTarget,
}

/// The changed object. A change of an index is sent as a change of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaTarget {
    Keyspace,
    Table(String),
    Type(String),
}

impl SchemaChange {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let kind = SchemaChangeKind::read(reader)?;
        let target = reader.string("the target of a change")?;
        let keyspace = reader.string("a keyspace")?.to_owned();
        let what = "the name of what changed";
        let target = match target {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table(reader.string(what)?.to_owned()),
            "TYPE" => SchemaTarget::Type(reader.string(what)?.to_owned()),
            other => return Err(ProtocolError::unknown_word("target of a change", other)),
        };
        Ok(Self {
            kind,
            keyspace,
            target,
        })
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        writer::string(out, self.kind.word());
        let (target, name) = match &self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None),
            SchemaTarget::Table(name) => ("TABLE", Some(name)),
            SchemaTarget::Type(name) => ("TYPE", Some(name)),
        };
        writer::string(out, target);
        writer::string(out, &self.keyspace);
        if let Some(name) = name {
            writer::string(out, name);
        }
    }

    pub(super) fn read_event(reader: &mut Reader<'_>) -> Result<Self> {
        match reader.string("the type of an event")? {
            SCHEMA => Self::read(reader),
            other => Err(ProtocolError::unknown_word("type of an event", other)),
        }
    }

    pub(super) fn write_event(&self, out: &mut BytesMut) {
        writer::string(out, SCHEMA);
        self.write(out);
    }
}
