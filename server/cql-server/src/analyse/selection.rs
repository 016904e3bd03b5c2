//! The expressions of a SELECT clause, and the columns of its result.

mod calls;

use std::collections::BTreeMap;

use ebb_cql::syntax::ast::{self, Selected, Selection, Selector};
use ebb_model::schema::{Column, ColumnKind, TableSchema};
use ebb_model::types::CqlType;

use super::call::{ambiguous, unsupported};
use super::markers::{Markers, Receiver};
use super::restrictions::{column, place};
use super::term::{self, Term, is_value_compatible};
use super::{literal, types};
use crate::error::{Result, invalid};
use crate::functions::{self, Aggregate, Function};
use crate::interrupt;

/// An expression of a SELECT clause. It is computed for each row, or for each group of rows if it
/// contains the result of an aggregate.
#[derive(Debug, Clone)]
pub enum Output {
    /// The value of the column with this index in [`Slots`].
    Column(usize),
    /// The timestamp, in microseconds since 1970, of the cell of the column with this index in
    /// [`Slots`].
    WriteTime(usize),
    /// The remaining lifetime, in seconds, of the cell of the column with this index in [`Slots`].
    /// Null for a cell without TTL.
    Ttl(usize),
    /// A term whose value is the same for all rows.
    Term(Term),
    Call(Function, Vec<Output>),
    /// A field of a user-defined type, by the index of the field.
    Field(Box<Output>, usize),
    /// The value of a map's entry with this key; for a set, the key itself if the set contains it.
    /// Null without such an element. `ty` is the type of the collection, and `name` its name in
    /// errors.
    Element {
        of: Box<Output>,
        name: String,
        ty: CqlType,
        key: Term,
    },
    /// The elements of a map or set between two keys, both inclusive. `ty` is the type of the
    /// collection, and `name` its name in errors.
    Slice {
        of: Box<Output>,
        name: String,
        ty: CqlType,
        /// The lower end; `None` if the slice begins with the first element.
        from: Option<Term>,
        /// The upper end; `None` if the slice ends with the last element.
        to: Option<Term>,
    },
    /// The result of an aggregate, by its index among the aggregates of the statement.
    Aggregate(usize),
}

impl Output {
    /// Returns the outputs from which this one is computed: the arguments of a call, or the value
    /// that contains a field, an element or a slice. The arguments of an aggregate are not among them:
    /// they are computed for each row, and the output for each group of rows.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Call(_, args) => args,
            Self::Field(of, _) | Self::Element { of, .. } | Self::Slice { of, .. } => {
                std::slice::from_ref(&**of)
            }
            Self::Column(_)
            | Self::WriteTime(_)
            | Self::Ttl(_)
            | Self::Term(_)
            | Self::Aggregate(_) => &[],
        }
    }

    /// Returns the slot of the column that this output itself, not one of its parts, reads.
    pub fn slot(&self) -> Option<usize> {
        match self {
            Self::Column(slot) | Self::WriteTime(slot) | Self::Ttl(slot) => Some(*slot),
            _ => None,
        }
    }
}

/// The columns that a statement reads. The index of a column among them is its slot.
#[derive(Debug, Default, Clone)]
pub struct Slots {
    /// The indexes of the columns among the columns of the table.
    columns: Vec<usize>,
    /// Maps the index of a column in the table to its slot, its index in `columns`.
    by_place: BTreeMap<usize, usize>,
}

impl Slots {
    /// Returns the slot (the index among the columns that the statement reads) of the column with
    /// the index `place` in the table. Adds the column if it has no slot yet.
    pub fn of(&mut self, place: usize) -> usize {
        let next = self.columns.len();
        let slot = *self.by_place.entry(place).or_insert(next);
        if slot == next {
            self.columns.push(place);
        }
        slot
    }

    /// Returns the slot (the index among the columns that the statement reads) of the column with
    /// the index `place` in the table; `None` if the statement does not read the column.
    pub fn get(&self, place: usize) -> Option<usize> {
        self.by_place.get(&place).copied()
    }

    pub fn columns(&self) -> &[usize] {
        &self.columns
    }
}

#[derive(Debug)]
pub struct ResultColumn {
    pub name: String,
    pub ty: CqlType,
    pub output: Output,
}

