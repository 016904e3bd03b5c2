//! The schema that a container file carries.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{AvroError, Result};

/// The schema of a container file.
#[derive(Debug)]
pub(super) struct Schema {
    /// The position, in `records`, of the type of the file's records.
    root: usize,
    /// The fields of each type of record. Other types refer to a type of record by its position in
    /// this list, because a record may contain records of its own type.
    records: Vec<Vec<Field>>,
}

/// A field of a record.
#[derive(Debug)]
pub(super) struct Field {
    /// The id that Iceberg gives the field; `None` if the schema names no id.
    pub(super) id: Option<i32>,
    pub(super) ty: Type,
}

/// A type of Avro. Types with the same encoding are one variant.
#[derive(Debug, Clone)]
pub(super) enum Type {
    Null,
    Boolean,
    /// An `int`, a `long`, or an `enum`, which is encoded as the number of its symbol.
    Integer,
    Float,
    Double,
    /// A `bytes` or a `string`.
    Bytes,
    /// A `fixed` of this number of bytes.
    Fixed(usize),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    /// A record, whose type has this position among the schema's types of records.
    Record(usize),
}

impl Schema {
    /// Parses the JSON of a schema.
    ///
    /// # Errors
    /// If the JSON is no schema of Avro, or one of another type than a record.
    pub(super) fn parse(json: &[u8]) -> Result<Self> {
        let json = serde_json::from_slice(json);
        let json: Json = json.map_err(|_| AvroError::new("its schema is no JSON"))?;
        let mut parser = Parser::default();
        let Type::Record(root) = parser.ty(&json, "")? else {
            return Err(AvroError::new("its schema is not that of records"));
        };
        Ok(Self {
            root,
            records: parser.records,
        })
    }

    pub(super) fn root(&self) -> usize {
        self.root
    }

    pub(super) fn fields(&self, record: usize) -> &[Field] {
        &self.records[record]
    }
}

#[derive(Default)]
struct Parser<'j> {
    /// The named types that the schema has defined so far, by their namespaces and names. The keys are parts of
    /// the schema: a copy of a long namespace for each of many names would fill the memory.
    named: HashMap<(&'j str, &'j str), Type>,
    records: Vec<Vec<Field>>,
}

impl<'j> Parser<'j> {
    /// Reads a type. `namespace` is the namespace of the enclosing definition, and empty if there is none. The
    /// JSON parser limits how deeply types are nested.
    fn ty(&mut self, json: &'j Json, namespace: &'j str) -> Result<Type> {
        match json {
            Json::String(name) => self.by_name(name, namespace),
            Json::Array(branches) => {
                let branches = branches.iter().map(|branch| self.ty(branch, namespace));
                Ok(Type::Union(branches.collect::<Result<_>>()?))
            }
            Json::Object(_) => {
                let missing = || AvroError::new("its schema has a type without a kind");
                match json.get("type").ok_or_else(missing)? {
                    Json::String(kind) => self.of_kind(kind, json, namespace),
                    inner => self.ty(inner, namespace),
                }
            }
            _ => Err(AvroError::new("its schema has a type that is none")),
        }
    }

    fn by_name(&self, name: &'j str, namespace: &'j str) -> Result<Type> {
        Ok(match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "int" | "long" => Type::Integer,
            "float" => Type::Float,
            "double" => Type::Double,
            "bytes" | "string" => Type::Bytes,
            _ => {
                let known = self.named.get(&full_name(name, namespace));
                let known = known.or_else(|| self.named.get(&("", name)));
                let unknown = || AvroError::new(format!("its schema has no type {name:?}"));
                known.cloned().ok_or_else(unknown)?
            }
        })
    }

    fn of_kind(&mut self, kind: &'j str, json: &'j Json, namespace: &'j str) -> Result<Type> {
        let part = |name: &str| {
            let part = json.get(name);
            part.ok_or_else(|| AvroError::new(format!("its schema has {kind} without {name}")))
        };
        match kind {
            "array" => {
                let items = part("items")?;
                Ok(Type::Array(Box::new(self.ty(items, namespace)?)))
            }
            "map" => {
                let values = part("values")?;
                Ok(Type::Map(Box::new(self.ty(values, namespace)?)))
            }
            "record" | "enum" | "fixed" => {
                let name = part("name")?.as_str().unwrap_or_default();
                let own = json.get("namespace").and_then(Json::as_str);
                let name = full_name(name, own.unwrap_or(namespace));
                let ty = match kind {
                    "enum" => Type::Integer,
                    "fixed" => {
                        let size = part("size")?.as_u64().and_then(|size| size.try_into().ok());
                        let none = || AvroError::new("its schema has fixed without a size");
                        Type::Fixed(size.ok_or_else(none)?)
                    }
                    _ => Type::Record(self.records.len()),
                };
                self.named.insert(name, ty.clone());
                if let Type::Record(at) = ty {
                    self.records.push(Vec::new());
                    self.records[at] = self.fields(part("fields")?, name.0)?;
                }
                Ok(ty)
            }
            _ => self.by_name(kind, namespace),
        }
    }

    fn fields(&mut self, json: &'j Json, namespace: &'j str) -> Result<Vec<Field>> {
        let none = || AvroError::new("its schema has a record without fields");
        let fields = json.as_array().ok_or_else(none)?.iter();
        let field = |field: &'j Json| -> Result<Field> {
            let none = || AvroError::new("its schema has a field without a type");
            let id = field.get("field-id").and_then(Json::as_i64);
            Ok(Field {
                id: id.and_then(|id| id.try_into().ok()),
                ty: self.ty(field.get("type").ok_or_else(none)?, namespace)?,
            })
        };
        fields.map(field).collect()
    }
}

/// Splits the name of a type into its namespace and the name in it. A name without a dot is in `namespace`.
fn full_name<'j>(name: &'j str, namespace: &'j str) -> (&'j str, &'j str) {
    name.rsplit_once('.').unwrap_or((namespace, name))
}
