//! A schema of all keyspaces, and the changes that concern more than one table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use super::index::default_index_name;
use super::{
    ColumnKind, IndexTarget, KeyspaceSchema, ObjectKind, SchemaError, TableDefinition, TableSchema,
    UserType, check_name_length, invalid, replace_in_type,
};
use crate::types::CqlType;

/// All keyspaces. A change returns a new schema that shares its unchanged parts with the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    keyspaces: BTreeMap<Arc<str>, Arc<KeyspaceSchema>>,
    /// The names of the keyspaces that cannot be read, with the reasons.
    pub(super) unreadable: BTreeMap<Arc<str>, Arc<str>>,
    version: Uuid,
}

impl Default for Schema {
    fn default() -> Self {
        Self::from_parts(BTreeMap::new(), BTreeMap::new())
    }
}

impl Schema {
    /// Returns a schema of these keyspaces. A later one replaces an earlier one of the same name.
    pub fn new(keyspaces: impl IntoIterator<Item = KeyspaceSchema>) -> Self {
        let by_name = |k: KeyspaceSchema| (k.name.clone(), Arc::new(k));
        Self::from_parts(
            keyspaces.into_iter().map(by_name).collect(),
            BTreeMap::new(),
        )
    }

    fn from_parts(
        keyspaces: BTreeMap<Arc<str>, Arc<KeyspaceSchema>>,
        unreadable: BTreeMap<Arc<str>, Arc<str>>,
    ) -> Self {
        let mut bytes = Vec::new();
        let mut add = |record: Vec<u8>| {
            bytes.extend((record.len() as u64).to_be_bytes());
            bytes.extend(record);
        };
        for keyspace in keyspaces.values() {
            add(keyspace.encode());
            // The end of an index build changes the meaning of no statement, so it leaves the
            // version unchanged.
            keyspace
                .tables()
                .for_each(|table| add(table.with_indexes_built().encode()));
        }
        Self {
            keyspaces,
            unreadable,
            version: Uuid::new_v3(&Uuid::nil(), &bytes),
        }
    }

    /// Returns the MD5 of the records of all readable keyspaces and tables, as a uuid of version 3:
    /// equal schemas have equal versions. Whether an index is still being built does not change the
    /// version.
    pub fn version(&self) -> Uuid {
        self.version
    }

