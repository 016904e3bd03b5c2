//! Relations with resolved columns and typed terms.

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

/// The most columns that one relation such as `(a, b) > (1, 2)` may compare by order. The size of
/// the key ranges of such a relation grows with the square of the number of columns: see
/// [`check_width`].
const SLICE_COLUMNS_MAX: usize = 128;

/// The restriction that a relation puts on one or more columns.
#[derive(Debug, Clone)]
pub enum RestrictionKind {
    /// `=`: the values of the columns.
    Equal(Tuple),
    In(InTuples),
    /// `<`, `<=`, `>`, `>=`.
    Slice(Operator, Tuple),
    /// A restriction that no range of keys expresses, such as CONTAINS or `m[k] = v`: each row is
    /// tested.
    Other(Test),
}

impl RestrictionKind {
    /// Returns the restriction of an IN with these values. As in Cassandra, IN with a single value is
    /// `=`.
    fn one_of(mut tuples: Vec<Tuple>) -> Self {
        if tuples.len() == 1 {
            Self::Equal(tuples.remove(0))
        } else {
            Self::In(InTuples::List(tuples))
        }
    }
}

/// Values for one or more columns.
#[derive(Debug, Clone)]
pub enum Tuple {
    /// One term for each column.
    Terms(Vec<Term>),
    /// One term of a tuple type for all columns.
    Whole(Term),
}

/// The values of an IN relation.
#[derive(Debug, Clone)]
pub enum InTuples {
    List(Vec<Tuple>),
    /// `IN ?`: a single marker, whose value is a list of values of one column, or of tuples.
    Whole {
        list: Term,
        /// True if the elements are tuples of several columns.
        tuples: bool,
    },
}

/// A relation on columns, with its columns resolved and its terms prepared.
#[derive(Debug, Clone)]
pub struct Restriction {
    /// The indexes of the columns among those of the table. Several for a multi-column relation,
    /// which names consecutive clustering columns.
    pub columns: Vec<usize>,
    pub kind: RestrictionKind,
}

/// A relation on the token of the partition key, such as `token(k) > 5`.
#[derive(Debug)]
pub struct TokenRestriction {
    pub operator: Operator,
    pub value: Term,
}

/// The relations of a WHERE clause. Each step of the analysis removes the relations that it
/// handles.
#[derive(Debug)]
pub struct Parsed {
    schema: Arc<TableSchema>,
    /// The restrictions in the order of the statement; `None` for those that were removed.
    restrictions: Vec<Option<Restriction>>,
    /// For each restriction, its first column and its index in `restrictions`, sorted by column.
    by_column: Vec<(usize, usize)>,
    pub tokens: Vec<TokenRestriction>,
}

impl Parsed {
    pub fn new(
        schema: &Arc<TableSchema>,
        relations: &[Relation],
        markers: &mut Markers,
    ) -> Result<Self> {
        let mut parsed = Self {
            schema: schema.clone(),
            restrictions: Vec::new(),
            by_column: Vec::new(),
            tokens: Vec::new(),
        };
        for relation in relations {
            parsed.add(relation, markers)?;
        }
        let first_columns = parsed.all().map(|restriction| restriction.columns[0]);
        let mut by_column: Vec<(usize, usize)> = first_columns.zip(0..).collect();
        by_column.sort_unstable();
        parsed.by_column = by_column;
        Ok(parsed)
    }

    /// Returns the columns of the restrictions that were not removed, as indexes among the columns of
    /// the table. A column that several restrictions name occurs several times.
    fn restricted(&self) -> impl Iterator<Item = usize> {
        self.all()
            .flat_map(|restriction| &restriction.columns)
            .copied()
    }

    /// Returns whether a restriction that was not removed yet is on a column of this kind.
    pub fn has(&self, kind: ColumnKind) -> bool {
        let columns = self.schema.columns();
        self.restricted().any(|place| columns[place].kind == kind)
    }

