//! Made trees: any that the parser may give, with markers numbered as they are printed.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::syntax::ast::*;

/// Makes trees of a bounded height.
pub(super) struct Maker<R> {
    pub rng: R,
    pub markers: Vec<Option<Name>>,
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "key",
    "ttl",
    "json",
    "distinct",
    "count",
    "writetime",
    "cast",
    "token",
    "select",
    "table",
    "Upper",
    "with space",
    "qu\"ote",
    "ks@s",
    "é",
    "int",
    "varchar",
    "enum",
    "values",
    "keys",
    "exists",
    "static",
    "frozen",
    "list",
    "set",
    "type",
    "cluster",
    "tables",
    "snapshot",
    "compact",
    "true",
    "nan",
    "as",
    "in",
    "per",
    "filtering",
    "p1y",
    "_x",
    "1a",
    "max_age",
    "only",
];

impl<R: Rng> Maker<R> {
    fn chance(&mut self, of: u32) -> bool {
        self.rng.random_range(0..of) == 0
    }

    fn many<T>(&mut self, least: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let len = self.rng.random_range(least..least + 3);
        (0..len).map(|_| make(self)).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match self.chance(2) {
            true => Some(make(self)),
            false => None,
        }
    }

    fn name(&mut self) -> Name {
        Name::new(*NAMES.choose(&mut self.rng).unwrap())
    }

    /// Of a column outside of definitions.
    fn column(&mut self) -> Name {
        match self.chance(20) {
            true => Name::new(""),
            false => self.name(),
        }
    }

    fn qualified(&mut self) -> QualifiedName {
        QualifiedName {
            keyspace: self.maybe(Self::name),
            name: self.name(),
        }
    }

    fn marker(&mut self) -> Marker {
        let name = self.maybe(Self::name);
        let index = self.markers.len() as u16;
        self.markers.push(name.clone());
        Marker { index, name }
    }

    fn constant(&mut self) -> Constant {
        let (kind, texts): (_, &[&str]) = match self.rng.random_range(0..7) {
            0 => (
                ConstantKind::String,
                &["", "it's", "--no; comment", "$$", "é\n", "a?:b"],
            ),
            1 => (
                ConstantKind::Integer,
                &["0", "-1", "99999999999999999999999"],
            ),
            2 => (
                ConstantKind::Float,
                &[
                    "1.5",
                    "-1.",
                    "1e9",
                    "-2.5E-7",
                    "NaN",
                    "Infinity",
                    "-Infinity",
                ],
            ),
            3 => (ConstantKind::Boolean, &["true", "false"]),
            4 => (
                ConstantKind::Uuid,
                &[
                    "123e4567-e89b-12d3-a456-426614174000",
                    "FFFFFFFF-0000-1000-8000-00000000000f",
                ],
            ),
            5 => (ConstantKind::Hex, &["0x", "0xCAFE", "0xabc"]),
            _ => (
                ConstantKind::Duration,
                &[
                    "1h30m",
                    "-2mo",
                    "5us",
                    "5\u{b5}s",
                    "PT5S",
                    "-P1Y2M3DT4H5M6S",
                    "P3W",
                    "P0001-02-03T04:05:06",
                ],
            ),
        };
        let text = texts.choose(&mut self.rng).unwrap();
        Constant {
            kind,
            text: (*text).to_owned(),
        }
    }

    fn native(&mut self) -> NativeType {
        NativeType::ALL.choose(&mut self.rng).unwrap().0
    }

    fn type_name(&mut self, height: u32) -> TypeName {
        let below = height.saturating_sub(1);
        match self.rng.random_range(0..if height == 0 { 4 } else { 10 }) {
            0 | 1 => TypeName::Native(self.native()),
            2 => TypeName::User(self.qualified()),
            3 => TypeName::Custom("org.apache.cassandra.db.marshal.It'sType".to_owned()),
            4 => TypeName::List(Box::new(self.type_name(below))),
            5 => TypeName::Set(Box::new(self.type_name(below))),
            6 => {
                let key = Box::new(self.type_name(below));
                TypeName::Map(key, Box::new(self.type_name(below)))
            }
            7 => TypeName::Tuple(self.many(1, |make| make.type_name(below))),
            8 => TypeName::Vector(Box::new(self.type_name(below)), 3),
            _ => TypeName::Frozen(Box::new(self.type_name(below))),
        }
    }

