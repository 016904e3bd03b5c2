//! Monte Carlo: pi from random points. The job reads almost nothing and only computes, one point at
//! a time or with the machine's vector instructions. So it serves as the application with an
//! accelerated version for the hardware-affinity policy.

mod points;

use std::sync::Arc;

use ebb_scheduler::runtime::{
    Emit, Input, JobSpec, Mapper, Output, RecordSink, Split, TaskError, Values,
};
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::records::{Column, RecordFormat};
use points::{POINTS_PER_BLOCK, inside_plain, inside_simd};

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run pi --output -
  ebb run pi --points 100000000000 --variant simd --output pi.tsv --goal 60s";

/// Estimate pi from random points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PiRequest {
    /// Number of points, rounded up to blocks of 2^20.
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "N", default_value_t = 1_000_000_000)
    )]
    pub points: u64,
    /// Seed of the points.
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    pub seed: u64,
    /// Implementation that draws the points: plain (one after the other) or simd (eight at once).
    /// Both draw the same points.
    #[cfg_attr(
        feature = "args",
        arg(long, value_name = "VARIANT", default_value = "plain")
    )]
    pub variant: Variant,
}

impl Application for PiRequest {
    const NAME: &'static str = "pi";
    const INPUTS: usize = 0;

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let output = materials.destination.output(Arc::new(rows()))?;
        let (points, tasks) = (self.points, materials.splits);
        Ok(spec(Self::NAME, output, points, tasks, self.seed, self.variant).into())
    }
}

/// Returns the format of the rows that the job writes.
pub fn rows() -> RecordFormat {
    RecordFormat::rows(vec![Column::text("measure")], vec![Column::number("value")])
}

/// The implementation that draws the points. All implementations draw the same points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Draws one point after the other.
    Plain,
    /// Draws eight points at once.
    Simd,
}

/// Returns a job that draws at least `points` points, from `seed`, in `tasks` map tasks (at least
/// one). The rows of the result: `inside`, the number of points in the quarter circle; `pi`, four
/// times the fraction of points that are inside; `points`, the number of points.
pub fn spec(
    name: impl Into<String>,
    output: Arc<dyn Output>,
    points: u64,
    tasks: u32,
    seed: u64,
    variant: Variant,
) -> JobSpec {
    let input = Arc::new(Blocks {
        blocks: points.div_ceil(POINTS_PER_BLOCK),
        tasks: tasks.max(1),
    });
    JobSpec::new(name, input, Arc::new(point_mapper(seed, variant)), output)
        .reducer(Arc::new(emit_result), 1)
        .combiner(Arc::new(add))
}

/// An input with one record per block of points: the key is the number of the block, a u64 LE.
/// Drawing the points of a block takes some milliseconds.
struct Blocks {
    blocks: u64,
    tasks: u32,
}

impl Input for Blocks {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let border = |part: u32| {
            (u128::from(self.blocks) * u128::from(part) / u128::from(self.tasks)) as u64
        };
        let split = |index| {
            let (from, to) = (border(index), border(index + 1));
            Split {
                index,
                bytes: (to - from) * 8,
                payload: [from.to_le_bytes(), to.to_le_bytes()].concat(),
                ..Split::default()
            }
        };
        Ok((0..self.tasks).map(split).collect())
    }

    fn read(&self, split: &Split, record: RecordSink<'_>) -> Result<(), TaskError> {
        let number = |at: usize| {
            u64::from_le_bytes(split.payload[at..at + 8].try_into().expect("eight bytes"))
        };
        (number(0)..number(8)).try_for_each(|block| record(&block.to_le_bytes(), b""))
    }
}

fn point_mapper(seed: u64, variant: Variant) -> impl Mapper {
    move |key: &[u8], _value: &[u8], emit: &mut dyn Emit| {
        let block = <[u8; 8]>::try_from(key).map_err(TaskError::failed)?;
        let block = u64::from_le_bytes(block);
        let inside = match variant {
            Variant::Plain => inside_plain(seed, block),
            Variant::Simd => inside_simd(seed, block),
        };
        emit.emit(b"", &encode([inside, POINTS_PER_BLOCK]))
    }
}

fn encode(sums: [u64; 2]) -> Vec<u8> {
    sums.map(u64::to_le_bytes).concat()
}

/// Returns two sums: of the points inside the quarter circle, and of all points drawn.
fn add_up(values: &mut Values<'_>) -> Result<[u64; 2], TaskError> {
    let mut sums = [0; 2];
    while let Some(value) = values.next_value()? {
        let (numbers, rest) = value.as_chunks();
        if numbers.len() != 2 || !rest.is_empty() {
            return Err(TaskError::failed("a sum is cut short"));
        }
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum += u64::from_le_bytes(*number);
        }
    }
    Ok(sums)
}

fn add(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    emit.emit(key, &encode(add_up(values)?))
}

fn emit_result(_key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let [inside, points] = add_up(values)?;
    let pi = 4.0 * inside as f64 / points as f64;
    emit.emit(b"inside", inside.to_string().as_bytes())?;
    emit.emit(b"pi", pi.to_string().as_bytes())?;
    emit.emit(b"points", points.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    fn pi(points: u64, tasks: u32, variant: Variant) -> Vec<(String, String)> {
        let nothing: [&str; 0] = [];
        run(&nothing, 1, |_, output| {
            spec("pi", output, points, tasks, 5, variant)
        })
    }

    #[test]
    fn pi_is_near_and_does_not_depend_on_tasks_or_the_variant() {
        let points = 20 * POINTS_PER_BLOCK;
        let rows = pi(points, 1, Variant::Plain);
        assert_eq!(rows[2], ("points".to_string(), points.to_string()));
        let found: f64 = rows[1].1.parse().unwrap();
        // Five standard deviations of the mean of `points` points.
        let deviation = (std::f64::consts::PI * (4.0 - std::f64::consts::PI)).sqrt();
        let bound = 5.0 * deviation / (points as f64).sqrt();
        assert!((found - std::f64::consts::PI).abs() < bound, "{found}");
        assert_eq!(pi(points - 3, 7, Variant::Simd), rows);
        assert_eq!(pi(points, 40, Variant::Plain), rows);
    }
}
