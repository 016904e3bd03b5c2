//! Values of records, decoded by the schema of their file, and the fields that a reader looks for.

use super::schema::{Field, Schema, Type};
use super::{AvroError, Decoder, Result};

/// The greatest depth of nested values. A type may contain itself, so the schema does not limit the depth.
const DEPTH_MAX: usize = 64;

/// The greatest number of values in one record. The bytes of a file do not limit this number: a
/// record of nulls takes no bytes, and a schema can nest records such that each level doubles the
/// number of values. The record of a data file with statistics of ten thousand columns has less
/// than a fifth of this number.
pub(super) const VALUES_MAX: usize = 1 << 20;

/// A decoded value. Manifests are read for integers, bytes, arrays and records only.
#[derive(Debug)]
pub(in crate::iceberg) enum Value<'a> {
    Null,
    Integer(i64),
    /// The bytes of a `bytes` or a `fixed`, or the UTF-8 of a string.
    Bytes(&'a [u8]),
    Array(Vec<Value<'a>>),
    Record(Record<'a>),
    /// A value of another type, which was skipped.
    Other,
}

/// A record, whose fields are found by Iceberg's ids. A field that is null is treated as missing.
#[derive(Debug)]
pub(in crate::iceberg) struct Record<'a> {
    fields: &'a [Field],
    values: Vec<Value<'a>>,
}

impl Schema {
    /// Decodes the next record of the file. `values_left` is the number of values that the file may
    /// still have; the number of values in the record is subtracted from it.
    pub(super) fn decode<'a>(
        &'a self,
        from: &mut Decoder<'a>,
        values_left: &mut usize,
    ) -> Result<Record<'a>> {
        let values_max = VALUES_MAX.min(*values_left);
        let mut left = values_max;
        let record = self.record(self.root(), from, DEPTH_MAX, &mut left)?;
        *values_left -= values_max - left;
        Ok(record)
    }

    fn record<'a>(
        &'a self,
        record: usize,
        from: &mut Decoder<'a>,
        depth: usize,
        values_left: &mut usize,
    ) -> Result<Record<'a>> {
        let fields = self.fields(record);
        let values = fields
            .iter()
            .map(|field| self.value(&field.ty, from, depth, values_left));
        Ok(Record {
            fields,
            values: values.collect::<Result<_>>()?,
        })
    }

    fn value<'a>(
        &'a self,
        ty: &'a Type,
        from: &mut Decoder<'a>,
        depth: usize,
        values_left: &mut usize,
    ) -> Result<Value<'a>> {
        let too_many = || AvroError::new("its records have too many values");
        *values_left = values_left.checked_sub(1).ok_or_else(too_many)?;
        let too_deep = || AvroError::new("its values lie too deep in each other");
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        let other = |_: &[u8]| Value::Other;
        match ty {
            Type::Null => Ok(Value::Null),
            Type::Boolean => from.take(size_of::<u8>()).map(other),
            Type::Integer => from.long().map(Value::Integer),
            Type::Float => from.take(size_of::<f32>()).map(other),
            Type::Double => from.take(size_of::<f64>()).map(other),
            Type::Bytes => from.blob().map(Value::Bytes),
            Type::Fixed(bytes) => from.take(*bytes).map(Value::Bytes),
            Type::Array(item) => {
                let mut items = Vec::new();
                from.items(|from| {
                    items.push(self.value(item, from, depth, values_left)?);
                    Ok(())
                })?;
                Ok(Value::Array(items))
            }
            Type::Map(of) => {
                from.items(|from| {
                    from.blob()?;
                    self.value(of, from, depth, values_left).map(drop)
                })?;
                Ok(Value::Other)
            }
            Type::Union(branches) => {
                let at = usize::try_from(from.long()?);
                let branch = at.ok().and_then(|at| branches.get(at));
                let none = || AvroError::new("a union has no such branch");
                self.value(branch.ok_or_else(none)?, from, depth, values_left)
            }
            Type::Record(record) => {
                let record = self.record(*record, from, depth, values_left)?;
                Ok(Value::Record(record))
            }
        }
    }
}