    fn function(&mut self) -> QualifiedName {
        self.qualified()
    }

    /// `a + b * c`: an operand of a product is simple, the right one of a sum a product.
    fn operator(&mut self, product: bool) -> ArithmeticOperator {
        use ArithmeticOperator::*;
        let of: &[_] = match product {
            true => &[Multiply, Divide, Remainder],
            false => &[Add, Subtract],
        };
        *of.choose(&mut self.rng).unwrap()
    }

    fn term(&mut self, height: u32) -> Term {
        if height > 0 && self.chance(8) {
            let product = self.chance(2);
            let left = Box::new(self.signed_term(height - 1));
            let operator = self.operator(product);
            let right = Box::new(self.signed_term(height - 1));
            let sum = Term::Arithmetic {
                left,
                operator,
                right,
            };
            if self.chance(2) {
                return sum;
            }
            return Term::Arithmetic {
                left: Box::new(sum),
                operator: self.operator(product),
                right: Box::new(self.signed_term(height - 1)),
            };
        }
        self.signed_term(height)
    }

    fn signed_term(&mut self, height: u32) -> Term {
        if height == 0 || !self.chance(10) {
            return self.simple_term(height);
        }
        match self.signed_term(height - 1) {
            // A sign and a number are a number.
            Term::Constant(constant) if is_number(&constant) => Term::Constant(constant),
            term => Term::Negation(Box::new(term)),
        }
    }

    fn simple_term(&mut self, height: u32) -> Term {
        let below = height.saturating_sub(1);
        let term = |make: &mut Self| make.term(below);
        match self.rng.random_range(0..if height == 0 { 5 } else { 13 }) {
            0 | 1 => Term::Constant(self.constant()),
            2 => Term::Null,
            3 | 4 => Term::Marker(self.marker()),
            5 => Term::List(self.many(0, term)),
            6 => Term::Set(self.many(0, term)),
            7 => Term::Map(self.many(1, |make| (make.term(below), make.term(below)))),
            8 => Term::Udt(self.many(1, |make| (make.name(), make.term(below)))),
            9 => Term::Tuple(self.many(1, term)),
            10 => Term::Call {
                function: self.function(),
                args: self.many(0, term),
            },
            11 => Term::Hint {
                to: self.type_name(2),
                term: Box::new(self.simple_term(below)),
            },
            _ => Term::Cast {
                term: Box::new(self.term(below)),
                to: self.type_name(1),
            },
        }
    }

    fn selector(&mut self, height: u32) -> Selector {
        if height > 0 && self.chance(6) {
            let product = self.chance(2);
            let left = Box::new(self.signed_selector(height - 1));
            let operator = self.operator(product);
            let right = Box::new(self.signed_selector(height - 1));
            return Selector::Arithmetic {
                left,
                operator,
                right,
            };
        }
        self.signed_selector(height)
    }

    fn signed_selector(&mut self, height: u32) -> Selector {
        if height == 0 || !self.chance(10) {
            return self.selector_with_parts(height);
        }
        match self.selector_with_parts(height - 1) {
            selector if begins_with_number(&selector) => selector,
            selector => Selector::Negation(Box::new(selector)),
        }
    }

    fn selector_with_parts(&mut self, height: u32) -> Selector {
        if height == 0 || !self.chance(4) {
            return self.simple_selector(height);
        }
        let of = match self.chance(3) {
            // Between parentheses a name would be a type.
            true => match self.simple_selector(height - 1) {
                Selector::Tuple(items) => Selector::List(items),
                hint @ Selector::Hint { .. } => Selector::List(vec![hint]),
                selector => selector,
            },
            false => Selector::Column(self.column()),
        };
        self.part_of(of)
    }

