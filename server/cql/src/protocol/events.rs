//! What a server tells without being asked.

use std::net::SocketAddr;

use bytes::BytesMut;

use super::fault::{ProtocolError, Result};
use super::reader::Reader;
use super::writer;

const TOPOLOGY: &str = "TOPOLOGY_CHANGE";
const STATUS: &str = "STATUS_CHANGE";
const SCHEMA: &str = "SCHEMA_CHANGE";

/// Kinds of events that a connection asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventTypes {
    /// Nodes that come and go.
    pub topology: bool,
    /// Nodes that are up and down.
    pub status: bool,
    /// Changes of the schema.
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
                Some((_, asked)) => *asked = true,
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
        let asked = all.into_iter().filter(|(asked, _)| *asked);
        let names: Vec<_> = asked.map(|(_, name)| name).collect();
        writer::string_list(out, &names);
    }

    /// Whether the connection asked for this one.
    pub fn contains(&self, event: &Event) -> bool {
        match event {
            Event::Topology { .. } => self.topology,
            Event::Status { .. } => self.status,
            Event::Schema(_) => self.schema,
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node came or went.
    Topology {
        /// Which of the two.
        change: TopologyChange,
        /// Where clients reach it.
        node: SocketAddr,
    },
    /// A node is up or down.
    Status {
        /// Which of the two.
        change: StatusChange,
        /// Where clients reach it.
        node: SocketAddr,
    },
    /// The schema changed.
    Schema(SchemaChange),
}

/// Enums that travel as words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$each:meta])* $variant:ident = $word:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            /// The word on the wire.
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
    /// What became of a node in the cluster.
    TopologyChange, "change of the topology",
    /// It joined.
    NewNode = "NEW_NODE",
    /// It left.
    RemovedNode = "REMOVED_NODE",
}

words! {
    /// What became of a node's server.
    StatusChange, "change of a status",
    /// It answers.
    Up = "UP",
    /// It does not.
    Down = "DOWN",
}

words! {
    /// What was done to a part of the schema.
    SchemaChangeKind, "change of the schema",
    /// It is new.
    Created = "CREATED",
    /// It is another.
    Updated = "UPDATED",
    /// It is gone.
    Dropped = "DROPPED",
}

/// A change of the schema: an event as well as the result of the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// What was done.
    pub kind: SchemaChangeKind,
    /// The keyspace, or the one that what changed lies in.
    pub keyspace: String,
    /// To what.
    pub target: SchemaTarget,
}

/// What changed in the schema. An index counts as its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table, by its name.
    Table(String),
    /// A user-defined type, by its name.
    Type(String),
    /// A function, by its name and the CQL types of its arguments.
    Function(String, Vec<String>),
    /// An aggregate, by its name and the CQL types of its arguments.
    Aggregate(String, Vec<String>),
}

impl SchemaChange {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let kind = SchemaChangeKind::read(reader)?;
        let target = reader.string("the target of a change")?;
        let keyspace = reader.string("a keyspace")?.to_owned();
        let what = "the name of what changed";
        let mut name = || reader.string(what).map(str::to_owned);
        let target = match target {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table(name()?),
            "TYPE" => SchemaTarget::Type(name()?),
            "FUNCTION" => SchemaTarget::Function(name()?, arguments(reader)?),
            "AGGREGATE" => SchemaTarget::Aggregate(name()?, arguments(reader)?),
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
        let (target, name, arguments) = match &self.target {
            SchemaTarget::Keyspace => ("KEYSPACE", None, None),
            SchemaTarget::Table(name) => ("TABLE", Some(name), None),
            SchemaTarget::Type(name) => ("TYPE", Some(name), None),
            SchemaTarget::Function(name, types) => ("FUNCTION", Some(name), Some(types)),
            SchemaTarget::Aggregate(name, types) => ("AGGREGATE", Some(name), Some(types)),
        };
        writer::string(out, target);
        writer::string(out, &self.keyspace);
        if let Some(name) = name {
            writer::string(out, name);
        }
        if let Some(types) = arguments {
            writer::string_list(out, types);
        }
    }
}

fn arguments(reader: &mut Reader<'_>) -> Result<Vec<String>> {
    let types = reader.string_list("the types of arguments")?;
    Ok(types.into_iter().map(str::to_owned).collect())
}

impl Event {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let node = "the address of a node";
        match reader.string("the type of an event")? {
            TOPOLOGY => Ok(Self::Topology {
                change: TopologyChange::read(reader)?,
                node: reader.inet(node)?,
            }),
            STATUS => Ok(Self::Status {
                change: StatusChange::read(reader)?,
                node: reader.inet(node)?,
            }),
            SCHEMA => SchemaChange::read(reader).map(Self::Schema),
            other => Err(ProtocolError::unknown_word("type of an event", other)),
        }
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        let (name, change, node) = match self {
            Self::Topology { change, node } => (TOPOLOGY, change.word(), *node),
            Self::Status { change, node } => (STATUS, change.word(), *node),
            Self::Schema(change) => {
                writer::string(out, SCHEMA);
                return change.write(out);
            }
        };
        writer::string(out, name);
        writer::string(out, change);
        writer::inet(out, node);
    }
}
