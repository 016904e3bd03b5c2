//! Points of a grid over the unit square, drawn by their numbers, and the count of those in
//! the quarter circle around the origin.

use wide::u32x8;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of points in a block: some milliseconds of work at a few ns each.
pub(super) const POINTS_PER_BLOCK: u64 = 1 << 20;

/// The number of points that the vectorised version draws at once.
const LANES: u32 = 8;

/// The base-2 logarithm of the number of grid cells along each side of the unit square. A point is
/// the middle of a cell. With 14, the squares of its coordinates, in half cells, add up to less
/// than 2^31, so they fit a u32. The error from the grid is less than the error of a billion random
/// points.
const CELLS_LOG2: u32 = 14;

/// The square of the radius of the circle, in half cells of the grid.
const RADIUS_SQUARED: u32 = 1 << (2 * (CELLS_LOG2 + 1));

/// Mixes the bits of a number by Wellons's `lowbias32`, which maps different numbers to different
/// ones.
fn mix(mut bits: u32) -> u32 {
    bits ^= bits >> 16;
    bits = bits.wrapping_mul(0x7feb_352d);
    bits ^= bits >> 15;
    bits = bits.wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

fn mix_lanes(mut bits: u32x8) -> u32x8 {
    bits ^= bits >> 16_u32;
    bits *= u32x8::splat(0x7feb_352d);
    bits ^= bits >> 15_u32;
    bits *= u32x8::splat(0x846c_a68b);
    bits ^ (bits >> 16_u32)
}

/// Returns two pseudo-random numbers, one for each coordinate, which depend on the seed and the
/// block. They are mixed into the numbers of the points, so that each block has different points.
fn salts(seed: u64, block: u64) -> [u32; 2] {
    let bits = xxh3_64_with_seed(&block.to_le_bytes(), seed);
    [bits as u32, (bits >> 32) as u32]
}

/// Counts the points inside the circle, one after the other. `black_box` keeps the compiler from
/// vectorising the loop, so that the function takes as long as on a machine without vector
/// instructions.
pub(super) fn inside_plain(seed: u64, block: u64) -> u64 {
    let salts = salts(seed, block);
    let mut inside = 0;
    for point in 0..POINTS_PER_BLOCK as u32 {
        let [x, y] = salts.map(|salt| {
            let cell = mix(mix(point).wrapping_add(salt)) >> (u32::BITS - CELLS_LOG2);
            2 * cell + 1
        });
        inside += u64::from(std::hint::black_box(x * x + y * y) < RADIUS_SQUARED);
    }
    inside
}

/// Counts the points inside the circle as [`inside_plain`] does, eight at once.
pub(super) fn inside_simd(seed: u64, block: u64) -> u64 {
    let salts = salts(seed, block).map(u32x8::splat);
    let (one, step) = (u32x8::splat(1), u32x8::splat(LANES));
    let mut points = u32x8::from([0, 1, 2, 3, 4, 5, 6, 7]);
    let mut inside = 0;
    for _ in 0..POINTS_PER_BLOCK as u32 / LANES {
        let mixed = mix_lanes(points);
        let [x, y] = salts.map(|salt| {
            let cells = mix_lanes(mixed + salt) >> (u32::BITS - CELLS_LOG2);
            cells + cells + one
        });
        let is_inside = (x * x + y * y).simd_lt(u32x8::splat(RADIUS_SQUARED));
        inside += u64::from(is_inside.to_bitmask().count_ones());
        points += step;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_at_once_are_the_same_points() {
        for (seed, block) in [(0, 0), (7, 1), (u64::MAX, 1 << 40)] {
            assert_eq!(inside_plain(seed, block), inside_simd(seed, block));
        }
    }

    #[test]
    fn blocks_and_seeds_draw_other_points() {
        let inside = inside_simd(1, 1);
        assert_ne!(inside_simd(1, 2), inside);
        assert_ne!(inside_simd(2, 1), inside);
    }
}