    fn part_of(&mut self, of: Selector) -> Selector {
        let of = Box::new(of);
        match self.rng.random_range(0..3) {
            0 => Selector::Field {
                of,
                field: self.name(),
            },
            1 => Selector::Element {
                of,
                key: self.term(1),
            },
            _ => {
                let from = self.maybe(|make| make.term(1));
                let to = match from.is_some() && self.chance(2) {
                    true => None,
                    false => Some(self.term(1)),
                };
                Selector::Slice { of, from, to }
            }
        }
    }

    /// What `ttl` asks of.
    fn column_or_part(&mut self) -> Box<Selector> {
        let column = Selector::Column(self.column());
        Box::new(match self.chance(3) {
            true => self.part_of(column),
            false => column,
        })
    }

    fn simple_selector(&mut self, height: u32) -> Selector {
        let below = height.saturating_sub(1);
        let selector = |make: &mut Self| make.selector(below);
        match self.rng.random_range(0..if height == 0 { 9 } else { 16 }) {
            0..=2 => Selector::Column(self.column()),
            3 => Selector::Constant(self.constant()),
            4 => Selector::Null,
            5 => Selector::Marker(self.marker()),
            6 => Selector::CountRows,
            7 => Selector::WriteTime(self.column_or_part()),
            8 => match self.chance(2) {
                true => Selector::MaxWriteTime(self.column_or_part()),
                false => Selector::Ttl(self.column_or_part()),
            },
            9 => {
                let function = self.function();
                let args = self.many(0, selector);
                let count = function.keyspace.is_none() && function.name == "count";
                match count && matches!(args[..], [Selector::Constant(_)]) {
                    true => Selector::CountRows,
                    false => Selector::Call { function, args },
                }
            }
            10 => Selector::Cast {
                selector: Box::new(self.selector(below)),
                to: TypeName::Native(self.native()),
            },
            11 => {
                let to = self.type_name(2);
                let selector = match self.simple_selector(below) {
                    // That would be an alias.
                    Selector::Column(name) if name == "as" => Selector::Null,
                    selector => selector,
                };
                Selector::Hint {
                    to,
                    selector: Box::new(selector),
                }
            }
            12 => Selector::Tuple(self.many(1, selector)),
            13 => Selector::List(self.many(0, selector)),
            14 => Selector::Set(self.many(0, selector)),
            _ => Selector::Map(self.many(1, |make| (make.selector(below), make.selector(below)))),
        }
    }

    fn comparison(&mut self) -> Operator {
        use Operator::*;
        let all = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
        *all.choose(&mut self.rng).unwrap()
    }

    fn in_values(&mut self, mut value: impl FnMut(&mut Self) -> Term) -> InValues {
        match self.chance(2) {
            true => InValues::Marker(self.marker()),
            false => InValues::List(self.many(0, &mut value)),
        }
    }

    fn tuple_value(&mut self) -> Term {
        match self.chance(2) {
            true => Term::Marker(self.marker()),
            false => Term::Tuple(self.many(1, |make| make.term(1))),
        }
    }

    fn relation(&mut self) -> Relation {
        match self.rng.random_range(0..9) {
            0 | 1 => Relation::Column {
                column: self.column(),
                operator: self.comparison(),
                value: self.term(2),
            },
            2 => {
                let others = [Operator::Contains, Operator::ContainsKey, Operator::Like];
                Relation::Column {
                    column: self.column(),
                    operator: *others.choose(&mut self.rng).unwrap(),
                    value: self.term(1),
                }
            }
            3 => Relation::In {
                column: self.column(),
                values: self.in_values(|make| make.term(1)),
            },
            4 => Relation::IsNotNull(self.column()),
            5 => Relation::Element {
                column: self.column(),
                key: self.term(1),
                operator: self.comparison(),
                value: self.term(1),
            },
            6 => Relation::Token {
                columns: self.many(1, Self::column),
                operator: self.comparison(),
                value: self.term(2),
            },
            7 => Relation::Tuple {
                columns: self.many(1, Self::column),
                operator: self.comparison(),
                value: self.tuple_value(),
            },
            _ => Relation::TupleIn {
                columns: self.many(1, Self::column),
                values: self.in_values(Self::tuple_value),
            },
        }
    }