    /// Returns the names of the columns of this kind that have no restriction. A column whose
    /// restrictions were removed is among them, so this has to be called before the analysis
    /// removes the restrictions on columns of this kind.
    pub fn missing(&self, kind: ColumnKind) -> Vec<&str> {
        let mut restricted: Vec<usize> = self.restricted().collect();
        restricted.sort_unstable();
        let columns = self.schema.columns().iter().enumerate();
        let missing = columns.filter(|(place, column)| {
            column.kind == kind && restricted.binary_search(place).is_err()
        });
        missing.map(|(_, column)| &*column.name).collect()
    }

    /// Returns the names of the columns outside of the primary key whose restrictions were not
    /// removed, each once.
    pub fn others(&self) -> Vec<&str> {
        let mut others: Vec<&str> = Vec::new();
        let mut seen = HashSet::new();
        for at in self.restricted() {
            let column = &self.schema.columns()[at];
            if column.kind >= ColumnKind::Static && seen.insert(at) {
                others.push(&column.name);
            }
        }
        others
    }

    /// Removes and returns all restrictions whose first column has the index `place` among the
    /// columns of the table.
    pub fn take(&mut self, place: usize) -> Vec<Restriction> {
        let from = self.by_column.partition_point(|&(first, _)| first < place);
        let of_column = self.by_column[from..].iter();
        let of_column = of_column.take_while(|&&(first, _)| first == place);
        of_column
            .filter_map(|&(_, at)| self.restrictions[at].take())
            .collect()
    }

    /// Returns the remaining restrictions on columns of this kind, in the order of the statement.
    pub fn peek(&self, kind: ColumnKind) -> impl Iterator<Item = &Restriction> {
        let columns = self.schema.columns();
        (self.all()).filter(move |restriction| columns[restriction.columns[0]].kind == kind)
    }

    /// Returns the columns that `=`, or IN with one value, restricts, as indexes among the columns of
    /// the table. Leaves out columns with `IN ?`, whose number of values is known only at execution.
    pub fn single_valued(&self) -> Vec<usize> {
        let is_equal =
            |restriction: &&Restriction| matches!(restriction.kind, RestrictionKind::Equal(_));
        let single = self.all().filter(is_equal);
        single
            .flat_map(|restriction| &restriction.columns)
            .copied()
            .collect()
    }

    /// Returns the restrictions that were not removed, in the order of the statement.
    pub fn all(&self) -> impl Iterator<Item = &Restriction> {
        self.restrictions.iter().flatten()
    }

    /// Removes all restrictions that are left, and returns them as predicates on each row.
    pub fn take_rest(&mut self) -> Vec<Predicate> {
        let rest = self.restrictions.iter_mut().filter_map(Option::take);
        rest.map(Predicate::of).collect()
    }

    fn push(&mut self, column: &Column, kind: RestrictionKind) {
        let columns = vec![place(&self.schema, column)];
        self.restrictions.push(Some(Restriction { columns, kind }));
    }

