//! Keyspaces, tables, columns and user-defined types, as records and as DDL.