    fn integer_or_marker(&mut self) -> Term {
        match self.chance(2) {
            true => Term::Marker(self.marker()),
            false => Term::Constant(Constant {
                kind: ConstantKind::Integer,
                text: ["10", "-1", "0"].choose(&mut self.rng).unwrap().to_string(),
            }),
        }
    }

    fn order(&mut self) -> Order {
        match self.chance(2) {
            true => Order::Ascending,
            false => Order::Descending,
        }
    }

    fn select(&mut self) -> Select {
        Select {
            json: self.chance(3),
            distinct: self.chance(3),
            selection: match self.chance(3) {
                true => Selection::All,
                false => Selection::Some(self.many(1, |make| Selected {
                    selector: make.selector(3),
                    alias: make.maybe(Self::name),
                })),
            },
            from: self.qualified(),
            snapshot: self.maybe(Self::name),
            relations: self.many(0, Self::relation),
            group_by: self.many(0, |make| make.selector(1)),
            order_by: self.many(0, |make| (make.column(), make.order())),
            per_partition_limit: self.maybe(Self::integer_or_marker),
            limit: self.maybe(Self::integer_or_marker),
            allow_filtering: self.chance(2),
        }
    }

    fn using(&mut self) -> Using {
        match self.chance(2) {
            true => {
                let ttl = Some(Term::Marker(self.marker()));
                let timestamp = Some(Term::Marker(self.marker()));
                Using { timestamp, ttl }
            }
            false => Using {
                timestamp: self.maybe(Self::integer_or_marker),
                ttl: self.maybe(Self::integer_or_marker),
            },
        }
    }

    fn condition(&mut self) -> Condition {
        match self.rng.random_range(0..3) {
            0 => Condition::None,
            1 => Condition::Exists,
            _ => Condition::All(self.many(1, |make| {
                let column = make.column();
                let part = make.part();
                let test = match make.chance(2) {
                    true => ColumnTest::In(make.in_values(|make| make.term(1))),
                    false if part == Part::Whole && make.chance(3) => {
                        ColumnTest::Compare(Operator::ContainsKey, make.term(1))
                    }
                    false => ColumnTest::Compare(make.comparison(), make.term(1)),
                };
                ColumnCondition { column, part, test }
            })),
        }
    }

    fn part(&mut self) -> Part {
        match self.rng.random_range(0..3) {
            0 => Part::Element(self.term(1)),
            1 => Part::Field(self.name()),
            _ => Part::Whole,
        }
    }

    fn assignments(&mut self) -> Vec<Assignment> {
        // A column in two assignments is mostly an error; another test has those.
        let mut assignments = self.many(1, |make| Assignment {
            column: make.column(),
            change: match make.rng.random_range(0..6) {
                0 => Change::Set(make.term(3)),
                1 => Change::Add(make.term(2)),
                2 => Change::Subtract(make.term(2)),
                3 => Change::Prepend(make.term(2)),
                4 => Change::Element {
                    key: make.term(1),
                    value: make.term(2),
                },
                _ => Change::Field {
                    field: make.name(),
                    value: make.term(2),
                },
            },
        });
        for (at, assignment) in assignments.iter_mut().enumerate() {
            assignment.column = Name::new(format!("{}{at}", assignment.column.as_str()));
        }
        assignments
    }

    fn write(&mut self) -> Write {
        match self.rng.random_range(0..3) {
            0 => Write::Insert(Insert {
                table: self.qualified(),
                source: match self.chance(4) {
                    true => InsertSource::Json {
                        value: Term::Marker(self.marker()),
                        default_unset: self.chance(2),
                    },
                    false => InsertSource::Values {
                        columns: self.many(1, Self::column),
                        values: self.many(1, |make| make.term(3)),
                    },
                },
                if_not_exists: self.chance(2),
                using: self.using(),
            }),
            1 => Write::Update(Update {
                table: self.qualified(),
                using: self.using(),
                assignments: self.assignments(),
                relations: self.many(1, Self::relation),
                condition: self.condition(),
            }),
            _ => Write::Delete(Delete {
                targets: self.many(0, |make| DeleteTarget {
                    column: make.column(),
                    part: make.part(),
                }),
                table: self.qualified(),
                timestamp: self.maybe(Self::integer_or_marker),
                relations: self.many(1, Self::relation),
                condition: self.condition(),
            }),
        }
    }

