//! The conditions of IF, with typed terms.
//!
//! Permitted conditions, and the errors for others, are those of Cassandra 4.1's `ColumnCondition`.

mod bound;

use ebb_cql::syntax::ast::{self, InValues, Operator, Part};
use ebb_model::schema::{Column, ColumnKind, TableSchema};
use ebb_model::types::CqlType;

pub(super) use self::bound::BoundCondition;
use crate::analyse::markers::{Markers, Receiver};
use crate::analyse::restrictions::{check_slice, column, contained};
use crate::analyse::term::{self, Term};
use crate::error::{Result, invalid};

/// The conditions in the IF of a statement.
#[derive(Debug, Default)]
pub(super) enum Conditions {
    #[default]
    None,
    Exists,
    NotExists,
    /// `IF v = 1 AND w > 2`: one or more conditions on columns, all of which must hold.
    Columns(Vec<ColumnCondition>),
}

#[derive(Debug)]
pub(super) struct ColumnCondition {
    pub(super) column: Column,
    part: ConditionPart,
    /// The type of the values that the condition compares.
    ty: CqlType,
    test: ConditionTest,
}

#[derive(Debug)]
enum ConditionPart {
    Whole,
    /// The element of a map with this key, or of a list at this index.
    Element(Term),
    /// The field of a user-defined type at this position.
    Field(u16),
}

#[derive(Debug)]
enum ConditionTest {
    Compare(Operator, Term),
    In(Vec<Term>),
    /// `IN ?`, with the list as one bound value.
    InWhole(Term),
}

impl Conditions {
    pub(super) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(super) fn columns(&self) -> &[ColumnCondition] {
        match self {
            Self::Columns(columns) => columns,
            _ => &[],
        }
    }

    /// Returns two flags: whether there is a condition on a static column, and whether there is one
    /// on a regular column.
    pub(super) fn kinds(&self) -> (bool, bool) {
        let mut columns = self.columns().iter();
        let statics = columns.clone().any(ColumnCondition::is_static);
        (statics, columns.any(|column| !column.is_static()))
    }

    pub(super) fn prepare(
        write: &ast::Write,
        schema: &TableSchema,
        markers: &mut Markers,
    ) -> Result<Self> {
        let (condition, timestamp) = match write {
            ast::Write::Insert(insert) => {
                let conditions = if insert.if_not_exists {
                    Self::NotExists
                } else {
                    Self::None
                };
                return conditions.checked(schema, insert.using.timestamp.is_some());
            }
            ast::Write::Update(update) => (&update.condition, &update.using.timestamp),
            ast::Write::Delete(delete) => (&delete.condition, &delete.timestamp),
        };
        let conditions = match condition {
            ast::Condition::None => Self::None,
            ast::Condition::Exists => Self::Exists,
            ast::Condition::All(all) => {
                let one = |one| ColumnCondition::prepare(one, schema, markers);
                Self::Columns(all.iter().map(one).collect::<Result<_>>()?)
            }
        };
        conditions.checked(schema, timestamp.is_some())
    }

    fn checked(self, schema: &TableSchema, has_timestamp: bool) -> Result<Self> {
        if self.is_some() && has_timestamp {
            return invalid("Cannot provide custom timestamp for conditional updates");
        }
        if self.is_some() && schema.is_counter() {
            return invalid("Conditional updates are not supported on counter tables");
        }
        Ok(self)
    }
}

impl ColumnCondition {
    pub(super) fn is_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }

    fn prepare(
        written: &ast::ColumnCondition,
        schema: &TableSchema,
        markers: &mut Markers,
    ) -> Result<Self> {
        let column = column(schema, written.column.as_str())?;
        let (name, column_type) = (&column.name, &column.ty);
        if *column_type == CqlType::Counter {
            return invalid("Conditions on counters are not supported");
        }
        let (part, receiver) = match &written.part {
            Part::Whole => {
                let receiver = Receiver::new(&**name, column_type.clone());
                (ConditionPart::Whole, receiver)
            }
            Part::Element(key) => {
                let (what, key_type, ty) = match column_type {
                    CqlType::List { element, .. } => ("idx", &CqlType::Int, element),
                    CqlType::Map { key, value, .. } => ("key", &**key, value),
                    CqlType::Set { .. } => {
                        return invalid(format!(
                            "Invalid element access syntax for set column {name}"
                        ));
                    }
                    _ => {
                        return invalid(format!(
                            "Invalid element access syntax for non-collection column {name}"
                        ));
                    }
                };
                let of_key = Receiver::new(format!("{what}({name})"), key_type.clone());
                let key = term::prepare(key, &of_key, markers)?;
                let receiver = Receiver::new(format!("value({name})"), (**ty).clone());
                (ConditionPart::Element(key), receiver)
            }
            Part::Field(field) => {
                // Unlike SET, a condition may name a field of a frozen type, because it only reads.
                let CqlType::Udt { definition, .. } = column_type else {
                    return invalid(format!(
                        "Invalid field access syntax for non-UDT column {name}"
                    ));
                };
                let field = field.as_str();
                let number = definition.field(field);
                let Some((at, number)) = number.and_then(|at| Some((at, u16::try_from(at).ok()?)))
                else {
                    return invalid(format!("Unknown field {field} for column {name}"));
                };
                let ty = definition.fields()[at].1.clone();
                let receiver = Receiver::new(format!("{name}.{field}"), ty);
                (ConditionPart::Field(number), receiver)
            }
        };
        if let ast::ColumnTest::Compare(operator, _) = &written.test {
            check_slice(*operator, &receiver.ty, "conditions", || {
                let operator = operator.text();
                format!("Slice conditions ( {operator} ) are not supported on durations")
            })?;
        }
        let test = test(&written.test, &receiver, column, markers)?;
        // As in Cassandra, errors of the condition come before this one. The order of the kinds is
        // that of their declaration: both kinds of key columns come first.
        if column.kind <= ColumnKind::Clustering {
            return invalid(format!(
                "PRIMARY KEY column '{name}' cannot have IF conditions"
            ));
        }
        Ok(Self {
            column: column.clone(),
            part,
            ty: receiver.ty,
            test,
        })
    }
}

fn test(
    written: &ast::ColumnTest,
    receiver: &Receiver,
    column: &Column,
    markers: &mut Markers,
) -> Result<ConditionTest> {
    Ok(match written {
        ast::ColumnTest::In(InValues::List(terms)) => {
            let one = |one| term::prepare(one, receiver, markers);
            ConditionTest::In(terms.iter().map(one).collect::<Result<_>>()?)
        }
        ast::ColumnTest::In(InValues::Marker(marker)) => {
            let list = CqlType::list(receiver.ty.clone().freeze()).freeze();
            let receiver = Receiver::new(format!("in({})", receiver.name), list);
            ConditionTest::InWhole(term::prepare_in(marker, &receiver, markers)?)
        }
        ast::ColumnTest::Compare(operator, value) => {
            let value = match operator {
                Operator::Contains | Operator::ContainsKey => {
                    contained(*operator, value, receiver, &column.name, markers)?
                }
                _ => term::prepare(value, receiver, markers)?,
            };
            ConditionTest::Compare(*operator, value)
        }
    })
}
