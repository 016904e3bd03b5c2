//! What a statement says of its key columns, held to Cassandra 4.1's rules.

use ebb_catalog::schema::{Column, ColumnKind, TableSchema};
use ebb_cql::syntax::ast::{self, InValues, Operator, Relation};

use super::values::{ColumnValues, TupleValues, tuple_type};
use super::{Bound, Clustering, Group, GroupValues, Keys, Slice};
use crate::analyse::markers::{Markers, Receiver};
use crate::analyse::term;
use crate::error::{Result, invalid};
use crate::write::plan::column;

/// What of the rows a statement writes: its keys need not say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::write) enum Written {
    /// Static columns and no others.
    Statics,
    /// Columns of rows.
    Rows,
    /// Whole rows go: ranges of them too.
    Deleted,
}

/// The keys of INSERT: its key columns with their values.
pub(in crate::write) fn of_columns(
    schema: &TableSchema,
    written: Written,
    given: &[(&Column, &ast::Term)],
    markers: &mut Markers,
) -> Result<Keys> {
    let mut builder = Builder::new(schema, "INSERT");
    for (column, value) in given {
        let values = ColumnValues::one(column, value, markers)?;
        builder.values(column, values, "an Equal")?;
    }
    builder.finish(written)
}

/// The keys of UPDATE and DELETE (`statement`).
pub(in crate::write) fn of_relations(
    schema: &TableSchema,
    statement: &'static str,
    written: Written,
    relations: &[Relation],
    markers: &mut Markers,
) -> Result<Keys> {
    let mut builder = Builder::new(schema, statement);
    for relation in relations {
        builder.relation(relation, markers)?;
    }
    builder.finish(written)
}

/// Takes relations one after the other.
struct Builder<'s> {
    schema: &'s TableSchema,
    statement: &'static str,
    partition: Vec<Option<ColumnValues>>,
    groups: Vec<Group>,
    slice: Option<Slice>,
    /// Columns that are no key.
    others: Vec<&'s str>,
}

impl<'s> Builder<'s> {
    fn new(schema: &'s TableSchema, statement: &'static str) -> Self {
        let partition = schema.columns_of(ColumnKind::PartitionKey);
        Self {
            schema,
            statement,
            partition: partition.iter().map(|_| None).collect(),
            groups: Vec::new(),
            slice: None,
            others: Vec::new(),
        }
    }

