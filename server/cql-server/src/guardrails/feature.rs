//! Guardrails that forbid a feature, with the names of their settings and their error messages.

/// A feature that the configuration can forbid. The variants have the names of Cassandra 5.0's
/// guardrails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    AllowFiltering,
    GroupBy,
    UserTimestamps,
    /// Writes that read a list first: setting or deleting an element by its index, and removing
    /// elements by their value.
    ReadBeforeWriteListOperations,
    SecondaryIndexes,
    /// ALTER TABLE with ADD, DROP and RENAME.
    AlterTable,
    /// DROP TABLE and TRUNCATE.
    DropTruncateTable,
    DropKeyspace,
}

impl Feature {
    /// All features, in the order in which settings are displayed.
    pub(super) const ALL: [Self; 8] = [
        Self::AllowFiltering,
        Self::GroupBy,
        Self::UserTimestamps,
        Self::ReadBeforeWriteListOperations,
        Self::SecondaryIndexes,
        Self::AlterTable,
        Self::DropTruncateTable,
        Self::DropKeyspace,
    ];

    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::AllowFiltering => "allow_filtering_enabled",
            Self::GroupBy => "group_by_enabled",
            Self::UserTimestamps => "user_timestamps_enabled",
            Self::ReadBeforeWriteListOperations => "read_before_write_list_operations_enabled",
            Self::SecondaryIndexes => "secondary_indexes_enabled",
            Self::AlterTable => "alter_table_enabled",
            Self::DropTruncateTable => "drop_truncate_table_enabled",
            Self::DropKeyspace => "drop_keyspace_enabled",
        }
    }

    /// Returns the error message for statements that use the feature while it is forbidden.
    pub(super) fn refusal(self) -> String {
        let setting = self.setting();
        // In Cassandra some guardrails have the name of their setting.
        let name = match self {
            Self::DropTruncateTable | Self::DropKeyspace => setting,
            _ => setting.strip_suffix("_enabled").unwrap_or(setting),
        };
        let what = match self {
            Self::AllowFiltering => "Querying with ALLOW FILTERING",
            Self::GroupBy => "GROUP BY functionality",
            Self::UserTimestamps => "User provided timestamps (USING TIMESTAMP)",
            Self::ReadBeforeWriteListOperations => "List operation requiring read before write",
            Self::SecondaryIndexes => "User creation of secondary indexes",
            Self::AlterTable => "ALTER TABLE changing columns",
            Self::DropTruncateTable => "DROP and TRUNCATE TABLE functionality",
            Self::DropKeyspace => "DROP KEYSPACE functionality",
        };
        let why = match self {
            Self::AllowFiltering => {
                ". ALLOW FILTERING can potentially visit all the data in the table and have \
                 unpredictable performance."
            }
            _ => "",
        };
        format!("Guardrail {name} violated: {what} is not allowed{why}")
    }
}