    /// Resolves the columns and terms of a relation, and adds it to the restrictions.
    fn add(&mut self, relation: &Relation, markers: &mut Markers) -> Result<()> {
        let schema = self.schema.clone();
        match relation {
            Relation::Column {
                column: name,
                operator,
                value,
            } => {
                let column = column(&schema, name.as_str())?;
                let kind = one_column(relation, column, *operator, value, markers)?;
                self.push(column, kind);
            }
            Relation::In {
                column: name,
                values,
            } => {
                let column = column(&schema, name.as_str())?;
                check_type(column, "IN")?;
                let kind = match values {
                    InValues::List(terms) => {
                        let receiver = Receiver::new(&*column.name, column.ty.clone());
                        let one = |t| Ok(Tuple::Terms(vec![term::prepare(t, &receiver, markers)?]));
                        RestrictionKind::one_of(terms.iter().map(one).collect::<Result<_>>()?)
                    }
                    InValues::Marker(marker) => {
                        // One value of the client has all elements. `prepare_in` permits nulls in
                        // it: the evaluation of the relation refuses nulls, with Cassandra's error.
                        let ty = CqlType::list(column.ty.clone().freeze()).freeze();
                        let receiver = Receiver::new(format!("in({})", column.name), ty);
                        RestrictionKind::In(InTuples::Whole {
                            list: term::prepare_in(marker, &receiver, markers)?,
                            tuples: false,
                        })
                    }
                };
                self.push(column, kind);
            }
            // Cassandra has IS NOT NULL for materialized views alone, which ebb does not have.
            Relation::IsNotNull(_) => {
                return invalid(format!("Unsupported restriction: {relation}"));
            }
            Relation::Element {
                column: name,
                key,
                operator,
                value,
            } => {
                if *operator == Operator::NotEqual {
                    return invalid(format!("Unsupported \"!=\" relation: {relation}"));
                }
                let column = column(&schema, name.as_str())?;
                let kind = element(column, key, *operator, value, markers)?;
                self.push(column, RestrictionKind::Other(kind));
            }
            Relation::Token {
                columns,
                operator,
                value,
            } => {
                if *operator == Operator::NotEqual {
                    return invalid(format!("Unsupported \"!=\" relation: {relation}"));
                }
                let restriction = token(&schema, columns, *operator, value, markers)?;
                self.tokens.push(restriction);
            }
            Relation::Tuple {
                columns,
                operator,
                value,
            } => {
                if *operator == Operator::NotEqual {
                    return invalid(format!("Unsupported \"!=\" relation: {relation}"));
                }
                // Clustering columns are frozen and contain no durations, so `check_type` and
                // `check_slice` would never fail here.
                let columns = clustering_columns(&schema, columns, relation)?;
                let value = tuple(&schema, &columns, &whole(&schema, &columns), value, markers)?;
                let kind = match operator {
                    Operator::Equal => RestrictionKind::Equal(value),
                    operator if is_slice(*operator) => {
                        check_width(&columns, *operator)?;
                        RestrictionKind::Slice(*operator, value)
                    }
                    other => {
                        return invalid(format!(
                            "{} cannot be used for multi-column relations",
                            other.text()
                        ));
                    }
                };
                self.restrictions.push(Some(Restriction { columns, kind }));
            }
            Relation::TupleIn { columns, values } => {
                let columns = clustering_columns(&schema, columns, relation)?;
                // Built once for all values, because the key may have thousands of columns.
                let whole = whole(&schema, &columns);
                let kind = match values {
                    InValues::List(terms) => {
                        let one = |t| tuple(&schema, &columns, &whole, t, markers);
                        RestrictionKind::one_of(terms.iter().map(one).collect::<Result<_>>()?)
                    }
                    InValues::Marker(marker) => {
                        let ty = CqlType::list(whole.ty).freeze();
                        let receiver = Receiver::new(format!("in{}", whole.name), ty);
                        RestrictionKind::In(InTuples::Whole {
                            list: term::prepare_in(marker, &receiver, markers)?,
                            tuples: true,
                        })
                    }
                };
                self.restrictions.push(Some(Restriction { columns, kind }));
            }
        }
        Ok(())
    }
}

/// Checks that a relation compares at most [`SLICE_COLUMNS_MAX`] columns by order. If the
/// clustering order is ascending for some of the columns and descending for others, the relation
/// may become one range of keys for each column. The bounds of each range repeat the values of the
/// preceding columns, so their total size grows with the square of the number of columns.
fn check_width(columns: &[usize], operator: Operator) -> Result<()> {
    if columns.len() > SLICE_COLUMNS_MAX {
        return invalid(format!(
            "A relation with {} names at most {SLICE_COLUMNS_MAX} columns",
            operator.text()
        ));
    }
    Ok(())
}