    fn clustering(&self) -> &'s [Column] {
        self.schema.columns_of(ColumnKind::Clustering)
    }

    fn relation(&mut self, relation: &Relation, markers: &mut Markers) -> Result<()> {
        match relation {
            Relation::Column {
                column: name,
                operator,
                value,
            } => {
                let column = column(self.schema, name.as_str())?;
                if !self.is_key(column) {
                    return Ok(());
                }
                match operator {
                    Operator::Equal => {
                        let values = ColumnValues::one(column, value, markers)?;
                        self.values(column, values, "an Equal")
                    }
                    Operator::Contains | Operator::ContainsKey if !column.ty.is_collection() => {
                        invalid(format!(
                            "Cannot use {} on non-collection column {}",
                            operator.text(),
                            column.name
                        ))
                    }
                    _ if column.kind == ColumnKind::PartitionKey => self.only_equal(),
                    _ => {
                        let tuple = ast::Term::Tuple(vec![value.clone()]);
                        self.bound(&[column], *operator, &tuple, relation, markers)
                    }
                }
            }
            Relation::In {
                column: name,
                values,
            } => {
                let column = column(self.schema, name.as_str())?;
                if !self.is_key(column) {
                    return Ok(());
                }
                let values = ColumnValues::any_of(column, values, markers)?;
                self.values(column, values, "a IN")
            }
            Relation::Tuple {
                columns,
                operator,
                value,
            } => {
                let columns = self.tuple_columns(columns, relation)?;
                if *operator == Operator::Equal {
                    let one = TupleValues::prepare(&columns, value, markers)?;
                    return self.group(&columns, GroupValues::Tuples(vec![one]), "an Equal");
                }
                self.bound(&columns, *operator, value, relation, markers)
            }
            Relation::TupleIn { columns, values } => {
                let columns = self.tuple_columns(columns, relation)?;
                let values = match values {
                    InValues::List(tuples) => {
                        let prepared = tuples.iter();
                        let prepared =
                            prepared.map(|tuple| TupleValues::prepare(&columns, tuple, markers));
                        GroupValues::Tuples(prepared.collect::<Result<_>>()?)
                    }
                    InValues::Marker(marker) => {
                        let list = ebb_catalog::types::CqlType::list(tuple_type(&columns));
                        let names: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
                        let name = format!("in({})", names.join(","));
                        let receiver = Receiver::new(name, list.freeze());
                        let marker = ast::Term::Marker(marker.clone());
                        GroupValues::TupleList(term::prepare(&marker, &receiver, markers)?)
                    }
                };
                self.group(&columns, values, "a IN")
            }
            Relation::Token { .. } => invalid(format!(
                "The token function cannot be used in WHERE clauses for {} statements",
                self.statement
            )),
            Relation::IsNotNull(name) => {
                column(self.schema, name.as_str())?;
                invalid(format!(
                    "Unsupported restriction: {} IS NOT NULL",
                    name.as_str()
                ))
            }
            Relation::Element { column: name, .. } => {
                let column = column(self.schema, name.as_str())?;
                match self.is_key(column) {
                    false => Ok(()),
                    true => invalid(format!(
                        "Column \"{}\" cannot be used as a map",
                        column.name
                    )),
                }
            }
        }
    }

    /// Notes a column that is no key.
    fn is_key(&mut self, column: &'s Column) -> bool {
        let is_key = column.kind <= ColumnKind::Clustering;
        if !is_key && !self.others.contains(&&*column.name) {
            self.others.push(&column.name);
        }
        is_key
    }

    fn only_equal<T>(&self) -> Result<T> {
        invalid(format!(
            "Only EQ and IN relation are supported on the partition key (unless you use the \
             token() function) for {} statements",
            self.statement
        ))
    }

    /// The clustering columns of a relation on several, which must be consecutive.
    fn tuple_columns(&self, names: &[ast::Name], relation: &Relation) -> Result<Vec<&'s Column>> {
        let mut columns: Vec<&Column> = Vec::with_capacity(names.len());
        for name in names {
            let column = column(self.schema, name.as_str())?;
            if column.kind != ColumnKind::Clustering {
                return invalid(format!(
                    "Multi-column relations can only be applied to clustering columns but was \
                     applied to: {}",
                    column.name
                ));
            }
            if let Some(last) = columns.last()
                && column.position != last.position + 1
            {
                return match columns.iter().any(|c| c.name == column.name) {
                    true => invalid(format!(
                        "Column \"{}\" appeared twice in a relation: {relation}",
                        column.name
                    )),
                    false => invalid(format!(
                        "Clustering columns must appear in the PRIMARY KEY order in \
                         multi-column relations: {relation}"
                    )),
                };
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Values of one key column.
    fn values(&mut self, column: &Column, values: ColumnValues, includes: &str) -> Result<()> {
        if column.kind == ColumnKind::Clustering {
            return self.group(&[column], GroupValues::Single(values), includes);
        }
        let place = &mut self.partition[column.position];
        match place.replace(values) {
            None => Ok(()),
            Some(_) => more_than_one(&column.name, includes),
        }
    }

    fn group(&mut self, columns: &[&Column], values: GroupValues, includes: &str) -> Result<()> {
        let first = columns[0].position;
        self.check_free(first, columns.len(), &columns[0].name, includes)?;
        self.groups.push(Group {
            first,
            columns: columns.len(),
            values,
        });
        Ok(())
    }

    /// Nothing restricts these columns yet.
    fn check_free(&self, first: usize, columns: usize, name: &str, includes: &str) -> Result<()> {
        let meets = |at: usize, len: usize| at < first + columns && first < at + len;
        let mut groups = self.groups.iter();
        let slice = self.slice.iter().any(|s| meets(s.first, s.columns));
        match slice || groups.any(|group| meets(group.first, group.columns)) {
            true => more_than_one(name, includes),
            false => Ok(()),
        }
    }

    /// An end of a slice.
    fn bound(
        &mut self,
        columns: &[&Column],
        operator: Operator,
        value: &ast::Term,
        relation: &Relation,
        markers: &mut Markers,
    ) -> Result<()> {
        let (is_lower, is_inclusive) = match operator {
            Operator::Greater => (true, false),
            Operator::GreaterOrEqual => (true, true),
            Operator::Less => (false, false),
            Operator::LessOrEqual => (false, true),
            Operator::Equal => unreachable!("values, not a bound"),
            Operator::NotEqual => {
                return invalid(format!("Unsupported \"!=\" relation: {relation}"));
            }
            Operator::Contains | Operator::ContainsKey => {
                return invalid(format!(
                    "Cannot use {} on non-collection column {}",
                    operator.text(),
                    columns[0].name
                ));
            }
            Operator::Like => {
                return invalid(format!(
                    "LIKE restriction is only supported on properly indexed columns. {relation} \
                     is not valid."
                ));
            }
        };
        let (first, name) = (columns[0].position, &columns[0].name);
        let values = TupleValues::prepare(columns, value, markers)?;
        let bound = Bound {
            values,
            is_inclusive,
        };
        let groups = &self.groups;
        let has_values = |at: usize| {
            groups
                .iter()
                .any(|g| (g.first..g.first + g.columns).contains(&at))
        };
        if (first..first + columns.len()).any(has_values) {
            return more_than_one(name, "an Equal");
        }
        let slice = self.slice.get_or_insert_with(|| Slice {
            first,
            ..Slice::default()
        });
        if slice.first != first {
            // Of two slices the later column cannot be restricted.
            let (before, after) = (slice.first.min(first), slice.first.max(first));
            let name = |at: usize| &self.schema.columns_of(ColumnKind::Clustering)[at].name;
            return invalid(format!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                name(after),
                name(before)
            ));
        }
        slice.columns = slice.columns.max(columns.len());
        let (end, what) = match is_lower {
            true => (&mut slice.lower, "start"),
            false => (&mut slice.upper, "end"),
        };
        match end.replace(bound) {
            None => Ok(()),
            Some(_) => invalid(format!(
                "More than one restriction was found for the {what} bound on {name}"
            )),
        }
    }

    fn finish(mut self, written: Written) -> Result<Keys> {
        let statement = self.statement;
        let key = self.schema.columns_of(ColumnKind::PartitionKey);
        let missing = key.iter().zip(&self.partition);
        let missing: Vec<&str> = missing
            .filter(|(_, values)| values.is_none())
            .map(|(column, _)| &*column.name)
            .collect();
        if !missing.is_empty() {
            return invalid(format!(
                "Some partition key parts are missing: {}",
                missing.join(", ")
            ));
        }
        if !self.others.is_empty() {
            return invalid(format!(
                "Non PRIMARY KEY columns found in where clause: {} ",
                self.others.join(", ")
            ));
        }
        let clustering = self.clustering();
        let is_restricted = !self.groups.is_empty() || self.slice.is_some();
        if written == Written::Statics && is_restricted && statement != "INSERT" {
            return invalid(format!(
                "Invalid restrictions on clustering columns since the {statement} statement \
                 modifies only static columns"
            ));
        }
        if statement != "DELETE" && self.slice.is_some() {
            return invalid(format!(
                "Slice restrictions are not supported on the clustering columns in {statement} \
                 statements"
            ));
        }
        self.groups.sort_by_key(|group| group.first);
        let mut columns = 0;
        let restricted_at = |at: usize| {
            let in_groups = self.groups.iter();
            let mut in_groups = in_groups.map(|g| g.first..g.first + g.columns);
            in_groups.any(|places| places.contains(&at))
        };
        while restricted_at(columns) {
            columns += 1;
        }
        let all = columns == clustering.len();
        let needs_all = written == Written::Rows || written == Written::Statics && is_restricted;
        if needs_all && statement != "DELETE" && !all {
            let missing = clustering.iter().enumerate();
            let missing: Vec<&str> = missing
                .filter(|(at, _)| !restricted_at(*at))
                .map(|(_, column)| &*column.name)
                .collect();
            return invalid(format!(
                "Some clustering keys are missing: {}",
                missing.join(", ")
            ));
        }
        let preceding = |at: usize, before: usize| {
            invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is \
                 not restricted",
                clustering[at].name, clustering[before].name
            ))
        };
        if let Some(slice) = &self.slice {
            if let Some(after) = self.groups.iter().find(|g| g.first > slice.first) {
                return invalid(format!(
                    "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is \
                     restricted by a non-EQ relation)",
                    clustering[after.first].name, clustering[slice.first].name
                ));
            }
            if slice.first > columns {
                return preceding(slice.first, slice.first - 1);
            }
        }
        if let Some(gap) = self.groups.iter().find(|g| g.first > columns) {
            return preceding(gap.first, gap.first - 1);
        }
        if written == Written::Rows && !all {
            return match is_restricted {
                true => invalid("Range deletions are not supported for specific columns"),
                false => invalid(format!(
                    "Some clustering keys are missing: {}",
                    clustering
                        .iter()
                        .map(|c| &*c.name)
                        .collect::<Vec<_>>()
                        .join(", ")
                )),
            };
        }
        Ok(Keys {
            partition: self.partition.into_iter().flatten().collect(),
            clustering: Clustering {
                equal: self.groups,
                columns,
                slice: self.slice,
            },
        })
    }
}

fn more_than_one<T>(name: &str, includes: &str) -> Result<T> {
    invalid(format!(
        "{name} cannot be restricted by more than one relation if it includes {includes}"
    ))
}
