//! Types as they are written.

use ebb_model::types::CqlType;

use super::QualifiedName;

/// A type as it is written. Whether a nested type is frozen, and whether it may stand
/// where it stands, is for the schema to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeName {
    /// One of CQL's own types: one of [`CqlType::NATIVE`].
    Native(CqlType),
    List(Box<TypeName>),
    Set(Box<TypeName>),
    Map(Box<TypeName>, Box<TypeName>),
    /// `tuple<a, b>`, at least one.
    Tuple(Vec<TypeName>),
    /// `vector<t, n>`.
    Vector(Box<TypeName>, u32),
    Frozen(Box<TypeName>),
    User(QualifiedName),
    /// `'org.apache.cassandra.db.marshal.…'`: a class of Cassandra's.
    Custom(String),
}