/// Returns the restriction that a relation on a single column makes. The operator is not IN.
fn one_column(
    relation: &Relation,
    column: &Column,
    operator: Operator,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<RestrictionKind> {
    let name = &*column.name;
    let receiver = Receiver::new(name, column.ty.clone());
    match operator {
        Operator::NotEqual => {
            return invalid(format!("Unsupported \"!=\" relation: {relation}"));
        }
        Operator::Like => {
            // As in Cassandra, faults of the column and of the value come first.
            check_type(column, operator.text())?;
            term::prepare(value, &receiver, markers)?;
            return invalid(format!(
                "LIKE restriction is only supported on properly indexed columns. {relation} is not \
                 valid."
            ));
        }
        Operator::Contains | Operator::ContainsKey => {
            let value = contained(operator, value, &receiver, name, markers)?;
            return Ok(RestrictionKind::Other(match operator {
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
        Operator::Equal => RestrictionKind::Equal(value),
        slice => RestrictionKind::Slice(slice, value),
    })
}

/// Prepares the value in `receiver CONTAINS value` or `receiver CONTAINS KEY value`. The receiver
/// is the column named `column`, or a part of that column.
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

/// Rejects comparisons by order of types that contain durations, which have no order. `what` names
/// the comparisons in errors, and `of_durations` returns the error message for the type duration
/// itself.
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

/// Rejects a relation with `operator` on a column whose type is stored in several cells: a
/// non-frozen collection or user-defined type.
fn check_type(column: &Column, operator: &str) -> Result<()> {
    if !column.ty.is_multi_cell() {
        return Ok(());
    }
    let (name, ty) = (&column.name, &column.ty);
    if ty.is_collection() {
        invalid(format!(
            "Collection column '{name}' ({ty}) cannot be restricted by a '{operator}' relation"
        ))
    } else {
        invalid(format!(
            "Non-frozen UDT column '{name}' ({ty}) cannot be restricted by any relation"
        ))
    }
}

/// Prepares the test of a relation on one entry of a non-frozen map, `m[k] = v`.
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

/// Resolves a relation on the token, whose arguments must be the whole partition key in its order.
fn token(
    schema: &TableSchema,
    columns: &[ast::Name],
    operator: Operator,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<TokenRestriction> {
    let keys = schema.columns_of(ColumnKind::PartitionKey);
    let mut named = HashSet::new();
    for name in columns {
        named.insert(&*column(schema, name.as_str())?.name);
    }
    if !keys.iter().all(|key| named.contains(&*key.name)) {
        return invalid(
            "The token() function must be applied to all partition key components or none of them",
        );
    }
    if named.len() != columns.len() {
        return invalid("The token() function contains duplicate partition key components");
    }
    if columns.len() != keys.len() {
        return invalid("The token() function must contains only partition key components");
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
    Ok(TokenRestriction {
        operator,
        value: term::prepare(value, &receiver, markers)?,
    })
}

/// Resolves the columns of a multi-column relation to their indexes among the columns of the table.
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

/// Returns the receiver of a tuple with a value for each of the columns with these indexes.
fn whole(schema: &TableSchema, columns: &[usize]) -> Receiver {
    let columns = columns.iter().map(|&place| &schema.columns()[place]);
    let names: Vec<&str> = columns.clone().map(|column| &*column.name).collect();
    let ty = CqlType::tuple(columns.map(|column| column.ty.clone()));
    Receiver::new(format!("({})", names.join(",")), ty)
}

/// Prepares the values of a multi-column relation: a tuple literal becomes one term for each
/// column; any other term, such as a marker, is the tuple of all columns, for the receiver `whole`.
fn tuple(
    schema: &TableSchema,
    columns: &[usize],
    whole: &Receiver,
    value: &ast::Term,
    markers: &mut Markers,
) -> Result<Tuple> {
    let ast::Term::Tuple(terms) = value else {
        return Ok(Tuple::Whole(term::prepare(value, whole, markers)?));
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
