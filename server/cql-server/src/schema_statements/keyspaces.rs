//! CREATE, ALTER, DROP KEYSPACE.

use std::collections::BTreeMap;

use ebb_cql::protocol::{ErrorResponse, SchemaChange, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Property};
use ebb_model::schema::{KeyspaceSchema, OptionValue};

use super::{SchemaContext, changed, check_readable, is_alias, no_keyspace, properties};
use crate::error::of_schema;
use crate::system::DATA_CENTER;

type Done = Result<Option<SchemaChange>, ErrorResponse>;

pub(super) fn create(
    context: &SchemaContext<'_>,
    create: &CreateKeyspace,
    warnings: &mut Vec<String>,
) -> Done {
    let name = create.name.as_str();
    context.check_changeable(name)?;
    let with = With::read(&create.properties, name, Factor::OrOne)?;
    let Some(replication) = with.replication else {
        return Err(ErrorResponse::invalid(
            "Missing mandatory option 'replication'",
        ));
    };
    let change = changed(SchemaChangeKind::Created, name, SchemaTarget::Keyspace);
    let done = context.change(change, |schema| {
        if create.if_not_exists && schema.keyspace(name).is_some() {
            return Ok(None);
        }
        let durable_writes = with.durable_writes.unwrap_or(true);
        let keyspace = KeyspaceSchema::new(name, replication.options.clone(), durable_writes);
        let keyspace = keyspace.map_err(of_schema)?;
        if is_alias(name) {
            return Err(ErrorResponse::invalid(format!(
                "Keyspace name '{name}' would read as the name of a snapshot: KEYSPACE__at__SNAPSHOT"
            )));
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
    } = With::read(&alter.properties, name, Factor::Required)?;
    let options = replication.as_ref().map(|r| r.options.clone());
    let change = changed(SchemaChangeKind::Updated, name, SchemaTarget::Keyspace);
    let done = context.change(change, |schema| {
        check_readable(schema, name, None)?;
        if schema.keyspace(name).is_none() {
            return if alter.if_exists {
                Ok(None)
            } else {
                Err(no_keyspace(name))
            };
        }
        let next = schema.alter_keyspace(name, options, durable_writes);
        Ok(Some(next.map_err(of_schema)?))
    })?;
    if done.is_some() {
        warnings.extend(replication.and_then(|replication| replication.warning(name)));
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
    replication: Option<Replication>,
    durable_writes: Option<bool>,
}

impl With {
    fn read(written: &[Property], keyspace: &str, factor: Factor) -> Result<Self, ErrorResponse> {
        let mut with = Self {
            replication: None,
            durable_writes: None,
        };
        for property in written {
            let name = property.name.as_str();
            match (name, properties::value(&property.value)) {
                ("replication", OptionValue::Map(options)) => {
                    with.replication = Some(Replication::new(options, keyspace, factor)?);
                }
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
                        "Invalid value for property 'durable_writes'. It should be a string.",
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

/// The rule for statements about a keyspace that do not contain the number of copies. CREATE may
/// leave the number out, because Cassandra 4.1 has a default for it (`default_keyspace_rf`, 1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    /// A statement without a number is an error.
    Required,
    /// A statement without a number means one copy.
    OrOne,
}

fn one() -> String {
    "1".to_string()
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
    fn new(
        mut options: BTreeMap<String, String>,
        keyspace: &str,
        factor: Factor,
    ) -> Result<Self, ErrorResponse> {
        let Some(class) = options.get_mut("class") else {
            return Err(ErrorResponse::config("Missing replication strategy class"));
        };
        // Stored without the package, so that both spellings of a class are one.
        if let Some(short) = class.strip_prefix(PACKAGE) {
            *class = short.to_string();
        }
        let class = class.clone();
        match class.as_str() {
            "SimpleStrategy" => {
                if factor == Factor::OrOne {
                    options.entry(FACTOR.to_string()).or_insert_with(one);
                }
                if !options.contains_key(FACTOR) {
                    return Err(ErrorResponse::config(
                        "SimpleStrategy requires a replication_factor strategy option.",
                    ));
                }
                let known = |option: &&String| *option == "class" || *option == FACTOR;
                if let Some(unknown) = options.keys().find(|option| !known(option)) {
                    return Err(ErrorResponse::config(format!(
                        "Unrecognized strategy option {{{unknown}}} passed to SimpleStrategy for \
                         keyspace {keyspace}"
                    )));
                }
            }
            "NetworkTopologyStrategy" => {
                // The factor applies to all data centers without a factor of their own. The server is
                // in a single one.
                if let Some(factor) = options.remove(FACTOR) {
                    options.entry(DATA_CENTER.to_string()).or_insert(factor);
                }
                // There is no option but the class. Then CREATE means one copy in the server's data
                // center.
                if options.len() == 1 {
                    if factor == Factor::Required {
                        return Err(ErrorResponse::config(
                            "Configuration for at least one datacenter must be present",
                        ));
                    }
                    options.insert(DATA_CENTER.to_string(), one());
                }
            }
            // As in Cassandra, this error is of the kind "invalid", and the others are not.
            "LocalStrategy" => {
                return Err(ErrorResponse::invalid(
                    "Unable to use given strategy class: LocalStrategy is reserved for internal \
                     use.",
                ));
            }
            other => {
                return Err(ErrorResponse::config(format!(
                    "Unable to find replication strategy class '{PACKAGE}{other}'"
                )));
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
    /// server keeps a single one; `None` if it has one.
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