    fn properties(&mut self, least: usize) -> Vec<Property> {
        let mut properties = self.many(least, |make| Property {
            name: make.name(),
            value: match make.chance(2) {
                true => PropertyValue::Constant(make.constant()),
                false => PropertyValue::Map(make.many(0, |make| {
                    let mut key = make.constant();
                    key.kind = ConstantKind::String;
                    (key, make.constant())
                })),
            },
        });
        let mut names = std::collections::HashSet::new();
        properties.retain(|property| names.insert(property.name.clone()));
        for property in &mut properties {
            if let PropertyValue::Map(entries) = &mut property.value {
                let mut keys = std::collections::HashSet::new();
                entries.retain(|(key, _)| keys.insert(key.text.clone()));
            }
        }
        properties
    }

    fn column_definition(&mut self) -> ColumnDefinition {
        ColumnDefinition {
            name: self.name(),
            type_name: self.type_name(3),
            is_static: self.chance(4),
        }
    }

    fn create_table(&mut self) -> CreateTable {
        CreateTable {
            table: self.qualified(),
            if_not_exists: self.chance(2),
            columns: self.many(1, Self::column_definition),
            primary_key: self.maybe(|make| PrimaryKey {
                partition: make.many(1, Self::name),
                clustering: make.many(0, Self::name),
            }),
            clustering_order: self.many(0, |make| (make.name(), make.order())),
            compact_storage: self.chance(8),
            properties: self.properties(0),
        }
    }

    fn table_change(&mut self) -> TableChange {
        match self.rng.random_range(0..6) {
            0 => TableChange::Add {
                if_not_exists: self.chance(2),
                columns: self.many(1, Self::column_definition),
            },
            1 => TableChange::Drop {
                if_exists: self.chance(2),
                columns: self.many(1, Self::name),
                timestamp: self.maybe(|_| Constant {
                    kind: ConstantKind::Integer,
                    text: "-12".to_owned(),
                }),
            },
            2 => TableChange::DropCompactStorage,
            3 => TableChange::Rename {
                if_exists: self.chance(2),
                columns: self.many(1, |make| (make.name(), make.name())),
            },
            4 => TableChange::Retype {
                if_exists: self.chance(2),
                column: self.column(),
                type_name: self.type_name(2),
            },
            _ => TableChange::With(self.properties(1)),
        }
    }

    fn type_change(&mut self) -> TypeChange {
        match self.rng.random_range(0..3) {
            0 => TypeChange::Add {
                if_not_exists: self.chance(2),
                field: self.name(),
                type_name: self.type_name(2),
            },
            1 => TypeChange::Rename {
                if_exists: self.chance(2),
                fields: self.many(1, |make| (make.name(), make.name())),
            },
            _ => TypeChange::Retype {
                if_exists: self.chance(2),
                field: self.name(),
                type_name: self.type_name(2),
            },
        }
    }

    fn create_index(&mut self) -> CreateIndex {
        use IndexTargetKind::*;
        CreateIndex {
            name: self.maybe(Self::qualified),
            if_not_exists: self.chance(2),
            custom: self.chance(2),
            table: self.qualified(),
            targets: self.many(0, |make| IndexTarget {
                kind: *[Plain, Values, Keys, Entries, Full]
                    .choose(&mut make.rng)
                    .unwrap(),
                column: make.column(),
            }),
            class: self.maybe(|_| "org.Class".to_owned()),
            properties: self.properties(0),
        }
    }

    fn scope(&mut self) -> SnapshotScope {
        match self.chance(2) {
            true => SnapshotScope::Keyspace(self.name()),
            false => SnapshotScope::Table(self.qualified()),
        }
    }

