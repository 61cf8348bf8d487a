//! Products of many rows of activations with AMX, whose tiles multiply 16 rows by 64 columns by 16 outputs at once.
//!
//! A tile's products are whole numbers and its sums stay in it, so scales may not change on the way: each row of weights
//! and each row of activations becomes numbers of 16 bits with one scale (`x = scale * (256 * high + low)`, both parts
//! in eight bits), and a product is `256 * (256 * high * high + (high * low + low * high))`; what is left away, low
//! times low, is below a ten-thousandth of it. Sixteen bits with one scale for `n` numbers are off by at most
//! `sqrt(n) / 112,000` of their norm: finer than eight bits with a scale for each 32.
//!
//! Weights lie in memory as for everybody else ([`super::layout`]) and are unpacked for 32 outputs at a time
//! ([`weights`]); all rows of activations ([`activations`]) then meet them ([`tiles`]).
#![allow(unsafe_code, reason = "tiles have no safe form; threads write their own columns of the result")]

mod activations;
mod tiles;
mod weights;

use tiles::Sums;
pub(super) use tiles::configure;

use std::cell::RefCell;
use std::sync::OnceLock;

use super::kernel::takes_quantized;
use super::layout::GROUP;
use super::matrix::Matrix;
use super::pool::{Parts, for_each};
use crate::gguf::GgmlType;

/// Outputs that are unpacked at a time: two tiles.
const PANEL: usize = 32;
/// Rows of a tile of activations.
pub(super) const ROWS: usize = 16;
/// Columns of a tile.
const COLUMNS: usize = 64;
/// Steps of a panel's weights that all rows meet before the next ones: as much as stays in the nearest cache beside what
/// passes, on a processor whose two threads share it.
const NEAR: usize = 5;
/// Bytes of a tile.
const TILE: usize = 1024;
/// The largest size of a number in 16 bits: its upper half must still be one of eight bits after rounding.
const LARGEST: f32 = 32_512.0;

/// Tiles begin with a line of the cache.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct Tile(pub(super) [i8; TILE]);

pub(super) const ZERO: Tile = Tile([0; TILE]);

/// Rows of activations: their tiles, `[rows / 16][columns / 64][high, low]`, and each row's scale.
#[derive(Default)]
struct Activations {
    tiles: Vec<Tile>,
    scales: Vec<f32>,
}

thread_local! {
    /// The engine's thread prepares activations for every product; the room is made once.
    static ACTIVATIONS: RefCell<Activations> = const { RefCell::new(Activations { tiles: Vec::new(), scales: Vec::new() }) };
    /// Each thread unpacks weights, and keeps the sums of a panel with all rows.
    static PANELS: RefCell<(Vec<Tile>, Vec<Sums>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Whether this kind's products are made here, on a processor with AMX: each is compared with plain code once, before it
/// is used.
pub(super) fn takes(kind: GgmlType) -> bool {
    static CHECKED: [OnceLock<bool>; GgmlType::ALL.len()] = [const { OnceLock::new() }; GgmlType::ALL.len()];
    takes_quantized(kind) && *CHECKED[kind as usize].get_or_init(|| {
        let difference = difference(kind);
        if difference >= 1e-3 {
            tracing::warn!(
                kind = %kind, difference,
                "AMX disagrees with plain code on this processor and is not used; please report the processor's model"
            );
        }
        difference < 1e-3
    })
}

/// Norm of the difference from the products of the unpacked numbers over their norm, on a small matrix; 1 where that is
/// no number.
fn difference(kind: GgmlType) -> f64 {
    const COLUMNS: usize = 512;
    const COUNT: usize = ROWS + 1;
    const OUTPUTS: usize = PANEL + GROUP;
    let bytes = super::sample::blocks(kind, OUTPUTS * COLUMNS / kind.block_len(), 0x7e11_ace5);
    let (matrix, packed) = Matrix::pack(kind, &bytes, OUTPUTS, COLUMNS);
    let x: Vec<f32> = (0..COUNT * COLUMNS).map(|i| (i as f32 * 0.77).sin()).collect();
    let mut found = vec![f32::NAN; COUNT * OUTPUTS];
    multiply(&matrix, &packed, &x, &mut found);
    let (mut off, mut norm) = (0.0, 0.0);
    let mut weights = vec![0.0; COLUMNS];
    for output in 0..OUTPUTS {
        matrix.row(&packed, output, &mut weights);
        for (x, found) in x.chunks_exact(COLUMNS).zip(found[output..].iter().step_by(OUTPUTS)) {
            let right: f64 = weights.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            off += (f64::from(*found) - right).powi(2);
            norm += right * right;
        }
    }
    let difference = (off / norm).sqrt();
    if difference.is_finite() { difference } else { 1.0 }
}

/// `out[m][rows] = x[m][columns] * weights^T`, for kinds that take quantized activations. The processor has AMX.
pub(super) fn multiply(matrix: &Matrix, bytes: &[u8], x: &[f32], out: &mut [f32]) {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let steps = columns.div_ceil(COLUMNS);
    ACTIVATIONS.with_borrow_mut(|room| {
        activations::prepare(x, columns, room);
        let (tiles, scales) = (room.tiles.as_slice(), room.scales.as_slice());
        let parts = Parts::new(out);
        for_each(rows.div_ceil(PANEL), true, |panel| {
            PANELS.with_borrow_mut(|(weights, sums)| {
                weights.resize(weights.len().max(4 * steps), ZERO);
                let weights = &mut weights[..4 * steps];
                let first = panel * PANEL;
                let outputs = weights::unpack(matrix, bytes, first / GROUP, weights);
                let width = PANEL.min(rows - first);
                let _configured = tiles::configure();
                sums.resize_with(sums.len().max(tiles.len() / (2 * steps)), Sums::default);
                for from in (0..steps).step_by(NEAR) {
                    let to = steps.min(from + NEAR);
                    for (x, sums) in tiles.chunks_exact(2 * steps).zip(sums.iter_mut()) {
                        sums.add(&x[2 * from..2 * to], &weights[4 * from..4 * to], from == 0);
                    }
                }
                for (tile, (scales, sums)) in scales.chunks(ROWS).zip(sums.iter()).enumerate() {
                    let place = (tile * ROWS * rows + first, rows, width);
                    // SAFETY: this panel's columns are this thread's alone.
                    unsafe { sums.rows(scales, &outputs, &parts, place) };
                }
            });
        });
    });
}
