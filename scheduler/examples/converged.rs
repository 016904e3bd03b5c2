//! Prints `tests/results/converged-100-jobs.csv`: the optimum of the whole relaxation of
//! equation (4), for ten instances of 100 random jobs.

use ebb_scheduler::lp::LpError;
use ebb_scheduler::msjo::{Objective, RandomJobs, Relaxation};

/// The relative gap between the lower and the upper bound at which the solver of an
/// instance stops.
const EPS: f64 = 1e-3;

fn main() -> Result<(), LpError> {
    println!("# RandomJobs::most_random(100), weighted completion times of jobs: the whole");
    println!("# relaxation lies between bound and no_violation, which differ by at most 0.1%.");
    println!("# cargo run --release -p ebb-scheduler --features lp --example converged \\");
    println!("#   > scheduler/tests/results/converged-100-jobs.csv");
    println!("seed,bound,no_violation");
    for seed in 1..=10 {
        let instance = RandomJobs::most_random(100).draw(seed);
        let bound = Relaxation::msjo(&instance, Objective::Jobs).converged(EPS)?;
        println!("{seed},{:.1},{:.1}", bound.value, bound.no_violation_value);
    }
    Ok(())
}
