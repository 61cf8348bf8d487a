//! Activations in 16 bits, in tiles.

use std::arch::x86_64::*;

use super::{Activations, COLUMNS, LARGEST, ROWS, ZERO};
use crate::kernels::pool::{Parts, for_each};

/// Fills `room` with the rows of `x`, and what is missing to whole tiles with zeros. A row with something in it that is
/// not finite gets a scale that is no number, so it shows in the result.
pub(super) fn prepare(x: &[f32], columns: usize, room: &mut Activations) {
    let (count, steps) = (x.len() / columns, columns.div_ceil(COLUMNS));
    let tiles = count.div_ceil(ROWS);
    room.tiles.resize(room.tiles.len().max(tiles * steps * 2), ZERO);
    room.tiles.truncate(tiles * steps * 2);
    room.scales.resize(count, 0.0);
    let (to, scales) = (Parts::new(&mut room.tiles), Parts::new(&mut room.scales));
    for_each(tiles, count > ROWS, |tile| {
        // SAFETY: each tile's rows are taken by one index.
        let to = unsafe { to.part(tile * steps * 2, steps * 2) };
        for row in 0..ROWS {
            let at = tile * ROWS + row;
            if at < count {
                let scale = unsafe { &mut scales.part(at, 1)[0] };
                // SAFETY: a processor with AMX has AVX-512.
                *scale = unsafe { place(&x[at * columns..(at + 1) * columns], row, to) };
            } else {
                to.iter_mut().for_each(|tile| tile.0[row * COLUMNS..(row + 1) * COLUMNS].fill(0));
            }
        }
    });
}

/// One row to its place in its tiles; returns its scale.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn place(x: &[f32], row: usize, to: &mut [super::Tile]) -> f32 {
    // Sizes compare as their bits do, and what is not finite is larger than all that is.
    let largest = x.iter().fold(0, |m: u32, x| m.max(x.to_bits() & 0x7fff_ffff));
    let max = f32::from_bits(largest);
    let (scale, inverse) = match (max.is_finite(), max > 1e-33) {
        (true, true) => (max / LARGEST, LARGEST / max),
        (true, false) => (0.0, 0.0),
        (false, _) => (f32::NAN, 0.0),
    };
    for (x, to) in x.chunks(COLUMNS).zip(to.chunks_exact_mut(2)) {
        let (high, low) = to.split_at_mut(1);
        let (high, low) = (&mut high[0].0[row * COLUMNS..], &mut low[0].0[row * COLUMNS..]);
        let mut padded = [0.0; COLUMNS];
        let x: &[f32] = if x.len() == COLUMNS {
            x
        } else {
            padded[..x.len()].copy_from_slice(x);
            &padded
        };
        for part in 0..COLUMNS / 16 {
            // SAFETY: 16 numbers each of 64.
            unsafe {
                let whole = _mm512_cvtps_epi32(_mm512_mul_ps(
                    _mm512_loadu_ps(x.as_ptr().add(16 * part)),
                    _mm512_set1_ps(inverse),
                ));
                let upper = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
                _mm_storeu_si128(high.as_mut_ptr().add(16 * part).cast(), _mm512_cvtepi32_epi8(upper));
                _mm_storeu_si128(low.as_mut_ptr().add(16 * part).cast(), _mm512_cvtepi32_epi8(whole));
            }
        }
    }
    scale
}
