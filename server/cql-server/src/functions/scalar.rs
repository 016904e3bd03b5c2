//! Scalar functions, which are computed from the values of one row.

use ebb_model::key::{PartitionKey, Token};
use ebb_model::schema::TableSchema;
use ebb_model::types::{CqlType, Hex};

use super::printed::MS_PER_DAY;
use super::times::{date, date_of_ms, long, of_ms};
use super::{Function, failure, time_floor, uuids};
use crate::error::{Result, invalid, of_key};

/// Returns all functions with this name, which is in lower case. The parameters of the function
/// `token` are the columns of the table's partition key.
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
            date_of_ms(now_us.div_euclid(1000))
        })],
        "currenttime" => vec![made(full, CqlType::Time, |now_us| {
            let ns = now_us.rem_euclid(MS_PER_DAY * 1000) * 1000;
            ns.to_be_bytes().to_vec()
        })],
        "mintimeuuid" => vec![timeuuid_of(full, "mintimeuuid", uuids::least)],
        "maxtimeuuid" => vec![timeuuid_of(full, "maxtimeuuid", uuids::greatest)],
        "todate" => [CqlType::Timeuuid, CqlType::Timestamp]
            .map(|from| of_ms(full.clone(), from, CqlType::Date, date).monotonic())
            .into(),
        "totimestamp" => [CqlType::Timeuuid, CqlType::Date]
            .map(|from| of_ms(full.clone(), from, CqlType::Timestamp, long).monotonic())
            .into(),
        "tounixtimestamp" => [CqlType::Timeuuid, CqlType::Timestamp, CqlType::Date]
            .map(|from| of_ms(full.clone(), from, CqlType::Bigint, long).monotonic())
            .into(),
        "floor" => time_floor::functions(&full),
        "dateof" => vec![of_ms(full, CqlType::Timeuuid, CqlType::Timestamp, long)],
        "unixtimestampof" => vec![of_ms(full, CqlType::Timeuuid, CqlType::Bigint, long)],
        "token" => vec![token(full, schema)],
        _ => {
            let from = |text: &str| CqlType::native(text).filter(|ty| *ty != CqlType::Blob);
            if let Some(ty) = name.strip_suffix("asblob").and_then(from) {
                return vec![as_blob(full, ty)];
            }
            if let Some(ty) = name.strip_prefix("blobas").and_then(from) {
                return vec![blob_as(name, full, ty)];
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
    Function::new(name, [], returns, move |_, conditions| {
        Ok(Some(make(conditions.now_us)))
    })
}

/// Creates a function that converts a `timestamp` to a `timeuuid`. `full` is its name with the
/// keyspace, and `name` is the name without it, for errors. `make` converts milliseconds since
/// 1970, and returns `None` for a time that a `timeuuid` cannot have.
fn timeuuid_of(
    full: String,
    name: &'static str,
    make: impl Fn(i64) -> Option<[u8; 16]> + Send + Sync + 'static,
) -> Function {
    of_ms(full, CqlType::Timestamp, CqlType::Timeuuid, move |ms| {
        let uuid = make(ms).ok_or_else(|| {
            let message = format!(
                "{ms} ms since 1970 lies outside of the times of a timeuuid, from 1582-10-15 to \
                 5236-03-31"
            );
            failure(name, &[CqlType::Timestamp], message)
        });
        Ok(uuid?.to_vec())
    })
}

fn token(name: String, schema: &TableSchema) -> Function {
    let types = schema.layout().partition().to_vec();
    Function::new(name, types, CqlType::Bigint, |args, _| {
        let Some(values) = args.iter().copied().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        // An empty key precedes all partitions.
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

fn blob_as(name: &str, full: String, ty: CqlType) -> Function {
    let (name, returns) = (name.to_owned(), ty.clone());
    let check = move |bytes: &[u8]| -> Result<()> {
        ty.validate(bytes).or_else(|_| {
            let hex = Hex(bytes);
            invalid(format!(
                "In call to function {name}, value 0x{hex} is not a valid binary representation for \
                 type {ty}"
            ))
        })
    };
    Function::new(full, [CqlType::Blob], returns, move |args, _| {
        args[0]
            .map(|bytes| check(bytes).map(|()| bytes.to_vec()))
            .transpose()
    })
}

#[cfg(test)]
mod tests {
    use crate::executor::harness::Server;

    #[test]
    fn functions_of_times_keep_their_range() {
        let mut server = Server::with(&[
            "CREATE TABLE t (k int PRIMARY KEY, w timestamp)",
            "INSERT INTO t (k, w) VALUES (1, 9223372036854775807)",
            "INSERT INTO t (k, w) VALUES (2, '1582-10-15')",
            "INSERT INTO t (k, w) VALUES (3, '1582-10-14 23:59:59.999Z')",
        ]);
        let select = |function: &str, k| format!("SELECT {function} FROM t WHERE k = {k}");
        for function in ["minTimeuuid(w)", "maxTimeuuid(w)"] {
            for k in [1, 3] {
                let message = server.refused(&select(function, k));
                assert!(
                    message.contains("lies outside of the times of a timeuuid"),
                    "{message}"
                );
            }
        }
        assert_eq!(
            server.rows(&select("minTimeuuid(w)", 2)),
            "00000000-0000-1000-8080-808080808080"
        );
        assert_eq!(
            server.rows(&select("toTimestamp(maxTimeuuid(w))", 2)),
            "1582-10-15 00:00:00.001Z"
        );
        assert_eq!(
            server.refused(&select("counterAsBlob(k)", 1)),
            "Type error: k cannot be passed as argument 0 of function system.counterasblob of type \
             counter"
        );
    }

    #[test]
    fn counters_are_converted_to_blobs_and_back() {
        let mut server = Server::with(&[
            "CREATE TABLE t (k int PRIMARY KEY, n counter)",
            "UPDATE t SET n = n + blobAsCounter(0x0000000000000102) WHERE k = 1",
            "UPDATE t SET n = n + 1 WHERE k = 1",
        ]);
        let steps = "
            SELECT n, counterAsBlob(n), blobAsCounter(counterAsBlob(n)) FROM t
            => 259 0x0000000000000103 259
            UPDATE t SET n = n + blobAsCounter(0x0102) WHERE k = 1
            => In call to function blobascounter, value 0x0102 is not a valid binary \
               representation for type counter
        ";
        server.check(steps);
    }
}