    /// Returns a keyspace by its name; `None` if it does not exist or is unreadable.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceSchema>> {
        self.keyspaces.get(name)
    }

    /// Returns all readable keyspaces, in the order of their names.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceSchema>> {
        self.keyspaces.values()
    }

    /// Returns a table by its keyspace and name; `None` if it does not exist or is unreadable.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<TableSchema>> {
        self.keyspace(keyspace)?.table(table)
    }

    /// Returns the schema with one more keyspace.
    ///
    /// # Errors
    /// [`SchemaError::KeyspaceExists`]; [`SchemaError::Unreadable`] if an unreadable keyspace has
    /// this name.
    pub fn create_keyspace(&self, keyspace: KeyspaceSchema) -> Result<Self, SchemaError> {
        if let Some(unreadable) = self.unreadable(&keyspace.name, None) {
            return Err(unreadable);
        }
        if self.keyspaces.contains_key(&keyspace.name) {
            return Err(SchemaError::KeyspaceExists(keyspace.name.to_string()));
        }
        Ok(self.with(keyspace))
    }

    /// Returns the schema with a keyspace changed: its replication, its durability, or both. `None`
    /// keeps the old value.
    ///
    /// # Errors
    /// If there is no such keyspace, or `replication` has no class.
    pub fn alter_keyspace(
        &self,
        name: &str,
        replication: Option<BTreeMap<String, String>>,
        durable_writes: Option<bool>,
    ) -> Result<Self, SchemaError> {
        let old = self.existing(name)?;
        let changed = KeyspaceSchema::new(
            name,
            replication.unwrap_or_else(|| old.replication.clone()),
            durable_writes.unwrap_or(old.durable_writes),
        )?;
        Ok(self.with(KeyspaceSchema {
            replication: changed.replication,
            durable_writes: changed.durable_writes,
            ..old.clone()
        }))
    }

    /// Returns the schema without a keyspace and its contents, readable or not.
    ///
    /// # Errors
    /// If there is no such keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<Self, SchemaError> {
        let (mut keyspaces, mut unreadable) = (self.keyspaces.clone(), self.unreadable.clone());
        if unreadable.remove(name).is_none() {
            self.existing(name)?;
            keyspaces.remove(name);
        }
        Ok(Self::from_parts(keyspaces, unreadable))
    }

    /// Returns the schema with one more table.
    ///
    /// # Errors
    /// If there is no such keyspace; [`SchemaError::TableExists`]; [`SchemaError::Unreadable`] if
    /// an unreadable table has this name; [`SchemaError::Configuration`] if another table has this
    /// id; the errors of [`TableSchema::create`].
    pub fn create_table(&self, definition: TableDefinition) -> Result<Self, SchemaError> {
        let mut keyspace = self.existing(&definition.keyspace)?.clone();
        if keyspace.tables.contains_key(definition.name.as_str()) {
            return Err(SchemaError::TableExists {
                keyspace: definition.keyspace,
                table: definition.name,
            });
        }
        if let Some(unreadable) = keyspace.unreadable_table(&definition.name) {
            return Err(unreadable);
        }
        let table = TableSchema::create(definition)?;
        let mut others = self.keyspaces().flat_map(|keyspace| keyspace.tables());
        if let Some(other) = others.find(|other| other.id == table.id) {
            return Err(SchemaError::Configuration(format!(
                "Cannot create table '{}.{}' with the ID of table '{}.{}': {}",
                table.keyspace, table.name, other.keyspace, other.name, table.id
            )));
        }
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
        Ok(self.with(keyspace))
    }

    /// Returns the schema with a table changed by `change`, usually one of the functions of
    /// [`TableSchema`].
    ///
    /// # Errors
    /// If there is no such table; the errors of `change`.
    pub fn alter_table(
        &self,
        keyspace: &str,
        table: &str,
        change: impl FnOnce(&TableSchema) -> Result<TableSchema, SchemaError>,
    ) -> Result<Self, SchemaError> {
        let old = self.existing_table(keyspace, table)?;
        let next = change(old)?;
        let mut keyspace = self.existing(keyspace)?.clone();
        keyspace.tables.insert(next.name.clone(), Arc::new(next));
        Ok(self.with(keyspace))
    }

    /// Returns the schema without a table, readable or not.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn drop_table(&self, keyspace: &str, table: &str) -> Result<Self, SchemaError> {
        let of = self.keyspace(keyspace);
        if of.is_none_or(|of| !of.unreadable_tables.contains_key(table)) {
            self.existing_table(keyspace, table)?;
        }
        let mut next = self.existing(keyspace)?.clone();
        next.tables.remove(table);
        next.unreadable_tables.remove(table);
        Ok(self.with(next))
    }

    /// Returns the schema with one more index, which has yet to be built, on a column of the table.
    /// Returns `None` if `if_not_exists` is true and the keyspace has an index of this name or the
    /// table has an index on the same target. The default name is `<table>_<column>_idx`, and a
    /// number follows it if that name is taken.
    ///
    /// # Errors
    /// If there is no such table, the table has counters, or (without `if_not_exists`) the name is
    /// taken or an index on the same target exists; [`SchemaError::Unreadable`] if the keyspace has
    /// an unreadable table, which may have an index of this name; the errors of
    /// [`TableSchema::create_index`].
    pub fn create_index(
        &self,
        (keyspace, table): (&str, &str),
        name: Option<&str>,
        (column, target): (&str, IndexTarget),
        if_not_exists: bool,
    ) -> Result<Option<Self>, SchemaError> {
        let of = self.existing(keyspace)?;
        let Some(found) = of.table(table) else {
            let missing = || SchemaError::Invalid(format!("Table '{table}' doesn't exist"));
            return Err(of.unreadable_table(table).unwrap_or_else(missing));
        };
        if let Some(name) = name.filter(|name| of.table_of_index(name).is_some()) {
            return if if_not_exists {
                Ok(None)
            } else {
                invalid(format!("Index '{name}' already exists"))
            };
        }
        if found.is_counter() {
            return invalid("Secondary indexes on counter tables aren't supported");
        }
        let target = found.check_index(column, target)?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => {
                let base = default_index_name(table, column);
                let numbered = (1..).map(|number| format!("{base}_{number}"));
                let mut names = std::iter::once(base.clone()).chain(numbered);
                let free = names.find(|name| of.table_of_index(name).is_none());
                // The numbers do not end before a name is free, so the default does not occur.
                free.unwrap_or(base)
            }
        };
        if let Some(same) = found.index_by(column, target) {
            return if if_not_exists {
                Ok(None)
            } else {
                invalid(format!(
                    "Index {name} is a duplicate of existing index {}",
                    same.name
                ))
            };
        }
        // An unreadable table may have an index of this name. Once it is readable, one of the two tables would
        // be out of service.
        if let Some(owner) = self.unreadable_owner_of_index(keyspace) {
            return Err(owner);
        }
        let next = self.alter_table(keyspace, table, |table| {
            table.create_index(&name, column, target)
        });
        next.map(Some)
    }

    /// Returns the schema without an index, and the name of the table that had it.
    ///
    /// # Errors
    /// If there is no such index; [`SchemaError::Unreadable`] if it is not found but the keyspace
    /// has an unreadable table, which may have it.
    pub fn drop_index(&self, keyspace: &str, index: &str) -> Result<(Self, Arc<str>), SchemaError> {
        let of = self.keyspace(keyspace);
        let Some(table) = of.and_then(|of| of.table_of_index(index)) else {
            let missing = format!("Index '{keyspace}.{index}' doesn't exist'");
            let owner = self.unreadable_owner_of_index(keyspace);
            return Err(owner.unwrap_or(SchemaError::Invalid(missing)));
        };
        let next = self.alter_table(keyspace, &table.name, |table| Ok(table.drop_index(index)))?;
        Ok((next, table.name.clone()))
    }

    /// Returns the schema with one more user-defined type.
    ///
    /// # Errors
    /// If its keyspace does not exist or has a type of this name, readable or not; if the name or
    /// that of a field is too long; if the type of a field is not allowed in a new type; if an
    /// unreadable type may use this name; or if a table uses another type of this name.
    pub fn create_type(&self, new: UserType) -> Result<Self, SchemaError> {
        check_name_length("Type", new.name())?;
        let mut keyspace = self.existing(new.keyspace())?.clone();
        if let Some(unreadable) = keyspace.unreadable_type(new.name()) {
            return Err(unreadable);
        }
        if keyspace.types.contains_key(new.name()) {
            return invalid(format!(
                "A user type with name '{}' already exists",
                new.name()
            ));
        }
        for (field, ty) in new.fields() {
            check_name_length("Field", field)?;
            ty.check_new()?;
        }
        // An unreadable type that names this one would change its meaning with a new type of the
        // name.
        let users = keyspace.unreadable_users(new.name()).into_iter();
        let mut users = users.filter(|user| user.kind == ObjectKind::Type);
        if let Some(user) = users.next() {
            return invalid(format!(
                "Cannot create user type '{}.{}', because another type may use it: {user}",
                new.keyspace(),
                new.name()
            ));
        }
        // The keyspace's record may have lost the type while a table still has it. Only an equal
        // type may be created then, which becomes the table's type again.
        let is_other = |table: &&Arc<TableSchema>| {
            let used = table.used_types();
            used.get(new.name()).is_some_and(|used| ***used != new)
        };
        if let Some(table) = keyspace.tables().find(is_other) {
            return invalid(format!(
                "Cannot create user type '{}.{}', because table {} uses another type of this name",
                new.keyspace(),
                new.name(),
                table.name()
            ));
        }
        keyspace.types.insert(new.name().into(), Arc::new(new));
        Ok(self.with(keyspace))
    }

    /// Returns the schema without an unused user-defined type, readable or not.
    ///
    /// # Errors
    /// If there is no such type, or if a table or type uses it or may use it.
    pub fn drop_type(&self, keyspace: &str, name: &str) -> Result<Self, SchemaError> {
        let mut next = self.existing(keyspace)?.clone();
        if next.unreadable_types.remove(name).is_none() {
            self.existing_type(keyspace, name)?;
        }
        let users = |found: Vec<&str>, what: &str| {
            if found.is_empty() {
                Ok(())
            } else {
                invalid(format!(
                    "Cannot drop user type '{keyspace}.{name}' as it is still used by {what} {}",
                    found.join(", ")
                ))
            }
        };
        let types = next.types.values();
        let types = types.filter(|t| t.fields().iter().any(|(_, ty)| ty.mentions(name)));
        users(types.map(|t| t.name()).collect(), "user types")?;
        let tables = next.tables();
        let tables = tables.filter(|t| t.columns().iter().any(|c| c.ty.mentions(name)));
        users(tables.map(|t| t.name()).collect(), "tables")?;
        if let Some(user) = next.unreadable_users(name).first() {
            return invalid(format!(
                "Cannot drop user type '{keyspace}.{name}' as it may still be used: {user}"
            ));
        }
        next.types.remove(name);
        Ok(self.with(next))
    }

    /// Returns the schema with one more field at the end of a user-defined type, in all types and
    /// tables that use the type. In values that were written earlier, the new field is null.
    ///
    /// # Errors
    /// If there is no such type, the field exists, or its name or type is not allowed; if an
    /// unreadable type or table may use the type; if the type would contain itself or grow too
    /// large; or if the type is part of a partition key, whose bytes would change with the type.
    pub fn add_field(
        &self,
        keyspace: &str,
        name: &str,
        field: &str,
        ty: CqlType,
    ) -> Result<Self, SchemaError> {
        check_name_length("Field", field)?;
        let old = self.existing_type(keyspace, name)?;
        let full = format!("{keyspace}.{name}");
        if old.field(field).is_some() {
            return invalid(format!(
                "Cannot add field {field} to type {full}: a field with name {field} already exists"
            ));
        }
        if ty.mentions(name) {
            return invalid(format!(
                "Cannot add new field {field} of type {ty} to user type {full} as it would create \
                 a circular reference"
            ));
        }
        ty.check_new()?;
        let tables = self.existing(keyspace)?.tables();
        let tables: Vec<String> = tables
            .filter(|t| {
                let key = t.columns_of(ColumnKind::PartitionKey);
                key.iter().any(|c| c.ty.mentions(name))
            })
            .map(|t| format!("{keyspace}.{}", t.name()))
            .collect();
        if !tables.is_empty() {
            return invalid(format!(
                "Cannot add new field {field} of type {ty} to user type {full} as the type is \
                 being used in partition key by the following tables: {}",
                tables.join(", ")
            ));
        }
        let fields = old.fields().iter().cloned();
        let fields = fields.chain([(field.into(), ty)]);
        self.with_type(UserType::new(keyspace, name, fields)?)
    }

    /// Returns the schema with fields of a user-defined type renamed, as pairs of old and new names.
    /// All are renamed at once, so two fields can swap their names. If a field is renamed twice, the
    /// last name applies.
    ///
    /// # Errors
    /// If there is no such type or field, a new name is too long, two fields would have the same
    /// name, or an unreadable type or table may use the type.
    pub fn rename_fields<'n>(
        &self,
        keyspace: &str,
        name: &str,
        renames: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Result<Self, SchemaError> {
        let old = self.existing_type(keyspace, name)?;
        let mut fields = old.fields().to_vec();
        for (from, to) in renames {
            check_name_length("Field", to)?;
            let Some(place) = old.field(from) else {
                // The misspelling is Cassandra's.
                return invalid(format!(
                    "Unkown field {from} in user type {keyspace}.{name}"
                ));
            };
            fields[place].0 = to.into();
        }
        let mut names = BTreeSet::new();
        for (field, _) in &fields {
            if !names.insert(field) {
                return invalid(format!(
                    "Duplicate field name {field} in type {keyspace}.{name}"
                ));
            }
        }
        self.with_type(UserType::new(keyspace, name, fields)?)
    }

    /// Returns the schema with `new` in place of the user-defined type of the same name, also in
    /// all types and tables that use it.
    fn with_type(&self, new: UserType) -> Result<Self, SchemaError> {
        let new = Arc::new(new);
        let mut next = self.existing(new.keyspace())?.clone();
        if let Some(user) = next.unreadable_users(new.name()).first() {
            return invalid(format!(
                "Cannot alter user type {}.{} as it may be used: {user}",
                new.keyspace(),
                new.name()
            ));
        }
        for ty in next.types.values_mut() {
            if ty.name() == new.name() {
                *ty = new.clone();
            } else if ty.fields().iter().any(|(_, t)| t.mentions(new.name())) {
                *ty = Arc::new(replace_in_type(ty, &new)?);
            }
        }
        for table in next.tables.values_mut() {
            if table.columns().iter().any(|c| c.ty.mentions(new.name())) {
                *table = Arc::new(table.with_type(&new)?);
            }
        }
        Ok(self.with(next))
    }

    fn with(&self, keyspace: KeyspaceSchema) -> Self {
        let mut keyspaces = self.keyspaces.clone();
        keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        Self::from_parts(keyspaces, self.unreadable.clone())
    }

    fn existing(&self, name: &str) -> Result<&KeyspaceSchema, SchemaError> {
        let missing = || SchemaError::Invalid(format!("Keyspace '{name}' doesn't exist"));
        match self.keyspaces.get(name) {
            Some(keyspace) => Ok(keyspace),
            None => Err(self.unreadable(name, None).unwrap_or_else(missing)),
        }
    }

    fn existing_table(&self, keyspace: &str, name: &str) -> Result<&TableSchema, SchemaError> {
        let missing = || SchemaError::Invalid(format!("Table '{keyspace}.{name}' doesn't exist"));
        match self.table(keyspace, name) {
            Some(table) => Ok(table),
            None => {
                let unreadable = self.unreadable(keyspace, Some(name));
                Err(unreadable.unwrap_or_else(missing))
            }
        }
    }

    fn existing_type(&self, keyspace: &str, name: &str) -> Result<&UserType, SchemaError> {
        let of = self.existing(keyspace)?;
        let missing = || SchemaError::Invalid(format!("Type '{keyspace}.{name}' doesn't exist"));
        match of.types.get(name) {
            Some(ty) => Ok(ty),
            None => Err(of.unreadable_type(name).unwrap_or_else(missing)),
        }
    }
}
