//! The functions of one row's values.

use ebb_catalog::key::{PartitionKey, Token};
use ebb_catalog::schema::TableSchema;
use ebb_catalog::types::CqlType;

use super::{Function, uuids};
use crate::error::{Result, invalid, of_key, of_type};

const MS_PER_DAY: i64 = 86_400_000;
/// 1970 as a `date`.
const DATE_EPOCH: i64 = 1 << 31;

/// All functions of a name, which is in small letters. `token` takes the columns of the
/// table's partition key.
pub fn named(name: &str, schema: &TableSchema) -> Vec<Function> {
    let full = format!("system.{name}");
    match name {
        "now" | "currenttimeuuid" => vec![made(full, CqlType::Timeuuid, |now_us| {
            uuids::timeuuid(now_us).to_vec()
        })],
        "uuid" => vec![made(full, CqlType::Uuid, |_| uuids::random().to_vec())],
        "currenttimestamp" => vec![made(full, CqlType::Timestamp, |now_us| {
            now_us.div_euclid(1000).to_be_bytes().to_vec()
        })],
        "currentdate" => vec![made(full, CqlType::Date, |now_us| {
            date_of_ms(now_us.div_euclid(1000)).unwrap_or_default()
        })],
        "currenttime" => vec![made(full, CqlType::Time, |now_us| {
            let ns = now_us.rem_euclid(MS_PER_DAY * 1000) * 1000;
            ns.to_be_bytes().to_vec()
        })],
        "mintimeuuid" => vec![of_ms(full, CqlType::Timestamp, CqlType::Timeuuid, |ms| {
            Some(uuids::least(ms).to_vec())
        })],
        "maxtimeuuid" => vec![of_ms(full, CqlType::Timestamp, CqlType::Timeuuid, |ms| {
            Some(uuids::greatest(ms).to_vec())
        })],
        "todate" => [CqlType::Timeuuid, CqlType::Timestamp]
            .map(|from| of_ms(full.clone(), from, CqlType::Date, date_of_ms))
            .into(),
        "totimestamp" => [CqlType::Timeuuid, CqlType::Date]
            .map(|from| of_ms(full.clone(), from, CqlType::Timestamp, long))
            .into(),
        "tounixtimestamp" => [CqlType::Timeuuid, CqlType::Timestamp, CqlType::Date]
            .map(|from| of_ms(full.clone(), from, CqlType::Bigint, long))
            .into(),
        "dateof" => vec![of_ms(full, CqlType::Timeuuid, CqlType::Timestamp, long)],
        "unixtimestampof" => vec![of_ms(full, CqlType::Timeuuid, CqlType::Bigint, long)],
        "token" => vec![token(full, schema)],
        _ => {
            let from = |text: &str| CqlType::native(text).filter(|ty| *ty != CqlType::Blob);
            if let Some(ty) = name.strip_suffix("asblob").and_then(from) {
                return vec![as_blob(full, ty)];
            }
            if let Some(ty) = name.strip_prefix("blobas").and_then(from) {
                return vec![blob_as(full, ty)];
            }
            Vec::new()
        }
    }
}

fn made(
    name: String,
    returns: CqlType,
    make: impl Fn(i64) -> Vec<u8> + Send + Sync + 'static,
) -> Function {
    Function::new(name, [], returns, move |_, now_us| Ok(Some(make(now_us))))
}

fn long(ms: i64) -> Option<Vec<u8>> {
    Some(ms.to_be_bytes().to_vec())
}

fn date_of_ms(ms: i64) -> Option<Vec<u8>> {
    let days = u32::try_from(ms.div_euclid(MS_PER_DAY) + DATE_EPOCH).ok()?;
    Some(days.to_be_bytes().to_vec())
}

/// A function of a time, which is a `timestamp`, a `date` or in a `timeuuid`.
fn of_ms(
    name: String,
    from: CqlType,
    returns: CqlType,
    then: impl Fn(i64) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> Function {
    let ty = from.clone();
    Function::new(name, [from], returns, move |args, _| {
        let Some(bytes) = args[0].filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        let ms = match (&ty, bytes.len()) {
            (CqlType::Timeuuid, 16) => uuids::unix_ms(bytes.try_into().expect("16 bytes")),
            (CqlType::Timestamp, 8) => i64::from_be_bytes(bytes.try_into().expect("8 bytes")),
            (CqlType::Date, 4) => {
                let days = u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
                (i64::from(days) - DATE_EPOCH) * MS_PER_DAY
            }
            _ => return invalid(format!("{} bytes are no {ty}", bytes.len())),
        };
        Ok(then(ms))
    })
}

/// A function from one type of times to another, where there is one.
pub fn of_times(name: String, from: &CqlType, to: &CqlType) -> Option<Function> {
    let is_from = matches!(from, CqlType::Timestamp | CqlType::Date | CqlType::Timeuuid);
    match to {
        CqlType::Timestamp if is_from => Some(of_ms(name, from.clone(), to.clone(), long)),
        CqlType::Date if is_from => Some(of_ms(name, from.clone(), to.clone(), date_of_ms)),
        _ => None,
    }
}

fn token(name: String, schema: &TableSchema) -> Function {
    let types = schema.layout().partition().to_vec();
    Function::new(name, types, CqlType::Bigint, |args, _| {
        let Some(values) = args.iter().copied().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        // An empty key is before all partitions.
        let token = match values[..] {
            [[]] => Token::MIN,
            _ => PartitionKey::new(&values).map_err(of_key)?.token(),
        };
        Ok(Some(token.0.to_be_bytes().to_vec()))
    })
}

fn as_blob(name: String, ty: CqlType) -> Function {
    Function::new(name, [ty], CqlType::Blob, |args, _| {
        Ok(args[0].map(<[u8]>::to_vec))
    })
}

fn blob_as(name: String, ty: CqlType) -> Function {
    let returns = ty.clone();
    let full = name.clone();
    let check = move |bytes: &[u8]| -> Result<()> {
        ty.validate(bytes).map_err(of_type).or_else(|_| {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            invalid(format!(
                "In call to function {full}, value 0x{hex} is not a valid binary representation for \
                 type {ty}"
            ))
        })
    };
    Function::new(name, [CqlType::Blob], returns, move |args, _| {
        args[0]
            .map(|bytes| check(bytes).map(|()| bytes.to_vec()))
            .transpose()
    })
}
