//! The consistency levels that writes may have.
//!
//! There is one copy, so the level makes no difference. A level that Cassandra rejects is
//! nevertheless rejected, since it is a mistake of the client. Batches obey the same rules, although
//! Cassandra checks the levels of conditional batches only.

use ebb_cql::protocol::{Consistency, WriteType};

use super::statement::WriteStatement;
use crate::error::{Result, invalid};

/// Checks that a write of this type may have these consistency levels.
pub fn check_consistency(
    write_type: WriteType,
    level: Consistency,
    serial: Option<Consistency>,
) -> Result<()> {
    match write_type {
        WriteType::Cas if !serial.is_none_or(Consistency::is_serial) => invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ),
        WriteType::Cas if level.is_serial() => invalid(format!(
            "{} is not supported as conditional update commit consistency. Use ANY if you mean \
             \"make sure it is accepted but I don't care how many replicas commit it for \
             non-SERIAL reads\"",
            level.name()
        )),
        WriteType::Counter if level == Consistency::Any => {
            invalid("Consistency level ANY is not yet supported for counter tables")
        }
        WriteType::Counter if level.is_serial() => {
            invalid("Counter operations are inherently non-serializable")
        }
        _ if level.is_serial() => {
            invalid("You must use conditional updates for serializable writes")
        }
        _ => Ok(()),
    }
}

/// Checks that the consistency level is not ANY if one of `statements`, which are executed
/// together, has to read a list before it changes the list: reads have no level ANY. If one of the
/// statements has a condition, all are exempt, because the lists are then read at the serial level,
/// like the rows that the conditions test.
pub fn check_list_reads<'s>(
    level: Consistency,
    mut statements: impl Iterator<Item = &'s WriteStatement> + Clone,
) -> Result<()> {
    if level != Consistency::Any {
        return Ok(());
    }
    let mut write_types = statements.clone().map(WriteStatement::write_type);
    let is_conditional = write_types.any(|write_type| write_type == WriteType::Cas);
    if !is_conditional && statements.any(WriteStatement::reads_lists) {
        return invalid(
            "Write operation require a read but consistency ANY is not supported on reads",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_table() {
        use Consistency::{Any, LocalSerial, One, Quorum, Serial};
        use WriteType::{Batch, Cas, Counter, Simple};
        for (write_type, level, serial, expected) in [
            (Simple, Quorum, None, None),
            (Simple, Any, Some(Quorum), None),
            (Simple, Serial, None, Some("You must use conditional")),
            (Batch, LocalSerial, None, Some("You must use conditional")),
            (Cas, Quorum, None, None),
            (Cas, Any, Some(LocalSerial), None),
            (Cas, One, Some(Quorum), Some("Must be one of SERIAL")),
            (
                Cas,
                Serial,
                Some(Serial),
                Some("SERIAL is not supported as"),
            ),
            (Counter, One, None, None),
            (Counter, Any, None, Some("ANY is not yet supported")),
            (Counter, Serial, None, Some("inherently non-serializable")),
        ] {
            let found = check_consistency(write_type, level, serial);
            let found = found.err().map(|error| error.message);
            let fits = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(fits, "{write_type:?} {level:?} {serial:?}: {found:?}");
        }
    }
}
