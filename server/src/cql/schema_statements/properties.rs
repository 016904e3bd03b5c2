//! What stands behind WITH, as the schema takes it.

use std::collections::BTreeMap;

use ebb_catalog::schema::{OptionValue, SchemaError, TableOptions};
use ebb_cql::protocol::ErrorResponse;
use ebb_cql::syntax::ast::{Property, PropertyValue};
use uuid::Uuid;

use super::refused;

/// A property's value.
pub(super) fn value(value: &PropertyValue) -> OptionValue {
    match value {
        PropertyValue::Constant(constant) => OptionValue::Text(constant.text.clone()),
        PropertyValue::Map(entries) => OptionValue::Map(texts(entries)),
    }
}

fn texts(
    entries: &[(
        ebb_cql::syntax::ast::Constant,
        ebb_cql::syntax::ast::Constant,
    )],
) -> BTreeMap<String, String> {
    let text = |(key, value): &(_, _)| {
        let (key, value): (
            &ebb_cql::syntax::ast::Constant,
            &ebb_cql::syntax::ast::Constant,
        ) = (key, value);
        (key.text.clone(), value.text.clone())
    };
    entries.iter().map(text).collect()
}

/// The options of a table by `set`, and the id that the statement gives it.
pub(super) fn set_table_options(
    options: &mut TableOptions,
    properties: &[Property],
) -> Result<Option<Uuid>, ErrorResponse> {
    let mut id = None;
    for property in properties {
        let name = property.name.as_str();
        match &property.value {
            PropertyValue::Constant(constant) if name == "id" => {
                let parsed = Uuid::parse_str(&constant.text);
                id = Some(parsed.map_err(|_| ErrorResponse::config("Invalid table id"))?);
            }
            value => set_table_option(options, name, value)?,
        }
    }
    Ok(id)
}

fn set_table_option(
    options: &mut TableOptions,
    name: &str,
    written: &PropertyValue,
) -> Result<(), ErrorResponse> {
    let mut value = value(written);
    if let OptionValue::Map(entries) = &mut value {
        complete(name, entries);
    }
    options.set(name, value).map_err(|error| match error {
        // What is wrong behind WITH is a matter of syntax for Cassandra.
        SchemaError::Invalid(message) => ErrorResponse::syntax(message),
        error => refused(error),
    })
}

/// Says in full what Cassandra lets be said in short.
fn complete(option: &str, entries: &mut BTreeMap<String, String>) {
    let package = match option {
        "compaction" => "org.apache.cassandra.db.compaction.",
        "compression" => "org.apache.cassandra.io.compress.",
        _ => return,
    };
    if let Some(class) = entries.remove("sstable_compression") {
        entries.insert("class".to_string(), class);
    }
    let Some(class) = entries.get_mut("class") else {
        return;
    };
    if !class.contains('.') && !class.is_empty() {
        class.insert_str(0, package);
    }
    let has_thresholds = [
        "SizeTieredCompactionStrategy",
        "TimeWindowCompactionStrategy",
    ];
    if has_thresholds.iter().any(|name| class.ends_with(name)) {
        for (threshold, default) in [("max_threshold", "32"), ("min_threshold", "4")] {
            let entry = entries.entry(threshold.to_string());
            entry.or_insert_with(|| default.to_string());
        }
    }
}
