//! Types as they are written.

use super::QualifiedName;

/// A type as it is written. Whether a nested type is frozen, and whether it may stand
/// where it stands, is for the schema to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeName {
    /// One of CQL's own.
    Native(NativeType),
    /// `list<t>`.
    List(Box<TypeName>),
    /// `set<t>`.
    Set(Box<TypeName>),
    /// `map<k, v>`.
    Map(Box<TypeName>, Box<TypeName>),
    /// `tuple<a, b>`, at least one.
    Tuple(Vec<TypeName>),
    /// `vector<t, n>`.
    Vector(Box<TypeName>, u32),
    /// `frozen<t>`.
    Frozen(Box<TypeName>),
    /// A user-defined type.
    User(QualifiedName),
    /// `'org.apache.cassandra.db.marshal.…'`: a class of Cassandra's.
    Custom(String),
}

/// CQL's own types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is called as in CQL")]
pub enum NativeType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    /// Also written `varchar`.
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarInt,
}

impl NativeType {
    /// Every type and its name in CQL.
    pub const ALL: [(NativeType, &'static str); 20] = [
        (NativeType::Ascii, "ascii"),
        (NativeType::BigInt, "bigint"),
        (NativeType::Blob, "blob"),
        (NativeType::Boolean, "boolean"),
        (NativeType::Counter, "counter"),
        (NativeType::Date, "date"),
        (NativeType::Decimal, "decimal"),
        (NativeType::Double, "double"),
        (NativeType::Duration, "duration"),
        (NativeType::Float, "float"),
        (NativeType::Inet, "inet"),
        (NativeType::Int, "int"),
        (NativeType::SmallInt, "smallint"),
        (NativeType::Text, "text"),
        (NativeType::Time, "time"),
        (NativeType::Timestamp, "timestamp"),
        (NativeType::TimeUuid, "timeuuid"),
        (NativeType::TinyInt, "tinyint"),
        (NativeType::Uuid, "uuid"),
        (NativeType::VarInt, "varint"),
    ];

    /// Its name in CQL.
    pub fn name(self) -> &'static str {
        // The order of `ALL` is that of the variants; a test holds it.
        Self::ALL[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_order_of_the_variants() {
        for (at, (native, name)) in NativeType::ALL.into_iter().enumerate() {
            assert_eq!((native as usize, native.name()), (at, name));
        }
    }
}
