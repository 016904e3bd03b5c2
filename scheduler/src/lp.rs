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

/// A variable of a programme; valid only for the [`LinearProgramme`] that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable(usize);

/// A linear programme to which variables and rows are added before it is minimised.
#[derive(Clone, Debug, Default)]
pub struct LinearProgramme {
    costs: Vec<f64>,
    equal: Rows,
    at_most: Rows,
}

/// Constraints (rows): each compares a sum of terms, `coefficient * variable`, with a bound. The
/// terms of all rows are stored one after another, because the solver's sparse matrix is built from
/// such a list.
#[derive(Clone, Debug, Default)]
struct Rows {
    /// Row of each term. `variables` and `coefficients` hold the term's other parts at the
    /// same position.
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

/// An optimum of a linear programme.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Value of the objective: the smaller one of the primal and the dual value, so that it remains
    /// a valid lower bound. The two agree to about eight digits, or to four if the solver could not
    /// do better.
    pub value: f64,
    values: Vec<f64>,
    multipliers: Vec<f64>,
}

impl Solution {
    /// Returns the dual solution: one number for each row of [`LinearProgramme::at_least`] and
    /// [`LinearProgramme::at_most`], in the order in which the rows were added. Each is at least 0 and as
    /// exact as the solver is. It is the amount by which the optimum rises (`at_least`) or falls
    /// (`at_most`) when the row's bound grows by one unit.
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

/// The reason why there is no [`Solution`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LpError {
    /// No values of the variables satisfy all constraints.
    #[error("the linear programme has no feasible solution")]
    Infeasible,
    /// The objective has no lower bound.
    #[error("the linear programme is unbounded")]
    Unbounded,
    /// The solver gave up, because costs, coefficients and bounds differ too much in magnitude, or
    /// one of them is not finite.
    #[error("the linear programme could not be solved: its numbers differ too much in size")]
    Numerical,
}

impl LinearProgramme {
    /// Adds a variable without a sign restriction; one unit of it costs `cost`.
    pub fn variable(&mut self, cost: f64) -> Variable {
        self.costs.push(cost);
        Variable(self.costs.len() - 1)
    }

    /// Adds the row: the sum of `terms` is at least `bound`. If a variable occurs in several
    /// terms, its coefficients are added; this holds for all kinds of rows.
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

    /// Returns the number of rows of all kinds.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.equal.bounds.len() + self.at_most.bounds.len()
    }

    /// Returns the smallest value of the objective and the values of the variables there.
    /// Solving the same programme again returns the same solution.
    ///
    /// # Errors
    /// When there is no optimum, or the solver does not find it.
    pub fn minimise(&self) -> Result<Solution, LpError> {
        let (variables, equal) = (self.costs.len(), self.equal.bounds.len());
        // The solver has one matrix: the rows with equality come first, and the others below them.
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
            // Callers solve many programmes at once, and one thread always adds in the same order.
            max_threads: 1,
            ..DefaultSettings::default()
        };
        // The solver is for quadratic programmes; a linear one has no quadratic part.
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
            // `AlmostSolved` is within the solver's reduced tolerances: 5e-5 for the value, 1e-4 for
            // the rows.
            SolverStatus::Solved | SolverStatus::AlmostSolved => Ok(Solution {
                value: (solver.solution.obj_val).min(solver.solution.obj_val_dual),
                values: solver.solution.x,
                // Rounding may leave a multiplier of 0 slightly negative.
                multipliers: (solver.solution.z[equal..].iter())
                    .map(|multiplier| multiplier.max(0.0))
                    .collect(),
            }),
            // `AlmostPrimalInfeasible` and `AlmostDualInfeasible` come with certificates of lower accuracy.
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
    fn unbounded_infeasible_and_non_finite_programmes_have_different_errors() {
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
