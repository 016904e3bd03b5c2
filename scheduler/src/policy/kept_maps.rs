//! Running maps that keep their slots in a new placement, and may still lose them to a job whose
//! tasks do not fit beside them.
//!
//! Two trees of upper bounds find the node that has to evict the fewest maps: the free resources of
//! each node without its largest map, and without all of its maps. While a placement goes on,
//! bounds can only become too high; a search corrects the bounds of a node that turns out to have
//! less. So the cost of a search does not grow with the number of maps.

use super::room::Room;
use crate::model::Resources;

/// The running maps of each node that have a slot in the placement which is being made. Where a
/// task of another job fits on no node, some of these maps are evicted (lose their slots) to make
/// room for it.
#[derive(Debug)]
pub(super) struct KeptMaps {
    /// For each node, its running maps that have a slot and were not evicted; each is given by the
    /// position of its job.
    on: Vec<Vec<usize>>,
    /// Upper bounds on the free resources of each node after evictions, built on first use.
    bounds: Option<Bounds>,
}

/// Upper bounds on the free resources of each node after evictions. `[0]` is for a node that evicts
/// its largest evictable map, `[1]` for one that evicts all its evictable maps.
#[derive(Debug)]
struct Bounds([Room; 2]);

/// The part of a placement in progress that a search for maps to evict reads.
pub(super) struct PlacementState<'a> {
    /// Free resources of each node, after the slots given so far. Tasks that run without a slot count as
    /// ended.
    pub planned: &'a Room,
    /// Returns the resources of one map of the job at the given position in the view.
    pub size: &'a dyn Fn(usize) -> Resources,
    /// Returns how many maps the job at the given position in the view can lose: all but one of
    /// those that have a slot.
    pub spare: &'a dyn Fn(usize) -> usize,
}

/// The most nodes that a search for the node with the fewest maps to evict examines in each of the
/// two trees of [`Bounds`]. Another node might have fewer, but a longer search would hold up the
/// placement of the next job.
const NODES_MAX: usize = 64;

