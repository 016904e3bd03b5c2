//! The nodes of a scenario, by kind.

use super::error::FieldError;
use super::numbers::{FieldResult, at_most, count};
use super::schema::File;
use crate::model::{Pool, Resources, TypedSlots};
use crate::sim::SimNode;
use crate::sim::bounds::{CLUSTER_HUNDREDTHS_MAX, NODE_HUNDREDTHS_MAX, NODES_MAX, SLOTS_MAX};

/// A kind of nodes: how many equal nodes there are, and the properties of each.
pub(super) type Kind = (u32, SimNode);

/// Returns the kinds of nodes in the order of the file; at least one.
pub(super) fn kinds(file: &File) -> FieldResult<Vec<Kind>> {
    if file.nodes.is_empty() {
        return Err(FieldError::new(
            "nodes",
            "a cluster needs at least one node",
        ));
    }
    let (mut nodes, mut hundredths) = (0, 0);
    let mut kinds = Vec::new();
    for (index, group) in file.nodes.iter().enumerate() {
        let field = |name: &str| format!("nodes[{index}].{name}");
        count(&field("count"), group.count, NODES_MAX)?;
        let cpu = &field("cpu_hundredths");
        count(cpu, group.cpu_hundredths, NODE_HUNDREDTHS_MAX.into())?;
        for (name, slots) in [
            ("map_slots", group.map_slots),
            ("reduce_slots", group.reduce_slots),
        ] {
            at_most(&field(name), slots.unwrap_or(0), SLOTS_MAX)?;
        }
        // The sums are checked after each kind, so that the error names the kind that exceeds them,
        // and neither sum can overflow.
        nodes += u64::from(group.count);
        if nodes > NODES_MAX {
            let what = format!("{nodes} nodes with those above; at most {NODES_MAX}");
            return Err(FieldError::new(field("count"), what));
        }
        hundredths += u64::from(group.count) * u64::from(group.cpu_hundredths);
        if hundredths > CLUSTER_HUNDREDTHS_MAX {
            let what = format!(
                "all nodes together have {hundredths} hundredths of a core; at most \
                 {CLUSTER_HUNDREDTHS_MAX}"
            );
            return Err(FieldError::new(cpu, what));
        }
        // With either kind of typed slots, a node has none of the other kind unless the file gives them.
        let slots = match (group.map_slots, group.reduce_slots) {
            (None, None) => None,
            (maps, reduces) => Some(TypedSlots {
                maps: maps.unwrap_or(0),
                reduces: reduces.unwrap_or(0),
            }),
        };
        let node = SimNode {
            capacity: Resources {
                cpu_hundredths: group.cpu_hundredths,
                // I/O and memory that the file leaves out limit nothing. Unlike CPU, both need no
                // bound: `Resources` adds them without overflow, and `fits` rejects tasks that no node
                // can hold.
                io_bytes_per_s: group.io_bytes_per_s.unwrap_or(u64::MAX),
                memory_bytes: group.memory_bytes.unwrap_or(u64::MAX),
            },
            slots,
            pool: if group.accelerated {
                Pool::Accelerated
            } else {
                Pool::Regular
            },
        };
        kinds.push((group.count, node));
    }
    Ok(kinds)
}
