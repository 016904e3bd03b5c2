//! The Iceberg type of a CQL type, and the field ids of its parts.
//!
//! Readers find the columns of old data files by field ids, so an id is never given to another field. A
//! field keeps its id from one publication to the next: an element, a key and a value by their role, a
//! component of a tuple and a field of a user-defined type by its position, because CQL only renames such
//! fields and appends to them.

use ebb_model::types::CqlType;

use super::iceberg::{IcebergType, NestedField};
use super::{DecimalForm, TypeOptions};

/// A source of field ids. It never returns an id twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldIds {
    /// The greatest id that a field of the table has had, in this publication or an earlier one:
    /// `last-column-id` in Iceberg's metadata.
    pub last: i32,
}

impl FieldIds {
    /// Returns an id that no field of the table has had.
    ///
    /// # Panics
    /// If all ids are used, 2^31 - 1. A table has at most some thousand columns, and each change adds one id.
    fn next(&mut self) -> i32 {
        self.last = self.last.checked_add(1).expect("fewer than 2^31 field ids");
        self.last
    }
}

/// Returns the field of a column. `previous` is the field of the same column in the publication
/// before; `None` for a new column. The field and those nested in it keep the ids that they have in
/// `previous`. A new field gets a new id. So does a field whose type changed, unless both types are
/// lists, both maps, or both structs.
pub fn field(
    name: &str,
    ty: &CqlType,
    required: bool,
    options: &TypeOptions,
    previous: Option<&NestedField>,
    ids: &mut FieldIds,
) -> NestedField {
    let new = |ids: &mut FieldIds, previous| iceberg_type(ty, options, previous, ids);
    let kept = previous.and_then(|previous| {
        // A copy: if the kind has changed, the ids that this attempt gives out are not used.
        let mut tried = *ids;
        let ty = new(&mut tried, Some(&previous.ty));
        (is_same_kind(&ty, &previous.ty)).then_some((previous.id, ty, tried))
    });
    let (id, ty) = match kept {
        Some((id, ty, tried)) => {
            *ids = tried;
            (id, ty)
        }
        None => {
            let id = ids.next();
            (id, new(ids, None))
        }
    };
    NestedField {
        id,
        name: name.to_owned(),
        required,
        ty,
    }
}

/// Returns whether a field keeps its id when its type changes from `a` to `b`. It does if the types are
/// equal, or if both are lists, both maps or both structs: their nested fields have ids of their own and are
/// compared by themselves.
fn is_same_kind(a: &IcebergType, b: &IcebergType) -> bool {
    use IcebergType as T;
    match (a, b) {
        (T::List(_), T::List(_))
        | (T::Map { .. }, T::Map { .. })
        | (T::Struct(_), T::Struct(_)) => true,
        _ => a == b,
    }
}

/// Returns the Iceberg type of a CQL type. The fields nested in it keep the ids that they have in `previous`;
/// those that are new, or whose types changed, get ids from `ids`.
fn iceberg_type(
    ty: &CqlType,
    options: &TypeOptions,
    previous: Option<&IcebergType>,
    ids: &mut FieldIds,
) -> IcebergType {
    let mut part = |name: &str, ty: &CqlType, required: bool, previous: Option<&NestedField>| {
        field(name, ty, required, options, previous, ids)
    };
    match ty {
        CqlType::Boolean => IcebergType::Boolean,
        // Iceberg has no narrower integers.
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int => IcebergType::Int,
        // Spark does not read Iceberg's `time`, which has microseconds anyway.
        CqlType::Bigint | CqlType::Counter | CqlType::Time => IcebergType::Long,
        CqlType::Float => IcebergType::Float,
        CqlType::Double => IcebergType::Double,
        CqlType::Date => IcebergType::Date,
        CqlType::Timestamp => IcebergType::Timestamptz,
        CqlType::Blob => IcebergType::Binary,
        CqlType::Varint if !options.varint_as_text => IcebergType::Decimal(DecimalForm::INTEGER),
        CqlType::Decimal if options.decimal.is_some() => {
            IcebergType::Decimal(options.decimal.expect("checked"))
        }
        // Uuids are text, too: Spark shows Iceberg's `uuid` as a string, other readers as 16 bytes.
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Decimal
        | CqlType::Varint
        | CqlType::Uuid
        | CqlType::Timeuuid
        | CqlType::Inet => IcebergType::String,
        CqlType::Duration => {
            let previous = fields_of(previous);
            let parts = DURATION.iter().enumerate();
            // A duration has all three parts or is null.
            let parts = parts.map(|(place, (name, ty))| part(name, ty, true, previous.get(place)));
            IcebergType::Struct(parts.collect())
        }
        // Iceberg has no sets.
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let previous = match previous {
                Some(IcebergType::List(element)) => Some(&**element),
                _ => None,
            };
            // Not required: under `OnEmpty::Null` an empty element becomes null.
            IcebergType::List(Box::new(part("element", element, false, previous)))
        }
        CqlType::Map { key, value, .. } => {
            let (previous_key, previous_value) = match previous {
                Some(IcebergType::Map { key, value }) => (Some(&**key), Some(&**value)),
                _ => (None, None),
            };
            // Iceberg requires the keys of maps.
            IcebergType::Map {
                key: Box::new(part("key", key, true, previous_key)),
                value: Box::new(part("value", value, false, previous_value)),
            }
        }
        CqlType::Tuple(types) => {
            let previous = fields_of(previous);
            let parts = types.iter().enumerate();
            // Spark calls the components of its tuples so.
            let parts = parts.map(|(place, ty)| {
                part(&format!("_{}", place + 1), ty, false, previous.get(place))
            });
            IcebergType::Struct(parts.collect())
        }
        CqlType::Udt { definition, .. } => {
            let previous = fields_of(previous);
            let parts = definition.fields().iter().enumerate();
            let parts = parts.map(|(place, (name, ty))| part(name, ty, false, previous.get(place)));
            IcebergType::Struct(parts.collect())
        }
    }
}

/// The fields of the struct that a CQL duration becomes, with their CQL types: the struct gets its field ids
/// in the same way as that of a user-defined type.
pub(super) const DURATION: [(&str, CqlType); 3] = [
    ("months", CqlType::Int),
    ("days", CqlType::Int),
    ("nanoseconds", CqlType::Bigint),
];

/// Returns the fields of a struct; none of any other type.
fn fields_of(previous: Option<&IcebergType>) -> &[NestedField] {
    match previous {
        Some(IcebergType::Struct(fields)) => fields,
        _ => &[],
    }
}
