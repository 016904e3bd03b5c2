//! The capacity of each node in a control cycle.

use super::config::Spread;
use super::node_run::NodeRun;
use crate::model::{Node, Resources, TypedSlots};

/// Divides `available_hundredths` of a core among the nodes.
///
/// With whole nodes, the nodes with most running tasks get their capacity first: otherwise a task
/// might be stranded on a node that lost its capacity while another node idles. A node that gets no
/// CPU keeps its I/O and memory, unless it is down. A node has slots only if all of its CPU is
/// available. The CPU of all nodes together never exceeds `available_hundredths`.
pub(super) fn share_out(
    available_hundredths: u32,
    spread: Spread,
    runs: &[NodeRun],
    nodes: &mut [Node],
) {
    match spread {
        Spread::WholeNodes => {
            let mut left = available_hundredths;
            for node in busiest_first(runs) {
                let cpu = runs[node].spec.capacity.cpu_hundredths.min(left);
                left -= cpu;
                grant(&mut nodes[node], &runs[node], cpu);
            }
        }
        Spread::Even => {
            let up = runs.iter().filter(|run| run.is_up());
            let all: u64 = up
                .map(|run| u64::from(run.spec.capacity.cpu_hundredths))
                .sum();
            for (node, run) in nodes.iter_mut().zip(runs) {
                let whole = u64::from(run.spec.capacity.cpu_hundredths);
                let part = whole * u64::from(available_hundredths) / all.max(1);
                grant(node, run, part.min(whole) as u32);
            }
        }
    }
    for (node, _) in nodes.iter_mut().zip(runs).filter(|(_, run)| !run.is_up()) {
        node.capacity = Resources::default();
        node.slots = node.slots.map(|_| TypedSlots::default());
    }
}

fn grant(node: &mut Node, run: &NodeRun, cpu_hundredths: u32) {
    node.capacity = Resources {
        cpu_hundredths,
        ..run.spec.capacity
    };
    let whole = cpu_hundredths == run.spec.capacity.cpu_hundredths;
    node.slots = (run.spec.slots).map(|slots| if whole { slots } else { TypedSlots::default() });
}

/// Returns the positions of the nodes that are up, busiest first, then by position. A
/// counting sort is fast here because the numbers of tasks are small.
fn busiest_first(runs: &[NodeRun]) -> Vec<usize> {
    let most = runs.iter().map(|run| run.attempts.len()).max().unwrap_or(0);
    let mut starts = vec![0; most + 2];
    for run in runs.iter().filter(|run| run.is_up()) {
        starts[most - run.attempts.len() + 1] += 1;
    }
    for rank in 1..starts.len() {
        starts[rank] += starts[rank - 1];
    }
    let mut order = vec![0; starts[most + 1]];
    for (node, run) in runs.iter().enumerate().filter(|(_, run)| run.is_up()) {
        let rank = most - run.attempts.len();
        order[starts[rank]] = node;
        starts[rank] += 1;
    }
    order
}