/// The analysed selectors of a SELECT clause. Not `Clone`: a copy for each function call in the
/// clause would make the analysis quadratic in the number of selectors.
#[derive(Debug, Default)]
pub struct Outputs {
    pub columns: Vec<ResultColumn>,
    /// The aggregates, each with its arguments. The arguments are computed for each row of a group.
    pub aggregates: Vec<(Aggregate, Vec<Output>)>,
    pub slots: Slots,
}

impl Outputs {
    /// Analyses a SELECT clause.
    ///
    /// # Errors
    /// Cassandra's errors, or the timeout of the statement.
    pub fn new(selection: &Selection, markers: &mut Markers) -> Result<Self> {
        let schema = markers.schema().clone();
        let mut outputs = Self::default();
        match selection {
            Selection::All => {
                let columns = schema.columns().len();
                markers.memory().take(columns * size_of::<ResultColumn>())?;
                for (place, column) in schema.columns().iter().enumerate() {
                    let output = Output::Column(outputs.slots.of(place));
                    outputs.columns.push(ResultColumn {
                        name: column.name.to_string(),
                        ty: column.ty.clone(),
                        output,
                    });
                }
            }
            Selection::Some(selected) => {
                for Selected { selector, alias } in selected {
                    let (output, ty) = outputs.prepare(selector, None, markers)?;
                    let is_call = matches!(output, Output::Call(..));
                    let name = match (alias, selector) {
                        (Some(alias), _) => alias.as_str().to_owned(),
                        // A cast to the type that the value has is left out, as in Cassandra.
                        (None, Selector::Cast { selector, .. }) if !is_call => name(selector),
                        (None, selector) => name(selector),
                    };
                    outputs.columns.push(ResultColumn { name, ty, output });
                }
            }
        }
        Ok(outputs)
    }

    /// Returns the expressions of the result columns, then those of the arguments of the aggregates.
    pub fn of_rows(&self) -> impl Iterator<Item = &Output> {
        let columns = self.columns.iter().map(|column| &column.output);
        let aggregates = self.aggregates.iter();
        columns.chain(aggregates.flat_map(|(_, args)| args))
    }