    fn describe(&mut self) -> DescribeTarget {
        match self.rng.random_range(0..15) {
            0 => DescribeTarget::Cluster,
            1 => DescribeTarget::Schema {
                full: self.chance(2),
            },
            2 => DescribeTarget::Keyspaces,
            3 => DescribeTarget::Keyspace {
                name: self.maybe(Self::name),
                only: self.chance(2),
            },
            4 => DescribeTarget::Tables,
            5 => DescribeTarget::Table(self.qualified()),
            6 => DescribeTarget::Index(self.qualified()),
            7 => DescribeTarget::View(self.qualified()),
            8 => DescribeTarget::Types,
            9 => DescribeTarget::Type(self.qualified()),
            10 => DescribeTarget::Functions,
            11 => DescribeTarget::Function(self.qualified()),
            12 => DescribeTarget::Aggregates,
            13 => DescribeTarget::Aggregate(self.qualified()),
            _ => DescribeTarget::Any(self.qualified()),
        }
    }

    fn drop_object(&mut self) -> DropObject {
        DropObject {
            name: self.qualified(),
            if_exists: self.chance(2),
        }
    }

    pub fn statement(&mut self) -> Statement {
        match self.rng.random_range(0..26) {
            0..=4 => Statement::Select(self.select()),
            5..=9 => Statement::Write(self.write()),
            10 => Statement::Batch(Batch {
                kind: *[BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]
                    .choose(&mut self.rng)
                    .unwrap(),
                using: self.using(),
                writes: self.many(0, Self::write),
            }),
            11 => Statement::Truncate(self.qualified()),
            12 => Statement::Use(self.name()),
            13 => Statement::CreateKeyspace(CreateKeyspace {
                name: self.name(),
                if_not_exists: self.chance(2),
                properties: self.properties(1),
            }),
            14 => Statement::AlterKeyspace(AlterKeyspace {
                name: self.name(),
                if_exists: self.chance(2),
                properties: self.properties(1),
            }),
            15 => Statement::DropKeyspace(DropKeyspace {
                name: self.name(),
                if_exists: self.chance(2),
            }),
            16 => Statement::CreateTable(self.create_table()),
            17 => Statement::AlterTable(AlterTable {
                table: self.qualified(),
                if_exists: self.chance(2),
                change: self.table_change(),
            }),
            18 => Statement::DropTable(self.drop_object()),
            19 => Statement::CreateType(CreateType {
                name: self.qualified(),
                if_not_exists: self.chance(2),
                fields: self.many(1, |make| (make.name(), make.type_name(3))),
            }),
            20 => Statement::AlterType(AlterType {
                name: self.qualified(),
                if_exists: self.chance(2),
                change: self.type_change(),
            }),
            21 => match self.chance(2) {
                true => Statement::DropType(self.drop_object()),
                false => Statement::DropIndex(self.drop_object()),
            },
            22 => Statement::CreateIndex(self.create_index()),
            23 => Statement::Describe(Describe {
                target: self.describe(),
                internals: self.chance(2),
            }),
            24 => Statement::CreateSnapshot(CreateSnapshot {
                name: self.name(),
                if_not_exists: self.chance(2),
                on: self.scope(),
                properties: self.properties(0),
            }),
            _ => match self.chance(2) {
                true => Statement::DropSnapshot(DropSnapshot {
                    name: self.name(),
                    if_exists: self.chance(2),
                    on: self.maybe(Self::scope),
                }),
                false => Statement::ListSnapshots(ListSnapshots {
                    on: self.maybe(Self::scope),
                }),
            },
        }
    }
}

fn is_number(constant: &Constant) -> bool {
    use ConstantKind::*;
    matches!(constant.kind, Integer | Float | Duration) && !constant.text.starts_with('-')
}

fn begins_with_number(selector: &Selector) -> bool {
    match selector {
        Selector::Constant(constant) => is_number(constant),
        Selector::Field { of, .. } | Selector::Element { of, .. } | Selector::Slice { of, .. } => {
            begins_with_number(of)
        }
        _ => false,
    }
}
