//! Types of Iceberg, and their JSON (Iceberg's specification, version 2, appendix C).

use serde_json::{Value, json};

use super::DecimalForm;

/// A type of an Iceberg table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IcebergType {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Date,
    Timestamptz,
    String,
    Binary,
    Decimal(DecimalForm),
    /// A list. The field of its elements is called `element`.
    List(Box<NestedField>),
    Map {
        /// The field of the keys, which is called `key` and is required.
        key: Box<NestedField>,
        /// The field of the map's values, which is called `value`.
        value: Box<NestedField>,
    },
    Struct(Vec<NestedField>),
}

/// A column of an Iceberg table, or a field inside of a column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedField {
    /// The id of the field, unique in the table. Readers find the field in a data file by this id.
    pub id: i32,
    /// The name in the current schema, which users see and may change.
    pub name: String,
    /// Whether the field is never null.
    pub required: bool,
    pub ty: IcebergType,
}

impl NestedField {
    /// Returns the field as an entry of `fields` in the JSON of a schema.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "required": self.required,
            "type": self.ty.to_json(),
        })
    }

    /// Parses an entry of `fields` in the JSON of a schema, as [`to_json`](Self::to_json) returns it. `None`
    /// if the JSON has another form, or a type that ebb does not publish.
    pub fn from_json(json: &Value) -> Option<Self> {
        Some(Self {
            id: id(json, "id")?,
            name: json.get("name")?.as_str()?.to_owned(),
            required: json.get("required")?.as_bool()?,
            ty: IcebergType::from_json(json.get("type")?)?,
        })
    }
}

impl IcebergType {
    /// Returns the JSON of the type: a string, or an object for nested types.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Boolean => "boolean".into(),
            Self::Int => "int".into(),
            Self::Long => "long".into(),
            Self::Float => "float".into(),
            Self::Double => "double".into(),
            Self::Date => "date".into(),
            Self::Timestamptz => "timestamptz".into(),
            Self::String => "string".into(),
            Self::Binary => "binary".into(),
            Self::Decimal(DecimalForm { precision, scale }) => {
                format!("decimal({precision}, {scale})").into()
            }
            Self::List(element) => json!({
                "type": "list",
                "element-id": element.id,
                "element-required": element.required,
                "element": element.ty.to_json(),
            }),
            Self::Map { key, value } => json!({
                "type": "map",
                "key-id": key.id,
                "key": key.ty.to_json(),
                "value-id": value.id,
                "value-required": value.required,
                "value": value.ty.to_json(),
            }),
            Self::Struct(fields) => json!({
                "type": "struct",
                "fields": fields.iter().map(NestedField::to_json).collect::<Vec<_>>(),
            }),
        }
    }

    /// Parses the JSON of a type, as [`to_json`](Self::to_json) returns it. `None` if the JSON has another
    /// form, or a type that ebb does not publish.
    pub fn from_json(json: &Value) -> Option<Self> {
        if let Some(name) = json.as_str() {
            return Self::primitive(name);
        }
        let part = |name: &str, required: bool| {
            Some(Box::new(NestedField {
                id: id(json, &format!("{name}-id"))?,
                name: name.to_owned(),
                required,
                ty: Self::from_json(json.get(name)?)?,
            }))
        };
        match json.get("type")?.as_str()? {
            "list" => Some(Self::List(part(
                "element",
                json.get("element-required")?.as_bool()?,
            )?)),
            "map" => Some(Self::Map {
                key: part("key", true)?,
                value: part("value", json.get("value-required")?.as_bool()?)?,
            }),
            "struct" => {
                let fields = json.get("fields")?.as_array()?.iter();
                let fields: Option<_> = fields.map(NestedField::from_json).collect();
                fields.map(Self::Struct)
            }
            _ => None,
        }
    }

    fn primitive(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "date" => Self::Date,
            "timestamptz" => Self::Timestamptz,
            "string" => Self::String,
            "binary" => Self::Binary,
            _ => {
                let form = name.strip_prefix("decimal(")?.strip_suffix(')')?;
                let (precision, scale) = form.split_once(',')?;
                let digits = |text: &str| text.trim().parse().ok();
                Self::Decimal(DecimalForm::new(digits(precision)?, digits(scale)?)?)
            }
        })
    }
}

fn id(json: &Value, name: &str) -> Option<i32> {
    json.get(name)?.as_i64()?.try_into().ok()
}
