//! Running maps that keep their slots in a new placement, and may still lose them to a
//! job that finds no room beside them.
//!
//! The node where the fewest have to go is sought in two trees of upper bounds: what a
//! node would have left without its largest map, and without any. Bounds only become too
//! high as a placement goes on; a node that turns out to have less is corrected when it is
//! looked at. So one search does not cost as much as there are maps.

use super::room::Room;
use crate::model::Resources;
use std::cmp::Reverse;

/// Per node, the jobs of such maps.
#[derive(Debug)]
pub(super) struct KeptMaps {
    /// Positions of jobs, one for each map.
    on: Vec<Vec<usize>>,
    /// Made when they are first needed.
    bounds: Option<Bounds>,
}

/// The free resources of each node without one of the maps that can go, and without all of them.
#[derive(Debug)]
struct Bounds([Room; 2]);

/// What is known of the jobs and the nodes while maps are sought.
pub(super) struct Placed<'a> {
    /// What is left of each node beside the slots given so far.
    pub planned: &'a Room,
    /// What a map of a job takes.
    pub size: &'a dyn Fn(usize) -> Resources,
    /// How many maps a job can lose: all but one.
    pub spare: &'a dyn Fn(usize) -> usize,
}

/// Nodes that are looked at in one search. With more of them the fewest maps might be
/// found on another one; the next job is waiting.
const NODES_MAX: usize = 64;

impl KeptMaps {
    /// None yet on any of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            on: vec![Vec::new(); nodes],
            bounds: None,
        }
    }

    pub fn add(&mut self, node: usize, job: usize) {
        self.on[node].push(job);
    }

    /// Node and job of each.
    pub fn slots(&self) -> impl Iterator<Item = (usize, usize)> {
        let nodes = self.on.iter().enumerate();
        nodes.flat_map(|(node, jobs)| jobs.iter().map(move |&job| (node, job)))
    }

    /// Takes the fewest maps of jobs other than `asking` from one node that leave room
    /// for `demand` there: the node, and the jobs that lose one each time they are named.
    /// `None` where that is nowhere.
    pub fn take_fewest(
        &mut self,
        asking: usize,
        demand: &Resources,
        placed: &Placed<'_>,
    ) -> Option<(usize, Vec<usize>)> {
        let on = &self.on;
        let bounds = (self.bounds).get_or_insert_with(|| Bounds::of(on, placed));
        let mut fewest: Option<(usize, Vec<usize>)> = None;
        for tree in 0..bounds.0.len() {
            let mut stale = Vec::new();
            let mut looked_at = 0;
            bounds.0[tree].visit_fitting(demand, &mut |node| {
                looked_at += 1;
                let maps = goes(&on[node], asking, node, demand, placed);
                let better = |maps: &Vec<usize>| {
                    (fewest.as_ref()).is_none_or(|(_, fewest)| maps.len() < fewest.len())
                };
                match maps {
                    Some(maps) if better(&maps) => fewest = Some((node, maps)),
                    Some(_) => {}
                    None => stale.push(node),
                }
                looked_at < NODES_MAX && fewest.as_ref().is_none_or(|(_, maps)| maps.len() > 1)
            });
            for node in stale {
                bounds.correct(node, &on[node], placed);
            }
            // No other node can do with fewer than one.
            if fewest.as_ref().is_some_and(|(_, maps)| maps.len() == 1) {
                break;
            }
        }
        let (node, maps) = fewest?;
        let jobs: Vec<usize> = maps.iter().map(|&at| self.on[node][at]).collect();
        let mut gone = maps;
        gone.sort_unstable();
        for at in gone.into_iter().rev() {
            self.on[node].swap_remove(at);
        }
        Some((node, jobs))
    }

    /// A node's slots have changed hands.
    pub fn changed(&mut self, node: usize, placed: &Placed<'_>) {
        if let Some(bounds) = &mut self.bounds {
            bounds.correct(node, &self.on[node], placed);
        }
    }
}

impl Bounds {
    fn of(on: &[Vec<usize>], placed: &Placed<'_>) -> Self {
        let (one, all) = (on.iter().enumerate())
            .map(|(node, jobs)| bounds_of(jobs, node, placed))
            .unzip();
        Self([one, all].map(|left| Room::new(left, Resources::default())))
    }

