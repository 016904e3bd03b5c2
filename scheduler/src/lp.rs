//! Linear programmes: minimise a sum of costs under linear rows.
//!
//! A thin layer over clarabel, an interior-point solver. Rows are sparse, variables have
//! no bounds of their own: a bound is a row with one term.
//!
//! ```
//! use ebb_scheduler::lp::LinearProgramme;
//!
//! // Least x + 2y with x + y >= 4, x <= 3, y >= 0.
//! let mut lp = LinearProgramme::default();
//! let (x, y) = (lp.variable(1.0), lp.variable(2.0));
//! lp.at_least([(x, 1.0), (y, 1.0)], 4.0);
//! lp.at_most([(x, 1.0)], 3.0);
//! lp.at_least([(y, 1.0)], 0.0);
//! let solution = lp.minimise()?;
//! assert!((solution.value - 5.0).abs() < 1e-6);
//! assert!((solution[x] - 3.0).abs() < 1e-6);
//! # Ok::<(), ebb_scheduler::lp::LpError>(())
//! ```

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, ZeroConeT,
};
use std::ops::Index;
use thiserror::Error;

/// A variable of the programme that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable(usize);

/// A programme that is being built.
#[derive(Clone, Debug, Default)]
pub struct LinearProgramme {
    costs: Vec<f64>,
    equal: Rows,
    at_most: Rows,
}

/// Rows of `sum of coefficient * variable`, and what each is compared with.
#[derive(Clone, Debug, Default)]
struct Rows {
    /// Of every term: row, variable, coefficient.
    rows: Vec<usize>,
    variables: Vec<usize>,
    coefficients: Vec<f64>,
    bounds: Vec<f64>,
}

impl Rows {
    fn push(&mut self, terms: impl IntoIterator<Item = (Variable, f64)>, sign: f64, bound: f64) {
        let row = self.bounds.len();
        for (variable, coefficient) in terms {
            self.rows.push(row);
            self.variables.push(variable.0);
            self.coefficients.push(sign * coefficient);
        }
        self.bounds.push(sign * bound);
    }
}

/// An optimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The value of the objective. Of the primal and the dual one, which agree to about
    /// eight digits, the smaller: what is bounded below by it stays so.
    pub value: f64,
    values: Vec<f64>,
    multipliers: Vec<f64>,
}

impl Solution {
    /// The dual solution: a number for each row of [`LinearProgramme::at_least`] and
    /// [`LinearProgramme::at_most`], in the order they were added, 0 or more and as exact as
    /// the solver is. By so much the value rises (at least) or falls (at most) with one more
    /// unit of the row's bound.
    #[must_use]
    pub fn multipliers(&self) -> &[f64] {
        &self.multipliers
    }
}

impl Index<Variable> for Solution {
    type Output = f64;

    fn index(&self, variable: Variable) -> &f64 {
        &self.values[variable.0]
    }
}

/// There is no optimum, or it was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LpError {
    /// No values satisfy all rows.
    #[error("the linear programme has no feasible solution")]
    Infeasible,
    /// The objective has no lower bound.
    #[error("the linear programme is unbounded")]
    Unbounded,
    /// The solver gave up: rows of very different size, or numbers that are not finite.
    #[error("the linear programme could not be solved: its numbers differ too much in size")]
    Numerical,
}

impl LinearProgramme {
    /// A new variable, free in sign, that costs `cost` a unit.
    pub fn variable(&mut self, cost: f64) -> Variable {
        self.costs.push(cost);
        Variable(self.costs.len() - 1)
    }

    /// Adds the row: the sum of `terms` is at least `bound`. A variable that stands in
    /// several terms counts with their sum, as in the other rows.
    pub fn at_least(&mut self, terms: impl IntoIterator<Item = (Variable, f64)>, bound: f64) {
        self.at_most.push(terms, -1.0, bound);
    }

    /// Adds the row: the sum of `terms` is at most `bound`.
    pub fn at_most(&mut self, terms: impl IntoIterator<Item = (Variable, f64)>, bound: f64) {
        self.at_most.push(terms, 1.0, bound);
    }

