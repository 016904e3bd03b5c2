//! CREATE, ALTER, DROP KEYSPACE.

use std::collections::BTreeMap;

use ebb_cql::protocol::{ErrorResponse, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Property};
use ebb_model::schema::{KeyspaceSchema, OptionValue};

use super::{Done, SchemaContext, changed, check_readable, is_alias, no_keyspace, properties};
use crate::error::{Result, config, invalid, of_schema};
use crate::system::DATA_CENTER;

pub(super) fn create(
    context: &SchemaContext<'_>,
    create: &CreateKeyspace,
    warnings: &mut Vec<String>,
) -> Done {
    let name = create.name.as_str();
    context.check_changeable(name)?;
    let with = With::read(&create.properties)?;
    let Some(options) = with.replication else {
        return invalid("Missing mandatory option 'replication'");
    };
    let replication = Replication::new(options, name, &BTreeMap::new())?;
    let change = changed(SchemaChangeKind::Created, name, SchemaTarget::Keyspace);
    let done = context.change(change, |schema| {
        if create.if_not_exists && schema.keyspace(name).is_some() {
            return Ok(None);
        }
        let durable_writes = with.durable_writes.unwrap_or(true);
        let keyspace = KeyspaceSchema::new(name, replication.options.clone(), durable_writes);
        let keyspace = keyspace.map_err(of_schema)?;
        if is_alias(name) {
            return invalid(format!(
                "Keyspace name '{name}' would read as the name of a snapshot: KEYSPACE__at__SNAPSHOT"
            ));
        }
        Ok(Some(schema.create_keyspace(keyspace).map_err(of_schema)?))
    })?;
    if done.is_some() {
        warnings.extend(replication.warning(name));
    }
    Ok(done)
}

pub(super) fn alter(
    context: &SchemaContext<'_>,
    alter: &AlterKeyspace,
    warnings: &mut Vec<String>,
) -> Done {
    let name = alter.name.as_str();
    context.check_changeable(name)?;
    let With {
        replication,
        durable_writes,
    } = With::read(&alter.properties)?;
    let mut warning = None;
    let change = changed(SchemaChangeKind::Updated, name, SchemaTarget::Keyspace);
    let done = context.change(change, |schema| {
        check_readable(schema, name, None)?;
        let Some(keyspace) = schema.keyspace(name) else {
            return if alter.if_exists {
                Ok(None)
            } else {
                Err(no_keyspace(name))
            };
        };
        let mut options = None;
        if let Some(written) = replication {
            let replication = Replication::new(written, name, keyspace.replication())?;
            warning = replication.warning(name);
            options = Some(replication.options);
        }
        let next = schema.alter_keyspace(name, options, durable_writes);
        Ok(Some(next.map_err(of_schema)?))
    })?;
    if done.is_some() {
        warnings.extend(warning);
    }
    Ok(done)
}

pub(super) fn drop(context: &SchemaContext<'_>, drop: &DropKeyspace) -> Done {
    let name = drop.name.as_str();
    context.check_changeable(name)?;
    let change = changed(SchemaChangeKind::Dropped, name, SchemaTarget::Keyspace);
    context.change(change, |schema| {
        if schema.has_keyspace(name) {
            Ok(Some(schema.drop_keyspace(name).map_err(of_schema)?))
        } else if drop.if_exists {
            Ok(None)
        } else {
            Err(no_keyspace(name))
        }
    })
}

/// The properties after WITH. A property that the statement does not have is `None`.
struct With {
    replication: Option<BTreeMap<String, String>>,
    durable_writes: Option<bool>,
}

impl With {
    fn read(written: &[Property]) -> Result<Self> {
        let mut with = Self {
            replication: None,
            durable_writes: None,
        };
        for property in written {
            let name = property.name.as_str();
            match (name, properties::value(&property.value)) {
                ("replication", OptionValue::Map(options)) => with.replication = Some(options),
                ("replication", OptionValue::Text(_)) => {
                    return Err(ErrorResponse::syntax(
                        "Invalid value for property 'replication'. It should be a map.",
                    ));
                }
                ("durable_writes", OptionValue::Text(text)) => {
                    let value = text.parse::<bool>().map_err(|_| {
                        ErrorResponse::syntax(format!(
                            "Invalid boolean value {text} for 'durable_writes'"
                        ))
                    });
                    with.durable_writes = Some(value?);
                }
                ("durable_writes", OptionValue::Map(_)) => {
                    return Err(ErrorResponse::syntax(
                        "Invalid value for property 'durable_writes'. It should be a string",
                    ));
                }
                _ => {
                    return Err(ErrorResponse::syntax(format!("Unknown property '{name}'")));
                }
            }
        }
        Ok(with)
    }
}

