//! CREATE, ALTER, DROP TYPE.

use std::collections::HashSet;
use std::sync::Arc;

use ebb_cql::protocol::{ErrorResponse, SchemaChangeKind, SchemaTarget};
use ebb_cql::syntax::ast::{AlterType, CreateType, DropObject, TypeChange};
use ebb_model::schema::{Schema, UserType};
use ebb_model::types::CqlType;

use super::{Done, Next, SchemaContext, changed, no_keyspace, resolve_type};
use crate::error::{Result, invalid, of_schema};
use crate::interrupt;

fn target(name: &str) -> SchemaTarget {
    SchemaTarget::Type(name.to_string())
}

pub(super) fn create(context: &SchemaContext<'_>, create: &CreateType) -> Done {
    let (keyspace, name) = context.changeable(&create.name)?;
    let change = changed(SchemaChangeKind::Created, keyspace, target(name));
    context.change(change, |schema| {
        let of = schema
            .keyspace(keyspace)
            .ok_or_else(|| no_keyspace(keyspace))?;
        if of.user_type(name).is_some() && create.if_not_exists {
            return Ok(None);
        }
        if of.user_type(name).is_none() {
            // Checked before the types of the fields are resolved, as in Cassandra.
            let mut names = HashSet::new();
            for (field, _) in &create.fields {
                if !names.insert(field) {
                    return invalid(format!(
                        "Duplicate field name '{}' in type '{name}'",
                        field.as_str()
                    ));
                }
            }
        }
        let resolved = |(field, ty): &(ebb_cql::syntax::ast::Name, _)| {
            let field: Arc<str> = field.as_str().into();
            Ok::<_, ErrorResponse>((field, resolve_type(of, ty)?))
        };
        let fields = create.fields.iter().map(resolved);
        let fields: Vec<(Arc<str>, CqlType)> = fields.collect::<Result<_, _>>()?;
        let ty = UserType::new(keyspace, name, fields);
        let ty = ty.map_err(|error| ErrorResponse::invalid(error.to_string()))?;
        Ok(Some(schema.create_type(ty).map_err(of_schema)?))
    })
}

pub(super) fn alter(context: &SchemaContext<'_>, alter: &AlterType) -> Done {
    let (keyspace, name) = context.changeable(&alter.name)?;
    let change = changed(SchemaChangeKind::Updated, keyspace, target(name));
    context.change(change, |schema| {
        let of = schema.keyspace(keyspace);
        if let Some(unreadable) = of.and_then(|of| of.unreadable_type(name)) {
            return Err(of_schema(unreadable));
        }
        if of.and_then(|of| of.user_type(name)).is_none() {
            return if alter.if_exists {
                Ok(None)
            } else {
                invalid(format!("Type {keyspace}.{name} doesn't exist"))
            };
        }
        next(schema, keyspace, name, &alter.change)
    })
}

fn next(schema: &Schema, keyspace: &str, name: &str, change: &TypeChange) -> Next {
    let of = schema
        .keyspace(keyspace)
        .ok_or_else(|| no_keyspace(keyspace))?;
    let ty = of.user_type(name).expect("looked up before");
    match change {
        TypeChange::Add {
            if_not_exists,
            field,
            type_name,
        } => {
            if *if_not_exists && ty.field(field.as_str()).is_some() {
                return Ok(None);
            }
            let added = resolve_type(of, type_name)?;
            let next = schema.add_field(keyspace, name, field.as_str(), added);
            Ok(Some(next.map_err(of_schema)?))
        }
        TypeChange::Rename { if_exists, fields } => {
            let mut charged = Ok(());
            let renames = interrupt::charge_each(fields, &mut charged)
                .map(|(from, to)| (from.as_str(), to.as_str()))
                .filter(|(from, _)| !*if_exists || ty.field(from).is_some());
            let next = schema.rename_fields(keyspace, name, renames);
            charged?;
            let next = next.map_err(of_schema)?;
            Ok((next != *schema).then_some(next))
        }
        TypeChange::Retype { .. } => invalid("Altering field types is no longer supported"),
    }
}

pub(super) fn drop(context: &SchemaContext<'_>, drop: &DropObject) -> Done {
    let (keyspace, name) = context.changeable(&drop.name)?;
    let change = changed(SchemaChangeKind::Dropped, keyspace, target(name));
    context.change(change, |schema| {
        let is_there = schema
            .keyspace(keyspace)
            .is_some_and(|of| of.user_type(name).is_some() || of.unreadable_type(name).is_some());
        if is_there {
            Ok(Some(schema.drop_type(keyspace, name).map_err(of_schema)?))
        } else if drop.if_exists {
            Ok(None)
        } else {
            invalid(format!("Type '{keyspace}.{name}' doesn't exist"))
        }
    })
}