    /// Prepares a selector, and returns the expression that computes its value, and the type of the
    /// value. `wanted` is the receiver, if the context has one (an argument's parameter, for
    /// example). Constants (if they fit), nulls and markers get the type of `wanted`; other
    /// selectors have a type of their own.
    ///
    /// # Errors
    /// Cassandra's errors, or the timeout of the statement.
    pub fn prepare(
        &mut self,
        selector: &Selector,
        wanted: Option<&Receiver>,
        markers: &mut Markers,
    ) -> Result<(Output, CqlType)> {
        // A statement may have many thousands of selectors, so each counts for its time limit.
        interrupt::charge(1)?;
        let schema = markers.schema().clone();
        match selector {
            Selector::Column(name) => {
                let column = column(&schema, name.as_str())?;
                let slot = self.slots.of(place(&schema, column));
                Ok((Output::Column(slot), column.ty.clone()))
            }
            Selector::Constant(constant) => {
                let own = literal::own_type(constant.kind, &constant.text)?;
                let ty = match wanted {
                    Some(wanted) if constant.kind.fits(&wanted.ty) => wanted.ty.clone(),
                    _ => own,
                };
                let value = literal::value(constant, &ty, "[selection]")?;
                Ok((Output::Term(Term::Value(value)), ty))
            }
            Selector::Null => {
                let Some(receiver) = wanted else {
                    return cannot_infer(selector);
                };
                Ok((Output::Term(Term::Null), receiver.ty.clone()))
            }
            Selector::Marker(marker) => {
                let Some(receiver) = wanted else {
                    return cannot_infer(selector);
                };
                let marker = ast::Term::Marker(marker.clone());
                let term = term::prepare(&marker, receiver, markers)?;
                Ok((Output::Term(term), receiver.ty.clone()))
            }
            Selector::CountRows => {
                let output = self.aggregate(Aggregate::count_rows(), Vec::new());
                Ok((output, CqlType::Bigint))
            }
            Selector::WriteTime(of) | Selector::MaxWriteTime(of) | Selector::Ttl(of) => {
                let function = match selector {
                    Selector::Ttl(_) => "ttl",
                    Selector::MaxWriteTime(_) => "maxwritetime",
                    // As in Cassandra's messages.
                    _ => "writeTime",
                };
                // `cell` accepts only columns of a single cell, whose only timestamp is the greatest.
                let slot = self.cell(of, function, &schema)?;
                Ok(match selector {
                    Selector::Ttl(_) => (Output::Ttl(slot), CqlType::Int),
                    _ => (Output::WriteTime(slot), CqlType::Bigint),
                })
            }
            Selector::Call { function, args } => self.call(function, args, markers),
            Selector::Cast { selector, to } => {
                let to = types::resolve(to, &schema)?;
                let (arg, from) = self.prepare(selector, None, markers)?;
                if from == to {
                    return Ok((arg, to));
                }
                match functions::cast(&from, &to)? {
                    Some(function) => Ok((Output::Call(function, vec![arg]), to)),
                    None => invalid(format!("{selector} cannot be cast to {to}")),
                }
            }
            Selector::Field { of, field } => {
                let (output, ty) = self.prepare(of, None, markers)?;
                let CqlType::Udt { definition, .. } = &ty else {
                    return invalid(format!(
                        "Invalid field selection: {of} of type {ty} is not a user type"
                    ));
                };
                let Some(at) = definition.field(field.as_str()) else {
                    return invalid(format!("{of} of type {ty} has no field {field}"));
                };
                let ty = definition.fields()[at].1.clone();
                Ok((Output::Field(Box::new(output), at), ty))
            }
            Selector::Element { of, key } => {
                let (output, ty) = self.prepare(of, None, markers)?;
                let receiver = key_receiver(of, &ty, "Element")?;
                let key = term::prepare(key, &receiver, markers)?;
                let value = match &ty {
                    CqlType::Map { value, .. } => (**value).clone(),
                    // An element of a set is selected by itself.
                    _ => receiver.ty,
                };
                let element = Output::Element {
                    of: Box::new(output),
                    name: name(of),
                    ty,
                    key,
                };
                Ok((element, value))
            }
            Selector::Slice { of, from, to } => {
                let (output, ty) = self.prepare(of, None, markers)?;
                let receiver = key_receiver(of, &ty, "Slice")?;
                let mut end = |end: &Option<ast::Term>| {
                    let end = end.as_ref();
                    end.map(|end| term::prepare(end, &receiver, markers))
                        .transpose()
                };
                let (from, to) = (end(from)?, end(to)?);
                let slice = Output::Slice {
                    of: Box::new(output),
                    name: name(of),
                    ty: ty.clone(),
                    from,
                    to,
                };
                Ok((slice, ty))
            }
            Selector::Hint { to, selector } => {
                let ty = types::resolve(to, &schema)?;
                let receiver = Receiver::new("[selection]", ty.clone());
                let (output, from) = self.prepare(selector, Some(&receiver), markers)?;
                if is_value_compatible(&from, &ty) {
                    Ok((output, ty))
                } else {
                    invalid(format!("Cannot assign value {selector} to type {ty}"))
                }
            }
            Selector::Negation(of) => {
                if has_no_type(of) {
                    return invalid("Ambiguous negation: use type casts to disambiguate");
                }
                let (output, ty) = self.prepare(of, None, markers)?;
                let function = functions::negation(&ty)?;
                Ok((Output::Call(function, vec![output]), ty))
            }
            Selector::Arithmetic {
                left,
                operator,
                right,
            } => {
                // The types of the operands choose the function, so each operand needs one.
                if has_no_type(left) || has_no_type(right) {
                    return ambiguous(*operator, left, right);
                }
                let (of_left, left_type) = self.prepare(left, None, markers)?;
                let (of_right, right_type) = self.prepare(right, None, markers)?;
                let Some(function) = functions::operation(*operator, &left_type, &right_type)
                else {
                    return unsupported(*operator, left, right);
                };
                let returns = function.returns().clone();
                Ok((Output::Call(function, vec![of_left, of_right]), returns))
            }
            // Parentheses around one selector only group, but belong to the term in the error.
            Selector::Tuple(_) if wanted.is_none() && has_no_type(selector) => {
                cannot_infer(selector)
            }
            Selector::Tuple(parts) if parts.len() == 1 => self.prepare(&parts[0], wanted, markers),
            other => invalid(format!("Selecting {other} is not supported")),
        }
    }

    /// Adds an aggregate over the values of `args`, and returns the expression that stands for its
    /// result.
    fn aggregate(&mut self, aggregate: Aggregate, args: Vec<Output>) -> Output {
        self.aggregates.push((aggregate, args));
        Output::Aggregate(self.aggregates.len() - 1)
    }

