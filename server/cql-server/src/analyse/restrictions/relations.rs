//! Relations as they are written, with their columns found and their terms typed.

use std::collections::HashSet;
use std::sync::Arc;

use ebb_cql::syntax::ast::{self, InValues, Operator, Relation};
use ebb_model::schema::{Column, ColumnKind, TableSchema};
use ebb_model::types::CqlType;

use super::predicate::{Predicate, Test};
use super::{column, is_slice, place};
use crate::analyse::markers::{Markers, Receiver};
use crate::analyse::term::{self, Term};
use crate::error::{Result, invalid};

/// What one relation asks of one or more columns.
#[derive(Debug, Clone)]
pub enum Ask {
    /// `=`: the values of the columns.
    Equal(Tuple),
    In(InTuples),
    /// `<`, `<=`, `>`, `>=`.
    Slice(Operator, Tuple),
    /// What only a predicate can say.
    Other(Test),
}

/// Values of one or more columns.
#[derive(Debug, Clone)]
pub enum Tuple {
    /// One for each column.
    Terms(Vec<Term>),
    /// All in one value of a tuple type.
    Whole(Term),
}

#[derive(Debug, Clone)]
pub enum InTuples {
    List(Vec<Tuple>),
    /// A list that comes with the request: of values of one column, or of tuples.
    Whole {
        list: Term,
        /// Its elements are tuples of several columns.
        tuples: bool,
    },
}

#[derive(Debug, Clone)]
pub struct Asked {
    /// The columns, by their places in the schema; more than one only of clustering ones.
    pub columns: Vec<usize>,
    pub ask: Ask,
}

/// A bound on the token.
#[derive(Debug)]
pub struct TokenAsk {
    pub operator: Operator,
    pub value: Term,
}

#[derive(Debug)]
pub struct Parsed {
    schema: Arc<TableSchema>,
    asked: Vec<Asked>,
    pub tokens: Vec<TokenAsk>,
}

impl Parsed {
    pub fn new(
        schema: &Arc<TableSchema>,
        relations: &[Relation],
        markers: &mut Markers,
    ) -> Result<Self> {
        let mut parsed = Self {
            schema: schema.clone(),
            asked: Vec::new(),
            tokens: Vec::new(),
        };
        for relation in relations {
            parsed.add(relation, markers)?;
        }
        Ok(parsed)
    }

    /// Whether a relation asks of a column of this kind.
    pub fn has(&self, kind: ColumnKind) -> bool {
        let columns = self.schema.columns();
        let mut asked = self.asked.iter().flat_map(|asked| &asked.columns);
        asked.any(|&place| columns[place].kind == kind)
    }

    /// The names of the columns of this kind that no relation asks of.
    pub fn missing(&self, kind: ColumnKind) -> Vec<&str> {
        let asks_of = |column: &&Column| {
            let mut asked = self.asked.iter().flat_map(|asked| &asked.columns);
            asked.any(|&at| self.schema.columns()[at].id == column.id)
        };
        let columns = self.schema.columns_of(kind).iter();
        let missing = columns.filter(|column| !asks_of(column));
        missing.map(|column| &*column.name).collect()
    }

    /// The names of the columns that relations ask of and that are of no key.
    pub fn others(&self) -> Vec<&str> {
        let mut others: Vec<&str> = Vec::new();
        for &at in self.asked.iter().flat_map(|asked| &asked.columns) {
            let column = &self.schema.columns()[at];
            if column.kind >= ColumnKind::Static && !others.contains(&&*column.name) {
                others.push(&column.name);
            }
        }
        others
    }

    /// Takes all relations that begin with a column.
    pub fn take(&mut self, place: usize) -> Vec<Asked> {
        self.asked
            .extract_if(.., |asked| asked.columns[0] == place)
            .collect()
    }