impl<'a> Value<'a> {
    pub(in crate::iceberg) fn long(&self) -> Result<i64> {
        match self {
            Self::Integer(value) => Ok(*value),
            _ => Err(AvroError::new("a value is no integer")),
        }
    }

    pub(in crate::iceberg) fn record(&self) -> Result<&Record<'a>> {
        match self {
            Self::Record(record) => Ok(record),
            _ => Err(AvroError::new("a value is no record")),
        }
    }

    fn bytes(&self) -> Result<&'a [u8]> {
        match *self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(AvroError::new("a value is no bytes and no text")),
        }
    }

    fn array(&self) -> Result<&[Self]> {
        match self {
            Self::Array(items) => Ok(items),
            _ => Err(AvroError::new("a value is no array")),
        }
    }
}

impl<'a> Record<'a> {
    fn get(&self, id: i32) -> Option<&Value<'a>> {
        let at = self.fields.iter().position(|field| field.id == Some(id))?;
        let value = self.values.get(at);
        value.filter(|value| !matches!(value, Value::Null))
    }

    fn required(&self, id: i32) -> Result<&Value<'a>> {
        let missing = || AvroError::new(format!("a record lacks the field of id {id}"));
        self.get(id).ok_or_else(missing)
    }

    pub(in crate::iceberg) fn long(&self, id: i32) -> Result<i64> {
        self.required(id)?.long()
    }

    pub(in crate::iceberg) fn optional_long(&self, id: i32) -> Result<Option<i64>> {
        self.get(id).map(Value::long).transpose()
    }

    pub(in crate::iceberg) fn int(&self, id: i32) -> Result<i32> {
        int(self.long(id)?)
    }

    pub(in crate::iceberg) fn optional_int(&self, id: i32) -> Result<Option<i32>> {
        self.optional_long(id)?.map(int).transpose()
    }

    pub(in crate::iceberg) fn bytes(&self, id: i32) -> Result<&'a [u8]> {
        self.required(id)?.bytes()
    }

    pub(in crate::iceberg) fn string(&self, id: i32) -> Result<String> {
        text(self.bytes(id)?)
    }

    pub(in crate::iceberg) fn optional_string(&self, id: i32) -> Result<Option<String>> {
        let bytes = self.get(id).map(Value::bytes).transpose()?;
        bytes.map(text).transpose()
    }

    pub(in crate::iceberg) fn record(&self, id: i32) -> Result<&Self> {
        self.required(id)?.record()
    }

    pub(in crate::iceberg) fn optional_array(&self, id: i32) -> Result<Option<&[Value<'a>]>> {
        self.get(id).map(Value::array).transpose()
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|_| AvroError::new("a text is not UTF-8"))
}

