//! Schemas: errors of invalid changes, stored records, printed statements.

mod change;
mod create;
mod record;
mod reopening;

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    KeyspaceSchema, Schema, SchemaError, TableDefinition, TableOptions, TableSchema, UserType,
};
use crate::key::Order;
use crate::types::CqlType;

fn message<T: std::fmt::Debug>(result: Result<T, SchemaError>) -> String {
    result.unwrap_err().to_string()
}

fn replication() -> BTreeMap<String, String> {
    [("class", "SimpleStrategy"), ("replication_factor", "1")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into()
}

/// Returns keyspace `ks` with the types `phone` and `address`; `address` uses `phone`.
fn schema() -> Schema {
    let phone = [("country", CqlType::Int), ("number", CqlType::Text)];
    let phone = UserType::new("ks", "phone", phone.map(|(n, t)| (n.into(), t))).unwrap();
    let schema = Schema::default()
        .create_keyspace(KeyspaceSchema::new("ks", replication(), true).unwrap())
        .unwrap()
        .create_type(phone)
        .unwrap();
    let phones = schema
        .keyspace("ks")
        .unwrap()
        .parse_type("set<frozen<phone>>")
        .unwrap();
    let address = [("street", CqlType::Text), ("phones", phones)];
    let address = UserType::new("ks", "address", address.map(|(n, t)| (n.into(), t))).unwrap();
    schema.create_type(address).unwrap()
}

/// Returns the definition of the table `ks.t`. Each of `columns` is a text such as `a int static`;
/// `partition` and `clustering` are the names of the columns of its primary key.
fn definition(columns: &[&str], partition: &[&str], clustering: &[&str]) -> TableDefinition {
    let schema = schema();
    let keyspace = schema.keyspace("ks").unwrap();
    let owned = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
    TableDefinition {
        keyspace: "ks".to_owned(),
        name: "t".to_owned(),
        id: Uuid::from_u128(7),
        columns: columns
            .iter()
            .map(|line| {
                let (name, ty) = line.split_once(' ').unwrap();
                let (ty, is_static) = match ty.strip_suffix(" static") {
                    Some(ty) => (ty, true),
                    None => (ty, false),
                };
                (name.to_owned(), keyspace.parse_type(ty).unwrap(), is_static)
            })
            .collect(),
        partition_key: owned(partition),
        clustering: owned(clustering),
        order: Vec::new(),
        options: TableOptions::default(),
    }
}

fn table() -> TableSchema {
    let mut definition = definition(
        &[
            "v map<text, frozen<address>>",
            "s decimal static",
            "b text",
            "A int",
            "c timeuuid",
            "d frozen<phone>",
            "u list<int>",
        ],
        &["A", "b"],
        &["c", "d"],
    );
    definition.order = vec![("c".to_owned(), Order::Desc), ("d".to_owned(), Order::Asc)];
    TableSchema::create(definition).unwrap()
}