    /// Those of a kind of columns that are left, in the order of the columns.
    pub fn peek(&self, kind: ColumnKind) -> impl Iterator<Item = &Asked> {
        let columns = self.schema.columns();
        (self.asked.iter()).filter(move |asked| columns[asked.columns[0]].kind == kind)
    }

    pub fn all(&self) -> &[Asked] {
        &self.asked
    }

    /// What is left, as predicates.
    pub fn take_rest(&mut self) -> Vec<Predicate> {
        self.asked.drain(..).map(Predicate::of).collect()
    }

    fn push(&mut self, column: &Column, ask: Ask) {
        self.asked.push(Asked {
            columns: vec![place(&self.schema, column)],
            ask,
        });
    }

    fn add(&mut self, relation: &Relation, markers: &mut Markers) -> Result<()> {
        let schema = self.schema.clone();
        match relation {
            Relation::Column {
                column: name,
                operator,
                value,
            } => {
                let column = column(&schema, name.as_str())?;
                let ask = one_column(relation, column, *operator, value, markers)?;
                self.push(column, ask);
            }
            Relation::In {
                column: name,
                values,
            } => {
                let column = column(&schema, name.as_str())?;
                check_type(column, "IN")?;
                let ask = match values {
                    InValues::List(terms) => {
                        let receiver = Receiver::new(&*column.name, column.ty.clone());
                        let one = |t| Ok(Tuple::Terms(vec![term::prepare(t, &receiver, markers)?]));
                        InTuples::List(terms.iter().map(one).collect::<Result<_>>()?)
                    }
                    InValues::Marker(marker) => {
                        let ty = CqlType::list(column.ty.clone().freeze()).freeze();
                        let receiver = Receiver::new(format!("in({})", column.name), ty);
                        InTuples::Whole {
                            list: term::prepare_in(marker, &receiver, markers),
                            tuples: false,
                        }
                    }
                };
                self.push(column, Ask::In(ask));
            }
            Relation::IsNotNull(_) => {
                return invalid(format!("Unsupported restriction: {relation}"));
            }
            Relation::Element {
                column: name,
                key,
                operator,
                value,
            } => {
                let column = column(&schema, name.as_str())?;
                let ask = element(column, key, *operator, value, markers)?;
                self.push(column, Ask::Other(ask));
            }
            Relation::Token {
                columns,
                operator,
                value,
            } => {
                let ask = token(&schema, columns, *operator, value, markers)?;
                self.tokens.push(ask);
            }
            Relation::Tuple {
                columns,
                operator,
                value,
            } => {
                if *operator == Operator::NotEqual {
                    return invalid(format!("Unsupported \"!=\" relation: {relation}"));
                }
                let columns = clustering_columns(&schema, columns, relation)?;
                let value = tuple(&schema, &columns, value, markers)?;
                let ask = match operator {
                    Operator::Equal => Ask::Equal(value),
                    operator if is_slice(*operator) => Ask::Slice(*operator, value),
                    other => {
                        return invalid(format!(
                            "{} cannot be used for multi-column relations",
                            other.text()
                        ));
                    }
                };
                self.asked.push(Asked { columns, ask });
            }
            Relation::TupleIn { columns, values } => {
                let columns = clustering_columns(&schema, columns, relation)?;
                let ask = match values {
                    InValues::List(terms) => {
                        let one = |t| tuple(&schema, &columns, t, markers);
                        InTuples::List(terms.iter().map(one).collect::<Result<_>>()?)
                    }
                    InValues::Marker(marker) => {
                        let ty = CqlType::list(tuple_type(&schema, &columns)).freeze();
                        let names = names(&schema, &columns);
                        let receiver = Receiver::new(format!("in({names})"), ty);
                        InTuples::Whole {
                            list: term::prepare_in(marker, &receiver, markers),
                            tuples: true,
                        }
                    }
                };
                let ask = Ask::In(ask);
                self.asked.push(Asked { columns, ask });
            }
        }
        Ok(())
    }
}