fn int(value: i64) -> Result<i32> {
    let value = value.try_into();
    value.map_err(|_| AvroError::new("an integer has more than 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded<T>(
        schema: &str,
        bytes: &[u8],
        read: impl FnOnce(&Record<'_>) -> Result<T>,
    ) -> Result<T> {
        let schema = Schema::parse(schema.as_bytes())?;
        let mut from = Decoder { bytes };
        let mut values_left = VALUES_MAX;
        let record = schema.decode(&mut from, &mut values_left)?;
        assert!(from.bytes.is_empty(), "{} bytes are left", from.bytes.len());
        read(&record)
    }

    #[test]
    fn every_type_is_read_or_passed_over() {
        let schema = r#"{"type":"record","name":"r","namespace":"a.b","fields":[
            {"name":"nothing","type":"null","field-id":1},
            {"name":"flag","type":"boolean"},
            {"name":"f","type":"float"},
            {"name":"d","type":{"type":"double"}},
            {"name":"day","type":{"type":"int","logicalType":"date"},"field-id":2},
            {"name":"color","type":{"type":"enum","name":"e","symbols":["x","y"]},"field-id":3},
            {"name":"id","type":{"type":"fixed","name":"f3","size":3},"field-id":4},
            {"name":"map","type":{"type":"map","values":"a.b.f3"}},
            {"name":"inner","type":["null",{"type":"record","name":"i","fields":[
                {"name":"id","type":"f3","field-id":6},
                {"name":"list","type":{"type":"array","items":"long"},"field-id":7}]}],"field-id":5}
            ]}"#;
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([5, 2]);
        bytes.extend(b"abc");
        // A map with one entry, and a block of a known size.
        bytes.extend([1, 10, 2, b'k', b'x', b'y', b'z', 0]);
        bytes.push(2);
        bytes.extend(b"def");
        bytes.extend([4, 3, 4, 0]);
        let read = |record: &Record<'_>| -> Result<_> {
            let inner = record.record(5)?;
            let list = inner.optional_array(7)?.unwrap_or_default();
            let list: Result<Vec<i64>> = list.iter().map(Value::long).collect();
            Ok((
                record.optional_long(1)?,
                record.int(2)?,
                record.int(3)?,
                record.string(4)?,
                inner.string(6)?,
                list?,
            ))
        };
        let read = decoded(schema, &bytes, read).unwrap();
        let text = |text: &str| text.to_owned();
        assert_eq!(read, (None, -3, 1, text("abc"), text("def"), vec![-2, 2]));
    }

    #[test]
    fn fields_are_found_by_their_ids_in_any_order() {
        let schema = r#"{"type":"record","name":"r","fields":[
            {"name":"extra","type":"string","field-id":900},
            {"name":"b","type":"string","field-id":2},
            {"name":"a","type":["null","int"],"field-id":1}]}"#;
        let bytes = [2, b'?', 2, b'b', 2, 14];
        let read = |record: &Record<'_>| -> Result<_> { Ok((record.int(1)?, record.string(2)?)) };
        assert_eq!(decoded(schema, &bytes, read), Ok((7, "b".to_owned())));
        let missing = decoded(schema, &bytes, |record| record.long(3)).unwrap_err();
        assert!(missing.to_string().contains("id 3"), "{missing}");
        let wrong = decoded(schema, &bytes, |record| record.long(2)).unwrap_err();
        assert!(wrong.to_string().contains("no integer"), "{wrong}");
    }

    #[test]
    fn types_that_contain_themselves_end() {
        let tree = r#"{"type":"record","name":"r","fields":[
            {"name":"next","type":["null","r"],"field-id":1}]}"#;
        let depth = |depth: usize| [vec![2; depth], vec![0]].concat();
        assert!(decoded(tree, &depth(20), |record| record.record(1).map(drop)).is_ok());
        assert!(decoded(tree, &depth(100_000), |_| Ok(())).is_err());
        let endless = r#"{"type":"record","name":"r","fields":[{"name":"next","type":"r"}]}"#;
        assert!(decoded(endless, &[], |_| Ok(())).is_err());
    }

    #[test]
    fn a_schema_that_doubles_an_empty_record_many_times_is_an_error() {
        let double = |at: usize| {
            let inner = at.checked_sub(1).map(|at| format!("\"r{at}\""));
            let inner = inner.as_deref().unwrap_or("\"null\"");
            format!(
                r#"{{"name":"f{at}","type":["null",{{"type":"record","name":"r{at}","fields":[
                {{"name":"a","type":{inner}}},{{"name":"b","type":{inner}}}]}}]}}"#
            )
        };
        let fields: Vec<String> = (0..50).map(double).collect();
        let schema = format!(
            r#"{{"type":"record","name":"r","fields":[{},{{"name":"all","type":"r49"}}]}}"#,
            fields.join(",")
        );
        let error = decoded(&schema, &[0; 50], |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("too many values"), "{error}");
    }

    #[test]
    fn schemas_that_are_none_are_errors() {
        for schema in [
            "",
            "7",
            "\"long\"",
            "{\"type\":\"record\"}",
            r#"{"type":"record","name":"r","fields":[{"name":"a","type":"unknown"}]}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"a"}]}"#,
            r#"{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f"}}]}"#,
        ] {
            assert!(Schema::parse(schema.as_bytes()).is_err(), "{schema}");
        }
    }
}