/// The replication options of a keyspace. They are stored and displayed, but there is always one
/// copy.
struct Replication {
    options: BTreeMap<String, String>,
    /// The greatest number of copies in any data center.
    copies_max: u32,
}

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";

impl Replication {
    /// Checks the replication options in a statement about a keyspace, and completes them as Cassandra's
    /// strategies do (`prepareOptions`). `previous` are the present options of a keyspace that is
    /// altered; empty for a new one.
    fn new(
        mut options: BTreeMap<String, String>,
        keyspace: &str,
        previous: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let Some(class) = options.get_mut("class") else {
            return config("Missing replication strategy class");
        };
        // Stored without the package, so that both spellings of a class are one.
        if let Some(short) = class.strip_prefix(PACKAGE) {
            *class = short.to_string();
        }
        let class = class.clone();
        // Without a number of copies in the statement the previous one stays. The default is that of
        // Cassandra (`default_keyspace_rf`).
        let copies = || previous.get(FACTOR).map_or("1", String::as_str).to_string();
        match class.as_str() {
            "SimpleStrategy" => {
                options.entry(FACTOR.to_string()).or_insert_with(copies);
                let known = |option: &&String| *option == "class" || *option == FACTOR;
                if let Some(unknown) = options.keys().find(|option| !known(option)) {
                    return config(format!(
                        "Unrecognized strategy option {{{unknown}}} passed to SimpleStrategy for \
                         keyspace {keyspace}"
                    ));
                }
            }
            "NetworkTopologyStrategy" => {
                // With the class alone, the number of copies is the previous one or the default.
                if options.len() == 1 {
                    options.insert(FACTOR.to_string(), copies());
                }
                // The factor applies to the data centers without a number of copies of their own, in
                // the statement or before it. The server is in a single one.
                if let Some(factor) = options.remove(FACTOR) {
                    let is_center = |option: &str| option != "class" && option != FACTOR;
                    for (center, copies) in previous.iter().filter(|(name, _)| is_center(name)) {
                        let entry = options.entry(center.clone());
                        entry.or_insert_with(|| copies.clone());
                    }
                    options.entry(DATA_CENTER.to_string()).or_insert(factor);
                }
                // The number 0 removes a data center.
                options.retain(|_, copies| copies != "0");
                if options.len() == 1 {
                    return config("Configuration for at least one datacenter must be present");
                }
            }
            // As in Cassandra, this error is of the kind "invalid", and the others are not.
            "LocalStrategy" => {
                return invalid(
                    "Unable to use given strategy class: LocalStrategy is reserved for internal \
                     use.",
                );
            }
            other => {
                return config(format!(
                    "Unable to find replication strategy class '{PACKAGE}{other}'"
                ));
            }
        }
        let mut copies_max = 0;
        // All options but the class are numbers of copies here: the only one of SimpleStrategy, or
        // one for each data center. Unlike Cassandra, ebb permits data centers that are not there, so
        // that the schemas of other clusters can be used.
        for (_, factor) in options.iter().filter(|(option, _)| *option != "class") {
            // Parsed with a sign, so that a negative number has another error than a text.
            let copies = factor.parse::<i32>().map_err(|_| {
                ErrorResponse::config(format!(
                    "Replication factor must be numeric; found {factor}"
                ))
            })?;
            let copies = u32::try_from(copies).map_err(|_| {
                ErrorResponse::config(format!(
                    "Replication factor must be non-negative; found {copies}"
                ))
            })?;
            copies_max = copies_max.max(copies);
        }
        Ok(Self {
            options,
            copies_max,
        })
    }

    /// Returns the warning for a keyspace whose replication has more than one copy, because the
    /// server keeps a single one; otherwise `None`.
    fn warning(&self, keyspace: &str) -> Option<String> {
        (self.copies_max > 1).then(|| {
            format!(
                "Your replication factor {} for keyspace {keyspace} is higher than the number of \
                 nodes 1",
                self.copies_max
            )
        })
    }
}
