//! Orders of tasks.

use super::instance::Instance;
use crate::model::TaskKind;
use crate::ordered_f64::OrderedF64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the positions of all tasks by ascending `key`. A reduce whose key is less than that of a
/// map of its job takes the largest key of these maps. Of equal keys, maps come before reduces, then
/// the lower position comes first. So a reduce never comes before the maps of its job.
#[must_use]
pub fn by_key(instance: &Instance, key: &[f64]) -> Vec<usize> {
    let mut last_map = vec![f64::NEG_INFINITY; instance.jobs.len()];
    for (job, last) in instance.jobs.iter().zip(&mut last_map) {
        *last = key[job.maps.clone()].iter().copied().fold(*last, f64::max);
    }
    let key = |at: usize| {
        let task = &instance.tasks[at];
        match task.id.kind {
            TaskKind::Map => (OrderedF64(key[at]), false),
            TaskKind::Reduce => (OrderedF64(key[at].max(last_map[task.job])), true),
        }
    };
    let mut order: Vec<usize> = (0..instance.tasks.len()).collect();
    order.sort_by_key(|&at| key(at));
    order
}

/// Returns the position that each task has when all are sorted by ascending `key`, ties by
/// position.
#[must_use]
pub fn ranks(instance: &Instance, key: impl Fn(usize) -> f64) -> Vec<u32> {
    let mut order: Vec<usize> = (0..instance.tasks.len()).collect();
    order.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
    let mut ranks = vec![0; order.len()];
    for (rank, task) in (0..).zip(order) {
        ranks[task] = rank;
    }
    ranks
}

/// Returns the order in which tasks leave a list that always yields the task of least rank.
/// The list starts with all maps; the reduces of a job join it once all maps of the job
/// have left. Times play no part.
#[must_use]
pub fn available_first(instance: &Instance, ranks: &[u32]) -> Vec<usize> {
    let mut maps_left: Vec<usize> = instance.jobs.iter().map(|job| job.maps.len()).collect();
    let mut list = BinaryHeap::new();
    for (job, maps) in instance.jobs.iter().zip(&maps_left) {
        let first = if *maps > 0 { &job.maps } else { &job.reduces };
        list.extend(first.clone().map(|at| Reverse((ranks[at], at))));
    }
    let mut order = Vec::with_capacity(instance.tasks.len());
    while let Some(Reverse((_, at))) = list.pop() {
        order.push(at);
        let task = &instance.tasks[at];
        if task.id.kind == TaskKind::Map {
            maps_left[task.job] -= 1;
            if maps_left[task.job] == 0 {
                let reduces = instance.jobs[task.job].reduces.clone();
                list.extend(reduces.map(|at| Reverse((ranks[at], at))));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::example::job;
    use super::*;

    fn two_jobs() -> Instance {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(1.0, 0.0); 2], &[1.0]),
            job(1, 0.0, 1.0, &[(1.0, 0.0)], &[1.0]),
        ];
        Instance::new(1, jobs).unwrap()
    }

    #[test]
    fn a_reduce_never_comes_before_the_maps_of_its_job() {
        // The reduce of the first job, at position 2, waits for the map at 1.
        let order = by_key(&two_jobs(), &[5.0, 7.0, 1.0, 6.0, 8.0]);
        assert_eq!(order, [0, 3, 1, 2, 4]);
    }

    #[test]
    fn reduces_join_the_list_once_all_maps_have_left_it() {
        let instance = two_jobs();
        let ranks = ranks(&instance, |at| [5.0, 7.0, 1.0, 6.0, 8.0][at]);
        assert_eq!(ranks, [1, 3, 0, 2, 4]);
        assert_eq!(available_first(&instance, &ranks), [0, 3, 1, 2, 4]);
    }
}