    /// Returns the slot (the index among the columns that the statement reads) of the column `of`,
    /// the argument of `function` (WRITETIME, MAXWRITETIME or TTL). The value of the column must be
    /// stored in a single cell.
    fn cell(&mut self, of: &Selector, function: &str, schema: &TableSchema) -> Result<usize> {
        let Selector::Column(name) = of else {
            return invalid(format!("{function} of {of} is not supported"));
        };
        let found = column(schema, name.as_str())?;
        check_cell(found, function)?;
        Ok(self.slots.of(place(schema, found)))
    }
}

/// Returns the selector inside any parentheses around it.
fn bare(selector: &Selector) -> &Selector {
    match selector {
        Selector::Tuple(parts) => match &parts[..] {
            [one] => bare(one),
            _ => selector,
        },
        other => other,
    }
}

/// Returns whether the selector is a null or a marker, also in parentheses. These have a type only
/// where the context has a receiver.
fn has_no_type(selector: &Selector) -> bool {
    matches!(bare(selector), Selector::Null | Selector::Marker(_))
}

fn cannot_infer<T>(selector: &Selector) -> Result<T> {
    invalid(format!(
        "Cannot infer type for term {selector} in selection clause (try using a cast to force a \
         type)"
    ))
}

/// Checks that a column is stored in a single cell. Key columns have no cell, and non-frozen
/// collections and user-defined types have one for each element or field.
fn check_cell(column: &Column, function: &str) -> Result<()> {
    let name = &column.name;
    if matches!(
        column.kind,
        ColumnKind::PartitionKey | ColumnKind::Clustering
    ) {
        return invalid(format!(
            "Cannot use selection function {function} on PRIMARY KEY part {name}"
        ));
    }
    if column.ty.is_multi_cell() {
        let what = if column.ty.is_collection() {
            "non-frozen collection"
        } else {
            "non-frozen UDT"
        };
        return invalid(format!(
            "Cannot use selection function {function} on {what} {name}"
        ));
    }
    Ok(())
}

/// Returns the receiver of the key in `of[key]`, or of the ends in `of[from..to]`: the name and the
/// type that they must have. `ty` is the type of `of`. `what` is "Element" or "Slice", for errors.
fn key_receiver(of: &Selector, ty: &CqlType, what: &str) -> Result<Receiver> {
    match ty {
        CqlType::Map { key, .. } => Ok(Receiver::new(format!("key({of})"), (**key).clone())),
        CqlType::Set { element, .. } => {
            Ok(Receiver::new(format!("value({of})"), (**element).clone()))
        }
        CqlType::List { .. } => invalid(format!(
            "{what} selection is only allowed on sets and maps, but {of} is a list"
        )),
        // The first "is" is Cassandra's.
        _ if what == "Element" => invalid(format!(
            "Invalid element selection: {of} is of type {ty} is not a collection"
        )),
        _ => invalid(format!(
            "Invalid slice selection: {of} of type {ty} is not a collection"
        )),
    }
}

/// Returns the name of a result column for a selector without an alias.
fn name(selector: &Selector) -> String {
    match selector {
        Selector::Column(name) => name.as_str().to_owned(),
        Selector::CountRows => "count".to_owned(),
        Selector::WriteTime(of) => format!("writetime({})", name(of)),
        Selector::MaxWriteTime(of) => format!("maxwritetime({})", name(of)),
        Selector::Ttl(of) => format!("ttl({})", name(of)),
        Selector::Call { function, args } => {
            let args: Vec<String> = args.iter().map(name).collect();
            let function = function.name.as_str();
            format!("system.{function}({})", args.join(", "))
        }
        Selector::Cast { selector, to } => {
            format!("cast({} as {})", name(selector), to)
        }
        Selector::Field { of, field } => format!("{}.{}", name(of), field.as_str()),
        Selector::Element { of, key } => format!("{}[{key}]", name(of)),
        Selector::Slice { of, from, to } => {
            let end = |end: &Option<ast::Term>| end.as_ref().map(ToString::to_string);
            let (from, to) = (end(from).unwrap_or_default(), end(to).unwrap_or_default());
            format!("{}[{from}..{to}]", name(of))
        }
        Selector::Negation(of) => format!("-{}", name(of)),
        Selector::Hint { to, selector } => format!("({to}){}", name(selector)),
        Selector::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(name).collect();
            format!("({})", parts.join(", "))
        }
        Selector::Arithmetic {
            left,
            operator,
            right,
        } => format!("{} {} {}", name(left), operator.symbol(), name(right)),
        other => other.to_string(),
    }
}
