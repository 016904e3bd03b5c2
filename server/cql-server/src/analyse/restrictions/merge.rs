//! Several relations on one column: which may stand side by side, and the errors of the others.
//!
//! The rules are those of Cassandra 4.1's `RestrictionSet`, for columns of all kinds. Cassandra merges
//! each relation with the ones before it, so the error depends on the order of the relations. Here the
//! relations on the token are checked before all others, wherever they stand.

use std::collections::BTreeMap;
use std::ops::Range;

use ebb_cql::syntax::ast::Operator;
use ebb_model::schema::{ColumnKind, TableSchema};

use super::relations::{Parsed, Restriction, RestrictionKind, TokenRestriction};
use crate::error::{Result, invalid};
use crate::interrupt;

/// Checks that the relations of a WHERE clause may be combined. `allow_filtering` is true only with
/// ALLOW FILTERING: an index alone does not permit relations on the columns behind a slice.
///
/// # Errors
/// Cassandra's error for the first relation that conflicts with one before it (relations on the
/// token come first, wherever they stand), or the timeout of the statement.
pub(super) fn check(schema: &TableSchema, parsed: &Parsed, allow_filtering: bool) -> Result<()> {
    check_tokens(schema, &parsed.tokens)?;
    let first = schema.columns_of(ColumnKind::PartitionKey).len();
    let clustering = first..first + schema.columns_of(ColumnKind::Clustering).len();
    // The merged relations of each restricted column.
    let mut by_column: BTreeMap<usize, Merged> = BTreeMap::new();
    for restriction in parsed.all() {
        interrupt::charge(restriction.columns.len() as u64)?;
        let new = Merged::of(restriction);
        let mut merged = new;
        for column in new.columns() {
            if let Some(existing) = by_column.get(&column) {
                merged = existing.merge(new, schema)?;
            }
        }
        if clustering.contains(&new.first) && !allow_filtering {
            check_slices(schema, &by_column, &clustering, new)?;
        }
        by_column.extend(new.columns().map(|column| (column, merged)));
    }
    Ok(())
}

/// Checks that no relation restricts a clustering column behind a slice. `new` is the next relation
/// after those in `by_column`.
fn check_slices(
    schema: &TableSchema,
    by_column: &BTreeMap<usize, Merged>,
    clustering: &Range<usize>,
    new: Merged,
) -> Result<()> {
    let name = |column: usize| &schema.columns()[column].name;
    let Some((_, last)) = by_column.range(clustering.clone()).next_back() else {
        return Ok(());
    };
    if last.is_slice() && new.first > last.first {
        return invalid(format!(
            "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted \
             by a non-EQ relation)",
            name(new.first),
            name(last.first)
        ));
    }
    if new.is_slice() && new.first < last.first {
        let mut behind = by_column.range(new.first + 1..clustering.end);
        let next = behind.next().map_or(last.first, |(column, _)| *column);
        return invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted \
             by a non-EQ relation)",
            name(next),
            name(new.first)
        ));
    }
    Ok(())
}

/// Checks that the relations on the token may be combined.
fn check_tokens(schema: &TableSchema, tokens: &[TokenRestriction]) -> Result<()> {
    let names = || {
        let keys = schema.columns_of(ColumnKind::PartitionKey).iter();
        keys.map(|key| &*key.name).collect::<Vec<_>>().join(", ")
    };
    let (mut has_equal, mut has_lower, mut has_upper) = (false, false, false);
    for (at, token) in tokens.iter().enumerate() {
        if has_equal {
            return invalid(format!(
                "{} cannot be restricted by more than one relation if it includes an Equal",
                names()
            ));
        }
        let (has_bound, end) = match token.operator {
            Operator::Greater | Operator::GreaterOrEqual => (&mut has_lower, "start"),
            Operator::Less | Operator::LessOrEqual => (&mut has_upper, "end"),
            _ if at > 0 => {
                return invalid(format!(
                    "Columns \"{}\" cannot be restricted by both an equality and an inequality \
                     relation",
                    names()
                ));
            }
            _ => {
                has_equal = true;
                continue;
            }
        };
        if *has_bound {
            return invalid(format!(
                "More than one restriction was found for the {end} bound on {}",
                names()
            ));
        }
        *has_bound = true;
    }
    Ok(())
}