impl KeptMaps {
    /// Creates an empty set of running maps, for a cluster of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self {
            on: vec![Vec::new(); nodes],
            bounds: None,
        }
    }

    pub fn add(&mut self, node: usize, job: usize) {
        self.on[node].push(job);
    }

    /// Returns the position of the node (in the cluster) and of the job (in the view) of each
    /// running map that has kept its slot.
    pub fn slots(&self) -> impl Iterator<Item = (usize, usize)> {
        let nodes = self.on.iter().enumerate();
        nodes.flat_map(|(node, jobs)| jobs.iter().map(move |&job| (node, job)))
    }

    /// Evicts maps of jobs other than `claimant` from one node, as few as possible (as
    /// [`fewest_to_evict`] chooses them), so that enough free capacity for `demand` is left there.
    /// Returns the node and the jobs of these maps, once for each map. Returns `None`, and evicts
    /// nothing, if evictions would make enough room on none of the nodes examined (see [`NODES_MAX`]).
    pub fn take_fewest(
        &mut self,
        claimant: usize,
        demand: &Resources,
        state: &PlacementState<'_>,
    ) -> Option<(usize, Vec<usize>)> {
        let on = &self.on;
        let bounds = (self.bounds).get_or_insert_with(|| Bounds::of(on, state));
        let mut fewest: Option<(usize, Vec<usize>)> = None;
        for tree in 0..bounds.0.len() {
            let mut stale = Vec::new();
            let mut looked_at = 0;
            bounds.0[tree].visit_fitting(demand, &mut |node| {
                looked_at += 1;
                let maps = fewest_to_evict(&on[node], claimant, node, demand, state);
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
                bounds.correct(node, &on[node], state);
            }
            // No node can do with less than one map.
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

    /// Recomputes the [`Bounds`] of a node whose slots have changed.
    pub fn correct_bounds(&mut self, node: usize, state: &PlacementState<'_>) {
        if let Some(bounds) = &mut self.bounds {
            bounds.correct(node, &self.on[node], state);
        }
    }
}

impl Bounds {
    fn of(on: &[Vec<usize>], state: &PlacementState<'_>) -> Self {
        let (one, all) = (on.iter().enumerate())
            .map(|(node, jobs)| bounds_of(jobs, node, state))
            .unzip();
        Self([one, all].map(|left| Room::new(left, Resources::default())))
    }

    fn correct(&mut self, node: usize, jobs: &[usize], state: &PlacementState<'_>) {
        let (one, all) = bounds_of(jobs, node, state);
        self.0[0].set(node, one);
        self.0[1].set(node, all);
    }
}

/// Returns upper bounds on the free resources of `node` after evictions: first without its largest
/// evictable map, then without all its evictable maps. Both are `None` if no map can be evicted or
/// nothing can be placed there. `jobs` has the job of each map on the node.
fn bounds_of(
    jobs: &[usize],
    node: usize,
    state: &PlacementState<'_>,
) -> (Option<Resources>, Option<Resources>) {
    let evictable = evictable(jobs, None, state);
    let Some(left) = state.planned.left(node).filter(|_| !evictable.is_empty()) else {
        return (None, None);
    };
    let sizes = || evictable.iter().map(|&at| (state.size)(jobs[at]));
    let largest = sizes().fold(Resources::default(), |a, b| a.max(&b));
    let all = sizes().fold(left, |left, size| left.plus(&size));
    (Some(left.plus(&largest)), Some(all))
}

/// Returns the positions, in `jobs`, of the maps on a node that can be evicted: no map of the job
/// `claimant`, and not the last map of any job. `jobs` has the job of each map on the node.
fn evictable(jobs: &[usize], claimant: Option<usize>, state: &PlacementState<'_>) -> Vec<usize> {
    let mut evictable: Vec<usize> = Vec::new();
    for (at, &job) in jobs.iter().enumerate() {
        let others = evictable
            .iter()
            .filter(|&&other| jobs[other] == job)
            .count();
        if Some(job) != claimant && others < (state.spare)(job) {
            evictable.push(at);
        }
    }
    evictable
}

/// Returns the maps to evict from `node` to make room for `demand` of the job `claimant`, as
/// positions in `jobs`. Returns `None` if evicting all of them is not enough. `jobs` has the job of each
/// map on the node.
///
/// Maps are taken in the order of how much they free of the resources that `demand` lacks, as
/// [`share_of`] computes it. A map without which the others are enough is left out. If one resource is
/// short, no smaller set is enough; if several are, a smaller set may exist.
fn fewest_to_evict(
    jobs: &[usize],
    claimant: usize,
    node: usize,
    demand: &Resources,
    state: &PlacementState<'_>,
) -> Option<Vec<usize>> {
    let left = state.planned.left(node)?;
    let lacking = demand.less(&left);
    let size = |at: usize| (state.size)(jobs[at]);
    let mut maps = evictable(jobs, Some(claimant), state);
    maps.sort_by(|&a, &b| {
        let by_share = share_of(&lacking, &size(b)).total_cmp(&share_of(&lacking, &size(a)));
        // Of maps that free the same share, the largest one: then the next task may fit, too.
        let amounts = |at: usize| (size(at).cpu_hundredths, size(at).io_bytes_per_s);
        by_share.then_with(|| amounts(b).cmp(&amounts(a)))
    });
    let mut freed = left;
    let last = maps.iter().position(|&at| {
        freed = freed.plus(&size(at));
        freed.fits(demand)
    })?;
    maps.truncate(last + 1);
    // The last map is necessary, because the maps before it were not enough.
    for at in (0..last).rev() {
        let others = maps.iter().enumerate().filter(|&(other, _)| other != at);
        let freed = others.fold(left, |left, (_, &map)| left.plus(&size(map)));
        if freed.fits(demand) {
            maps.remove(at);
        }
    }
    Some(maps)
}

/// Returns how much of the `lacking` resources a map of this `size` frees: the sum, over these
/// resources, of the freed part of the lacking amount, at most 1 for each resource.
fn share_of(lacking: &Resources, size: &Resources) -> f64 {
    let part = |lacking: u64, freed: u64| match lacking {
        0 => 0.0,
        lacking => freed.min(lacking) as f64 / lacking as f64,
    };
    part(lacking.cpu_hundredths.into(), size.cpu_hundredths.into())
        + part(lacking.io_bytes_per_s, size.io_bytes_per_s)
        + part(lacking.memory_bytes, size.memory_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rng::test_rng;
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;

    /// Both sides of the comparison choose the maps of a node by [`fewest_to_evict`], so the test
    /// checks the choice of the node only. The free resources are small and the demands large, so that
    /// most demands fit only after evictions.
    #[test]
    fn a_search_evicts_no_more_maps_than_a_walk_over_all_nodes() {
        let mut rng = test_rng(41);
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
                let claimant = rng.random_range(0..sizes.len());
                let demand = draw(&mut rng, 60);
                let before = counts.clone();
                let state = PlacementState {
                    planned: &planned,
                    size: &|job| sizes[job],
                    spare: &|job| before[job].saturating_sub(1),
                };
                let fewest = (0..nodes)
                    .filter_map(|node| {
                        fewest_to_evict(&kept.on[node], claimant, node, &demand, &state)
                    })
                    .map(|maps| maps.len())
                    .min();
                let taken = kept.take_fewest(claimant, &demand, &state);
                assert_eq!(taken.as_ref().map(|(_, jobs)| jobs.len()), fewest);
                let Some((node, jobs)) = taken else { continue };
                found += 1;
                for job in jobs {
                    assert_ne!(job, claimant);
                    counts[job] -= 1;
                    assert!(counts[job] > 0, "no job loses its last map");
                    planned.give(node, &sizes[job]);
                }
                assert!(planned.fits(node, &demand));
                planned.take(node, &demand);
                let state = PlacementState {
                    planned: &planned,
                    size: &|job| sizes[job],
                    spare: &|job| counts[job].saturating_sub(1),
                };
                kept.correct_bounds(node, &state);
            }
        }
        // Of 4,000 searches. The bound is arbitrary.
        assert!(found > 500, "the cases are no test: {found}");
    }

    /// Regression: maps were taken by their CPU and I/O alone. Where memory was short, maps were evicted
    /// that freed hardly any.
    #[test]
    fn maps_that_free_what_is_short_are_evicted_and_no_unnecessary_ones() {
        let amounts = |(cpu_hundredths, io_bytes_per_s, memory_bytes)| Resources {
            cpu_hundredths,
            io_bytes_per_s,
            memory_bytes,
        };
        // The free resources, the demand, the evictable maps, and the positions of those to evict.
        type Amounts = (u32, u64, u64);
        type Case<'a> = (Amounts, Amounts, &'a [Amounts], Option<&'a [usize]>);
        let cases: [Case<'_>; 5] = [
            // Memory is short.
            (
                (5, 0, 0),
                (1, 0, 30),
                &[(20, 0, 1), (10, 0, 30)],
                Some(&[1]),
            ),
            // I/O is short: the second map is enough, and so are the two others together.
            (
                (5, 0, 0),
                (1, 9, 0),
                &[(9, 5, 0), (1, 9, 0), (8, 5, 0)],
                Some(&[1]),
            ),
            // CPU is short: the map with the most CPU goes, though each is enough.
            ((0, 0, 0), (1, 0, 0), &[(2, 9, 9), (3, 0, 0)], Some(&[1])),
            // CPU and memory are short. The first map frees most of both, but the others are enough.
            (
                (0, 0, 0),
                (10, 0, 10),
                &[(6, 0, 6), (10, 0, 0), (0, 0, 10)],
                Some(&[1, 2]),
            ),
            ((5, 0, 0), (1, 0, 32), &[(20, 0, 1), (10, 0, 30)], None),
        ];
        for (left, demand, sizes, expected) in cases {
            let planned = Room::new(vec![Some(amounts(left))], Resources::default());
            // The claimant is a job without maps on the node.
            let (jobs, claimant): (Vec<_>, _) = ((0..sizes.len()).collect(), sizes.len());
            let state = PlacementState {
                planned: &planned,
                size: &|job| amounts(sizes[job]),
                spare: &|_| 1,
            };
            let evicted = fewest_to_evict(&jobs, claimant, 0, &amounts(demand), &state);
            let evicted = evicted.map(|mut maps| {
                maps.sort_unstable();
                maps
            });
            assert_eq!(
                evicted.as_deref(),
                expected,
                "{demand:?} of {left:?} and {sizes:?}"
            );
        }
    }
}
