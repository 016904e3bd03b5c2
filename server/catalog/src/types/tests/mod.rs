//! Types and values, held against what Cassandra 4.1 does.

mod elements;
mod names;
mod validate;

use std::sync::Arc;

use super::{CqlType, UserType};

pub(super) fn address() -> Arc<UserType> {
    let fields = [
        ("street".into(), CqlType::Text),
        ("Number".into(), CqlType::Int),
        ("phones".into(), CqlType::set(CqlType::Text).freeze()),
    ];
    Arc::new(UserType::new("ks", "address", fields).unwrap())
}

pub(super) fn parse(text: &str) -> CqlType {
    CqlType::parse(text, &|name| (name == "address").then(address)).unwrap()
}
