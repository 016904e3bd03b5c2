//! USING TIMESTAMP and TTL.

use ebb_cql::syntax::ast;
use ebb_model::schema::TableSchema;
use ebb_model::types::CqlType;

use crate::analyse::markers::{Bound, Markers, Receiver};
use crate::analyse::term::{self, Evaluated, Term};
use crate::error::{Result, invalid};

/// The longest TTL: twenty years, as in Cassandra.
pub(super) const TTL_MAX_S: i32 = 20 * 365 * 24 * 60 * 60;

#[derive(Debug, Default)]
pub(super) struct Using {
    pub(super) timestamp: Option<Term>,
    pub(super) ttl: Option<Term>,
}

impl Using {
    pub(super) fn prepare(written: &ast::Using, markers: &mut Markers) -> Result<Self> {
        let mut one = |term: &Option<ast::Term>, name: &str, ty: CqlType| {
            let receiver = Receiver::new(name, ty);
            let prepared = term.as_ref();
            let prepared = prepared.map(|term| term::prepare(term, &receiver, markers));
            prepared.transpose()
        };
        Ok(Self {
            timestamp: one(&written.timestamp, "[timestamp]", CqlType::Bigint)?,
            ttl: one(&written.ttl, "[ttl]", CqlType::Int)?,
        })
    }

    pub(super) fn timestamp_us(&self, bound: &Bound<'_>) -> Result<Option<i64>> {
        let Some(term) = &self.timestamp else {
            return Ok(None);
        };
        match term.evaluate(bound)? {
            Evaluated::Unset => Ok(None),
            Evaluated::Null => invalid("Invalid null value of timestamp"),
            Evaluated::Value(bytes) => match bytes[..].try_into().map(i64::from_be_bytes) {
                Err(_) => invalid("Invalid timestamp value: empty"),
                Ok(timestamp_us) => check_timestamp(timestamp_us).map(Some),
            },
        }
    }

    /// Returns the TTL in seconds, from USING TTL or the default of the table; `None` for values
    /// that do not expire.
    pub(super) fn ttl_s(&self, schema: &TableSchema, bound: &Bound<'_>) -> Result<Option<u32>> {
        let by_default = || schema.options().default_time_to_live_secs();
        let ttl_s = match &self.ttl {
            None => by_default(),
            Some(term) => match term.evaluate(bound)? {
                Evaluated::Unset => by_default(),
                Evaluated::Null => 0,
                Evaluated::Value(bytes) => match bytes[..].try_into().map(i32::from_be_bytes) {
                    Err(_) => return invalid("Invalid TTL value: empty"),
                    Ok(ttl_s) if ttl_s > TTL_MAX_S => {
                        return invalid(format!(
                            "ttl is too large. requested ({ttl_s}) maximum ({TTL_MAX_S})"
                        ));
                    }
                    Ok(ttl_s) => match u32::try_from(ttl_s) {
                        Ok(ttl_s) => ttl_s,
                        Err(_) => {
                            return invalid(format!(
                                "A TTL must be greater or equal to 0, but was {ttl_s}"
                            ));
                        }
                    },
                },
            },
        };
        Ok(Some(ttl_s).filter(|ttl_s| *ttl_s > 0))
    }
}

/// Checks that a timestamp from a client is one that cells can have (any but [`i64::MIN`]), and
/// returns it.
pub(super) fn check_timestamp(timestamp_us: i64) -> Result<i64> {
    match timestamp_us {
        i64::MIN => invalid(format!(
            "Out of bound timestamp, must be in [{}, {}]",
            i64::MIN + 1,
            i64::MAX
        )),
        _ => Ok(timestamp_us),
    }
}
