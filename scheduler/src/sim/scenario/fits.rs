//! Checks that every task of a scenario can run on some node, under each policy.
//!
//! A task fits if a node has the resources that it needs. If the policy counts slots and the node
//! has typed slots, the task fits if the node has slots for its kind. f(t) plays no part: it may
//! be zero for a while, or for ever, and a run shows the consequences.

use super::applications::Applications;
use super::error::FieldError;
use super::nodes::Kind;
use super::numbers::FieldResult;
use super::schema::File;
use crate::model::{Resources, TaskKind};
use crate::policy::Measure;
use crate::sim::SimNode;

/// The demand of the tasks of one kind in a scenario, to compare with the nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Need {
    application: String,
    kind: TaskKind,
    demand: Resources,
}

/// The name of a policy, and whether it measures the free capacity of a node in resources or in
/// slots.
pub(super) type PolicyMeasure = (String, Measure);

/// For each application that the file's listed jobs or its generator use, returns the resources
/// that one map needs, and one reduce if there are any. Unknown applications are left out.
pub(super) fn needs(file: &File, applications: &Applications<'_>) -> Vec<Need> {
    let listed = (file.jobs.iter()).map(|job| (&job.application, job.reduces > 0));
    let generated = (file.workload.iter())
        .map(|workload| (&workload.application, workload.reduces_per_map > 0.0));
    let mut needs: Vec<Need> = Vec::new();
    for (name, has_reduces) in listed.chain(generated) {
        let Some(tasks) = applications.get(name) else {
            continue;
        };
        let kinds = [
            (TaskKind::Map, tasks.profile.map.demand, true),
            (TaskKind::Reduce, tasks.profile.reduce.demand, has_reduces),
        ];
        for (kind, demand, _) in kinds.into_iter().filter(|&(.., is_there)| is_there) {
            let need = Need {
                application: name.clone(),
                kind,
                demand,
            };
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
    }
    needs
}

/// Fails with the first task that no node can ever hold under one of the policies.
pub(super) fn check(policies: &[PolicyMeasure], needs: &[Need], kinds: &[Kind]) -> FieldResult<()> {
    let nodes: Vec<SimNode> = kinds.iter().map(|(_, node)| *node).collect();
    for (policy, measure) in policies {
        // The slots of a node, if the policy counts them in place of resources.
        let slots = |node: &SimNode| node.slots.filter(|_| *measure == Measure::Slots);
        for need in needs {
            let holds = |node: &SimNode| match slots(node) {
                Some(slots) => slots.of(need.kind) > 0,
                None => node.capacity.fits(&need.demand),
            };
            if nodes.iter().any(holds) {
                continue;
            }
            let by_resources: Vec<Resources> = (nodes.iter())
                .filter(|node| slots(node).is_none())
                .map(|node| node.capacity)
                .collect();
            // Without slots all policies count resources, so the error need not name the policy.
            let is_same_for_all = nodes.iter().all(|node| node.slots.is_none());
            let mut error = if by_resources.is_empty() {
                need.without_slots()
            } else {
                need.too_large(&by_resources)
            };
            if !is_same_for_all {
                error.what = format!("under {policy}, {}", error.what);
            }
            return Err(error);
        }
    }
    Ok(())
}

impl Need {
    /// Returns the error for tasks of a kind for which no node has slots, although all nodes have
    /// typed slots.
    fn without_slots(&self) -> FieldError {
        let (kind, application) = (self.kind, &self.application);
        let what = format!(
            "a {kind} of {application} needs a slot for {kind}s, and no node has one: give some \
             nodes {kind}_slots, or leave this policy out"
        );
        FieldError::new(format!("nodes[0].{kind}_slots"), what)
    }

    /// Returns the error for a task that fits on no node. `capacities`, not empty, are those of the
    /// nodes on which the policy counts resources.
    fn too_large(&self, capacities: &[Resources]) -> FieldError {
        let (kind, application) = (self.kind, &self.application);
        let table = format!("applications.{application}.{kind}");
        let most = (capacities.iter()).fold(Resources::default(), |most, one| most.max(one));
        let demand = &self.demand;
        let short = [
            (
                "cpu_hundredths",
                "hundredths of a core",
                u64::from(demand.cpu_hundredths),
                u64::from(most.cpu_hundredths),
            ),
            (
                "io_bytes_per_s",
                "bytes of I/O a second",
                demand.io_bytes_per_s,
                most.io_bytes_per_s,
            ),
            (
                "memory_bytes",
                "bytes of memory",
                demand.memory_bytes,
                most.memory_bytes,
            ),
        ];
        let mut short = short.into_iter();
        match short.find(|(_, _, needed, most)| needed > most) {
            Some((field, unit, needed, most)) => {
                let what = format!(
                    "a {kind} of {application} needs {needed} {unit}, and no node has more than \
                     {most}: it could never run; ask for less, or give nodes more"
                );
                FieldError::new(format!("{table}.{field}"), what)
            }
            None => {
                let what = format!(
                    "no node has all that a {kind} of {application} needs at once: it could never \
                     run; ask for less, or give one kind of nodes more"
                );
                FieldError::new(table, what)
            }
        }
    }
}