fn one_column(
    relation: &Relation,
    column: &Column,
    operator: Operator,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<Ask> {
    let name = &*column.name;
    let receiver = Receiver::new(name, column.ty.clone());
    match operator {
        Operator::NotEqual => {
            return invalid(format!("Unsupported \"!=\" relation: {relation}"));
        }
        Operator::Like => {
            return invalid(format!(
                "LIKE restriction is only supported on properly indexed columns. {relation} is not \
                 valid."
            ));
        }
        Operator::Contains | Operator::ContainsKey => {
            let value = contained(operator, value, &receiver, name, markers)?;
            return Ok(Ask::Other(match operator {
                Operator::ContainsKey => Test::ContainsKey(value),
                _ => Test::Contains(value),
            }));
        }
        _ => {}
    }
    check_slice(operator, &column.ty, "restrictions", || {
        "Slice restrictions are not supported on duration columns".to_owned()
    })?;
    check_type(column, operator.text())?;
    let value = Tuple::Terms(vec![term::prepare(value, &receiver, markers)?]);
    Ok(match operator {
        Operator::Equal => Ask::Equal(value),
        slice => Ask::Slice(slice, value),
    })
}

/// Prepares the value of CONTAINS or CONTAINS KEY on the receiver, which is `column` or a part of it.
pub fn contained(
    operator: Operator,
    value: &ast::Term,
    receiver: &Receiver,
    column: &str,
    markers: &mut Markers,
) -> Result<Term> {
    let (what, ty) = match (operator, &receiver.ty) {
        (Operator::ContainsKey, CqlType::Map { key, .. }) => ("key", key),
        (Operator::ContainsKey, _) => {
            return invalid(format!(
                "Cannot use CONTAINS KEY on non-map column {column}"
            ));
        }
        (
            _,
            CqlType::List { element, .. }
            | CqlType::Set { element, .. }
            | CqlType::Map { value: element, .. },
        ) => ("value", element),
        _ => {
            return invalid(format!(
                "Cannot use CONTAINS on non-collection column {column}"
            ));
        }
    };
    let receiver = Receiver::new(format!("{what}({})", receiver.name), (**ty).clone());
    term::prepare(value, &receiver, markers)
}

/// Refuses comparisons by order of types that contain durations, which have no order. `what` names
/// the comparisons, and `of_durations` returns the message for durations themselves.
pub fn check_slice(
    operator: Operator,
    ty: &CqlType,
    what: &str,
    of_durations: impl FnOnce() -> String,
) -> Result<()> {
    if !is_slice(operator) || !ty.contains_duration() {
        return Ok(());
    }
    let types = match ty {
        CqlType::Duration => return invalid(of_durations()),
        CqlType::Tuple(_) => "tuples",
        CqlType::Udt { .. } => "UDTs",
        _ => "collections",
    };
    invalid(format!(
        "Slice {what} are not supported on {types} containing durations"
    ))
}

/// Refuses what lies in several cells.
fn check_type(column: &Column, operator: &str) -> Result<()> {
    if !column.ty.is_multi_cell() {
        return Ok(());
    }
    let (name, ty) = (&column.name, &column.ty);
    match ty.is_collection() {
        true => invalid(format!(
            "Collection column '{name}' ({ty}) cannot be restricted by a '{operator}' relation"
        )),
        false => invalid(format!(
            "Non-frozen UDT column '{name}' ({ty}) cannot be restricted by any relation"
        )),
    }
}

fn element(
    column: &Column,
    key: &ast::Term,
    operator: Operator,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<Test> {
    let name = &column.name;
    let (keys, values) = match &column.ty {
        CqlType::List { .. } => {
            return invalid(format!(
                "Indexes on list entries ({name}[index] = value) are not currently supported."
            ));
        }
        CqlType::Map { frozen: true, .. } => {
            return invalid(format!(
                "Map-entry equality predicates on frozen map column {name} are not supported"
            ));
        }
        CqlType::Map { key, value, .. } => (key, value),
        _ => return invalid(format!("Column {name} cannot be used as a map")),
    };
    if operator != Operator::Equal {
        return invalid("Only EQ relations are supported on map entries");
    }
    let key_receiver = Receiver::new(format!("key({name})"), (**keys).clone());
    let receiver = Receiver::new(format!("value({name})"), (**values).clone());
    Ok(Test::Element {
        key: term::prepare(key, &key_receiver, markers)?,
        value: term::prepare(value, &receiver, markers)?,
    })
}

fn token(
    schema: &TableSchema,
    columns: &[ast::Name],
    operator: Operator,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<TokenAsk> {
    let keys = schema.columns_of(ColumnKind::PartitionKey);
    for name in columns {
        if column(schema, name.as_str())?.kind != ColumnKind::PartitionKey {
            return invalid("The token() function must contains only partition key components");
        }
    }
    if columns.len() != keys.len() {
        return invalid(
            "The token() function must be applied to all partition key components or none of them",
        );
    }
    if columns
        .iter()
        .zip(keys)
        .any(|(name, key)| *name != *key.name)
    {
        let keys: Vec<&str> = keys.iter().map(|key| &*key.name).collect();
        return invalid(format!(
            "The token function arguments must be in the partition key order: {}",
            keys.join(", ")
        ));
    }
    if operator != Operator::Equal && !is_slice(operator) {
        return invalid(format!(
            "{} cannot be used with the token function",
            operator.text()
        ));
    }
    let receiver = Receiver::new("partition key token", CqlType::Bigint);
    Ok(TokenAsk {
        operator,
        value: term::prepare(value, &receiver, markers)?,
    })
}

/// The places of columns of a multi-column relation.
fn clustering_columns(
    schema: &TableSchema,
    names: &[ast::Name],
    relation: &Relation,
) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(names.len());
    let mut seen = HashSet::new();
    let mut previous: Option<usize> = None;
    for name in names {
        let column = column(schema, name.as_str())?;
        if column.kind != ColumnKind::Clustering {
            return invalid(format!(
                "Multi-column relations can only be applied to clustering columns but was applied \
                 to: {name}"
            ));
        }
        if !seen.insert(name) {
            return invalid(format!(
                "Column \"{name}\" appeared twice in a relation: {relation}"
            ));
        }
        if previous.is_some_and(|previous| column.position != previous + 1) {
            return invalid(format!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column \
                 relations: {relation}"
            ));
        }
        previous = Some(column.position);
        places.push(place(schema, column));
    }
    Ok(places)
}

fn names(schema: &TableSchema, columns: &[usize]) -> String {
    let names = columns.iter().map(|&place| &*schema.columns()[place].name);
    names.collect::<Vec<_>>().join(",")
}

fn tuple_type(schema: &TableSchema, columns: &[usize]) -> CqlType {
    CqlType::tuple(
        columns
            .iter()
            .map(|&place| schema.columns()[place].ty.clone()),
    )
}

fn tuple(
    schema: &TableSchema,
    columns: &[usize],
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<Tuple> {
    let ast::Term::Tuple(terms) = value else {
        let name = format!("({})", names(schema, columns));
        let receiver = Receiver::new(name, tuple_type(schema, columns));
        return Ok(Tuple::Whole(term::prepare(value, &receiver, markers)?));
    };
    if terms.len() != columns.len() {
        let values: Vec<String> = terms.iter().map(ToString::to_string).collect();
        return invalid(format!(
            "Expected {} elements in value tuple, but got {}: ({})",
            columns.len(),
            terms.len(),
            values.join(", ")
        ));
    }
    let one = |(term, &place): (&ast::Term, &usize)| {
        let column = &schema.columns()[place];
        term::prepare(
            term,
            &Receiver::new(&*column.name, column.ty.clone()),
            markers,
        )
    };
    let terms = terms.iter().zip(columns).map(one);
    Ok(Tuple::Terms(terms.collect::<Result<_>>()?))
}
