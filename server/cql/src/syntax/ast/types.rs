//! Syntax trees of types.

use ebb_model::types::CqlType;

use super::QualifiedName;

/// A type as written. The schema checks whether nested types are frozen, and whether the type is
/// allowed where it occurs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeName {
    /// A native type: one of [`CqlType::NATIVE`].
    Native(CqlType),
    List(Box<TypeName>),
    Set(Box<TypeName>),
    Map(Box<TypeName>, Box<TypeName>),
    /// `tuple<a, b>`, at least one type.
    Tuple(Vec<TypeName>),
    /// `vector<t, n>`.
    Vector(Box<TypeName>, u32),
    Frozen(Box<TypeName>),
    User(QualifiedName),
    /// `'org.apache.cassandra.db.marshal.…'`: a Java class of Cassandra.
    Custom(String),
}