/// One or more relations on the same columns, which follow each other in the table.
#[derive(Debug, Clone, Copy)]
struct Merged {
    /// The index of the first column among the columns of the table.
    first: usize,
    /// The number of columns.
    len: usize,
    kind: MergedKind,
}

#[derive(Debug, Clone, Copy)]
enum MergedKind {
    Equal,
    In,
    Slice {
        has_lower: bool,
        has_upper: bool,
    },
    /// A column may have any number of CONTAINS, CONTAINS KEY and `m[k] = v` relations.
    Contains,
}

impl Merged {
    fn of(restriction: &Restriction) -> Self {
        Self {
            first: restriction.columns[0],
            len: restriction.columns.len(),
            kind: match &restriction.kind {
                RestrictionKind::Equal(_) => MergedKind::Equal,
                RestrictionKind::In(_) => MergedKind::In,
                RestrictionKind::Slice(operator, _) => {
                    let has_lower =
                        matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
                    MergedKind::Slice {
                        has_lower,
                        has_upper: !has_lower,
                    }
                }
                RestrictionKind::Other(_) => MergedKind::Contains,
            },
        }
    }

    fn columns(self) -> Range<usize> {
        self.first..self.first + self.len
    }

    fn is_slice(self) -> bool {
        matches!(self.kind, MergedKind::Slice { .. })
    }

    /// Merges these relations with the relation `new`, which restricts one of their columns. Returns
    /// Cassandra's error if they conflict.
    fn merge(self, new: Self, schema: &TableSchema) -> Result<Self> {
        let names = || {
            let end = self.columns().end.min(new.columns().end);
            let common = &schema.columns()[self.first.max(new.first)..end];
            let names: Vec<&str> = common.iter().map(|column| &*column.name).collect();
            // Cassandra separates the names in this way, too.
            names.join(" ,")
        };
        match (self.kind, new.kind) {
            (MergedKind::Equal, _) => invalid(format!(
                "{} cannot be restricted by more than one relation if it includes an Equal",
                names()
            )),
            (MergedKind::In, _) => invalid(format!(
                "{} cannot be restricted by more than one relation if it includes a IN",
                names()
            )),
            (MergedKind::Contains, MergedKind::Contains) => Ok(self),
            (MergedKind::Contains, _) => invalid(format!(
                "Collection column {} can only be restricted by CONTAINS, CONTAINS KEY, or \
                 map-entry equality",
                names()
            )),
            (
                MergedKind::Slice {
                    has_lower,
                    has_upper,
                },
                MergedKind::Slice {
                    has_lower: new_lower,
                    has_upper: new_upper,
                },
            ) => {
                if self.first != new.first {
                    return invalid(format!(
                        "Column \"{}\" cannot be restricted by two inequalities not starting with \
                         the same column",
                        schema.columns()[self.first.max(new.first)].name
                    ));
                }
                let bound = match (has_lower && new_lower, has_upper && new_upper) {
                    (true, _) => "start",
                    (_, true) => "end",
                    _ => {
                        return Ok(Self {
                            first: self.first,
                            len: self.len.max(new.len),
                            kind: MergedKind::Slice {
                                has_lower: has_lower || new_lower,
                                has_upper: has_upper || new_upper,
                            },
                        });
                    }
                };
                invalid(format!(
                    "More than one restriction was found for the {bound} bound on {}",
                    names()
                ))
            }
            (MergedKind::Slice { .. }, _) => invalid(format!(
                "Column \"{}\" cannot be restricted by both an equality and an inequality relation",
                names()
            )),
        }
    }
}