    fn correct(&mut self, node: usize, jobs: &[usize], placed: &Placed<'_>) {
        let (one, all) = bounds_of(jobs, node, placed);
        self.0[0].set(node, one);
        self.0[1].set(node, all);
    }
}

/// What `node` would have left without one, and without all of the maps that can go.
fn bounds_of(
    jobs: &[usize],
    node: usize,
    placed: &Placed<'_>,
) -> (Option<Resources>, Option<Resources>) {
    let can_go = can_go(jobs, None, placed);
    let Some(left) = placed.planned.left(node).filter(|_| !can_go.is_empty()) else {
        return (None, None);
    };
    let sizes = || can_go.iter().map(|&at| (placed.size)(jobs[at]));
    let largest = sizes().fold(Resources::default(), |a, b| a.max(&b));
    let all = sizes().fold(left, |left, size| left.plus(&size));
    (Some(left.plus(&largest)), Some(all))
}

/// Positions of the maps that can go, but none of `asking` and no job's last one.
fn can_go(jobs: &[usize], asking: Option<usize>, placed: &Placed<'_>) -> Vec<usize> {
    let mut can_go: Vec<usize> = Vec::new();
    for (at, &job) in jobs.iter().enumerate() {
        let others = can_go.iter().filter(|&&other| jobs[other] == job).count();
        if Some(job) != asking && others < (placed.spare)(job) {
            can_go.push(at);
        }
    }
    can_go
}

/// Positions of the fewest maps that have to go from `node`, the largest first.
fn goes(
    jobs: &[usize],
    asking: usize,
    node: usize,
    demand: &Resources,
    placed: &Placed<'_>,
) -> Option<Vec<usize>> {
    let mut left = placed.planned.left(node)?;
    let size = |at: usize| (placed.size)(jobs[at]);
    let mut maps = can_go(jobs, Some(asking), placed);
    maps.sort_by_key(|&at| Reverse((size(at).cpu_hundredths, size(at).io_bytes_per_s)));
    for count in 0..maps.len() {
        left = left.plus(&size(maps[count]));
        if left.fits(demand) {
            maps.truncate(count + 1);
            return Some(maps);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn the_fewest_maps_are_those_that_a_walk_over_all_nodes_finds() {
        let seed = 41;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let draw = |rng: &mut ChaCha8Rng, up_to: u32| Resources {
            cpu_hundredths: rng.random_range(1..up_to),
            io_bytes_per_s: rng.random_range(0..u64::from(up_to)),
            memory_bytes: rng.random_range(0..u64::from(up_to)),
        };
        let mut found = 0;
        for _ in 0..200 {
            let nodes = rng.random_range(1..30);
            let sizes: Vec<Resources> = (0..8).map(|_| draw(&mut rng, 40)).collect();
            let mut counts = vec![0_usize; sizes.len()];
            let mut kept = KeptMaps::new(nodes);
            for node in 0..nodes {
                for _ in 0..rng.random_range(0..5) {
                    let job = rng.random_range(0..sizes.len());
                    kept.add(node, job);
                    counts[job] += 1;
                }
            }
            let left = (0..nodes).map(|_| Some(draw(&mut rng, 15))).collect();
            let mut planned = Room::new(left, Resources::default());
            for _ in 0..20 {
                let asking = rng.random_range(0..sizes.len());
                let demand = draw(&mut rng, 60);
                let before = counts.clone();
                let placed = Placed {
                    planned: &planned,
                    size: &|job| sizes[job],
                    spare: &|job| before[job].saturating_sub(1),
                };
                let fewest = (0..nodes)
                    .filter_map(|node| goes(&kept.on[node], asking, node, &demand, &placed))
                    .map(|maps| maps.len())
                    .min();
                let taken = kept.take_fewest(asking, &demand, &placed);
                assert_eq!(taken.as_ref().map(|(_, jobs)| jobs.len()), fewest);
                let Some((node, jobs)) = taken else { continue };
                found += 1;
                for job in jobs {
                    assert_ne!(job, asking);
                    counts[job] -= 1;
                    assert!(counts[job] > 0, "no job loses its last map");
                    planned.give(node, &sizes[job]);
                }
                assert!(planned.fits(node, &demand));
                planned.take(node, &demand);
                let placed = Placed {
                    planned: &planned,
                    size: &|job| sizes[job],
                    spare: &|job| counts[job].saturating_sub(1),
                };
                kept.changed(node, &placed);
            }
        }
        assert!(found > 500, "the cases are no test: {found}");
    }
}
