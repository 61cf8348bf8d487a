//! What lies between the products, each in one pass.
#![allow(unsafe_code, reason = "launches without checks inside the kernel; what they touch is checked before")]
#![allow(missing_docs, reason = "CubeCL's macro makes items that cannot be documented")]

use cubecl::prelude::*;

use super::{Buffer, Rows};

/// Twice the root of 2/pi.
const SLOPE: f32 = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
/// Threads of a row's mean.
const THREADS: usize = 256;

/// Each row over its root mean square, times `gamma`.
pub(crate) fn rms_norm<R: Runtime>(client: &ComputeClient<R>, x: &Rows, gamma: &Buffer, epsilon: f32) -> Rows {
    assert!(x.whole() && gamma.len() == x.width, "activations of another width");
    let out = Rows::empty(client, x.count, x.width);
    if x.count == 0 {
        return out;
    }
    // SAFETY: `x` and `gamma` were checked, the result has as many rows of the same width.
    unsafe {
        normalise::launch_unchecked::<R>(
            client,
            CubeCount::Static(x.count as u32, 1, 1),
            CubeDim::new_1d(THREADS as u32),
            x.buffer.argument(),
            gamma.argument(),
            out.buffer.argument(),
            x.width,
            x.stride,
            epsilon,
        );
    }
    out
}

/// What a gate lets pass: its number times a sigmoid of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Gate {
    /// The sigmoid of the number.
    Silu,
    /// As [`crate::kernels::gated_gelu`].
    Gelu,
}

/// The gate of the first half of each row times the second.
pub(crate) fn gated<R: Runtime>(client: &ComputeClient<R>, x: &Rows, gate: Gate) -> Rows {
    assert!(x.whole() && x.width.is_multiple_of(2), "a gate and what passes are not of one width");
    let out = Rows::empty(client, x.count, x.width / 2);
    let len = out.count * out.width;
    if len == 0 {
        return out;
    }
    // SAFETY: `x` was checked; the kernel writes `len` numbers, which the result has.
    unsafe {
        pass::launch_unchecked::<R>(
            client,
            CubeCount::Static(out.width.div_ceil(THREADS) as u32, out.count as u32, 1),
            CubeDim::new_1d(THREADS as u32),
            x.buffer.argument(),
            out.buffer.argument(),
            out.width,
            x.stride,
            gate == Gate::Gelu,
        );
    }
    out
}

#[cube(launch_unchecked)]
fn normalise(x: &Array<f32>, gamma: &Array<f32>, out: &mut Array<f32>, width: usize, stride: usize, epsilon: f32) {
    let threads = comptime!(THREADS);
    let row = CUBE_POS_X as usize;
    let place = UNIT_POS_X as usize;
    let mut sum = 0.0f32;
    for i in range_stepped(place, width, threads) {
        let number = x[row * stride + i];
        sum = fma(number, number, sum);
    }
    let mut shared = SharedMemory::<f32>::new(threads);
    let total = add_up(&mut shared, place, sum, threads);
    let scale = 1.0f32 / (total / f32::cast_from(width) + epsilon).sqrt();
    for i in range_stepped(place, width, threads) {
        out[row * width + i] = x[row * stride + i] * scale * gamma[i];
    }
}

#[cube(launch_unchecked)]
fn pass(x: &Array<f32>, out: &mut Array<f32>, width: usize, stride: usize, #[comptime] gelu: bool) {
    let row = CUBE_POS_Y as usize;
    let column = ABSOLUTE_POS_X as usize;
    if column < width {
        let gate = x[row * stride + column];
        let up = x[row * stride + width + column];
        let mut u = gate;
        if comptime!(gelu) {
            u = f32::new(SLOPE) * gate * (1.0f32 + f32::new(0.044_715) * gate * gate);
        }
        // Of a number that is not above zero, so that it does not overflow.
        let e = (-u.abs()).exp();
        let mut numerator = e;
        if u >= 0.0f32 {
            numerator = 1.0f32;
        }
        out[row * width + column] = gate * (numerator / (1.0f32 + e)) * up;
    }
}

/// The sum over a cube's threads, a power of two of them, for each of them.
#[cube]
pub(super) fn add_up(shared: &mut SharedMemory<f32>, place: usize, number: f32, #[comptime] threads: usize) -> f32 {
    shared[place] = number;
    sync_cube();
    let mut half = comptime!(threads / 2).runtime();
    while half > 0 {
        if place < half {
            let other = shared[place + half];
            shared[place] += other;
        }
        sync_cube();
        half /= 2;
    }
    let total = shared[0];
    // Nobody writes the next before everybody has read this.
    sync_cube();
    total
}

/// The largest number of a cube's threads, likewise.
#[cube]
pub(super) fn largest(shared: &mut SharedMemory<f32>, place: usize, number: f32, #[comptime] threads: usize) -> f32 {
    shared[place] = number;
    sync_cube();
    let mut half = comptime!(threads / 2).runtime();
    while half > 0 {
        if place < half {
            shared[place] = max(shared[place], shared[place + half]);
        }
        sync_cube();
        half /= 2;
    }
    let most = shared[0];
    sync_cube();
    most
}