    /// Adds the row: the sum of `terms` is `bound`.
    pub fn equal(&mut self, terms: impl IntoIterator<Item = (Variable, f64)>, bound: f64) {
        self.equal.push(terms, 1.0, bound);
    }

    /// How many rows there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.equal.bounds.len() + self.at_most.bounds.len()
    }

    /// The least value of the objective, and where it is taken. The same programme gives
    /// the same solution.
    ///
    /// # Errors
    /// When there is no optimum, or the solver does not find it.
    pub fn minimise(&self) -> Result<Solution, LpError> {
        let (variables, equal) = (self.costs.len(), self.equal.bounds.len());
        let below = self.at_most.rows.iter().map(|row| row + equal);
        let rows = self.equal.rows.iter().copied().chain(below).collect();
        let both = |of: fn(&Rows) -> &Vec<f64>| [&of(&self.equal)[..], of(&self.at_most)].concat();
        let columns = [&self.equal.variables[..], &self.at_most.variables].concat();
        let coefficients = both(|rows| &rows.coefficients);
        let bounds = both(|rows| &rows.bounds);
        if !(self.costs.iter().chain(&coefficients).chain(&bounds)).all(|number| number.is_finite())
        {
            return Err(LpError::Numerical);
        }
        let matrix =
            CscMatrix::new_from_triplets(self.rows(), variables, rows, columns, coefficients);
        let cones = [
            ZeroConeT(equal),
            NonnegativeConeT(self.at_most.bounds.len()),
        ];
        let settings = DefaultSettings {
            verbose: false,
            max_threads: 1,
            ..DefaultSettings::default()
        };
        let quadratic = CscMatrix::zeros((variables, variables));
        let solver = DefaultSolver::new(
            &quadratic,
            &self.costs,
            &matrix,
            &bounds,
            &cones[..],
            settings,
        );
        let mut solver = solver.map_err(|_| LpError::Numerical)?;
        solver.solve();
        match solver.solution.status {
            SolverStatus::Solved | SolverStatus::AlmostSolved => Ok(Solution {
                value: (solver.solution.obj_val).min(solver.solution.obj_val_dual),
                values: solver.solution.x,
                multipliers: (solver.solution.z[equal..].iter())
                    .map(|multiplier| multiplier.max(0.0))
                    .collect(),
            }),
            SolverStatus::PrimalInfeasible | SolverStatus::AlmostPrimalInfeasible => {
                Err(LpError::Infeasible)
            }
            SolverStatus::DualInfeasible | SolverStatus::AlmostDualInfeasible => {
                Err(LpError::Unbounded)
            }
            _ => Err(LpError::Numerical),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_and_repeated_terms_count() {
        let mut lp = LinearProgramme::default();
        let (x, y) = (lp.variable(3.0), lp.variable(1.0));
        lp.equal([(x, 1.0), (y, 1.0), (x, 1.0)], 10.0);
        lp.at_most([(y, 1.0)], 4.0);
        lp.at_least([(y, 1.0)], 1.0);
        assert_eq!(lp.rows(), 3);
        let solution = lp.minimise().unwrap();
        // 2x + y = 10 with y <= 4: x = 3, y = 4.
        assert!((solution[x] - 3.0).abs() < 1e-6 && (solution[y] - 4.0).abs() < 1e-6);
        assert!((solution.value - 13.0).abs() < 1e-6);
        // A unit more of y saves 3/2 and costs 1; y >= 1 does not bind.
        let multipliers = solution.multipliers();
        assert_eq!(multipliers.len(), 2);
        assert!((multipliers[0] - 0.5).abs() < 1e-6 && multipliers[1].abs() < 1e-6);
    }

    #[test]
    fn what_has_no_optimum_is_told_apart() {
        let mut lp = LinearProgramme::default();
        let x = lp.variable(1.0);
        lp.at_most([(x, 1.0)], 3.0);
        assert_eq!(lp.minimise(), Err(LpError::Unbounded));
        lp.at_least([(x, 1.0)], 4.0);
        assert_eq!(lp.minimise(), Err(LpError::Infeasible));
        lp.at_least([(x, f64::NAN)], 4.0);
        assert_eq!(lp.minimise(), Err(LpError::Numerical));
    }
}
