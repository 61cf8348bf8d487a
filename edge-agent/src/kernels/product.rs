//! The products, once for all processors: groups of eight interleaved rows times rows of activations.
#![allow(unsafe_code, reason = "vector instructions and pointers, whose bounds `Kernel` checks before it comes here")]

use super::activation::{BLOCK, Quantized};
use super::layout::{GROUP, bits, header, high, run};
use super::vector::Vector;
use crate::gguf::GgmlType;

/// A kind of weights, known when the code is compiled.
pub(super) trait Kind {
    const KIND: GgmlType;
}

macro_rules! kinds {
    ($($name:ident)*) => {
        /// One type for each kind.
        #[allow(non_camel_case_types, reason = "the names are GGML's own")]
        pub(super) mod kinds {
            use super::{GgmlType, Kind};
            $(pub(crate) struct $name;
            impl Kind for $name {
                const KIND: GgmlType = GgmlType::$name;
            })*
        }
    };
}
kinds!(F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K);

/// 32 columns of a group, unpacked: what every row of activations meets.
struct Run<V: Vector> {
    /// Of the first 16 columns, and of the last 16 where they differ (Q6_K).
    scales: [V::Floats; 2],
    /// What is added for each unit of an activation, of the last 16 columns; and what the first 16 have more.
    mins: [V::Floats; 2],
    /// Four columns each.
    quants: [V::Bytes; 8],
}

/// What stands in front of a group's runs. Kinds without one leave what they do not use zero.
pub(super) struct Header<V: Vector> {
    scales: V::Floats,
    mins: V::Floats,
    /// Six- or eight-bit scales of K-quants: 4 of 8 runs' scales, of the other 4, and their minimums; or Q6_K's.
    small: [V::Bytes; 4],
}

/// Whether a kind adds something beside its scale times its number.
pub(super) const fn has_mins<V: Vector>(kind: GgmlType) -> bool {
    !matches!(kind, GgmlType::Q8_0) || !V::SIGNED
}

#[inline(always)]
pub(super) unsafe fn read_header<V: Vector, K: Kind>(at: *const u8, stride: usize) -> Header<V> {
    // SAFETY: the caller's promise covers the header.
    unsafe {
        let scales = V::halves(at, stride);
        let vector = |index: usize, from: usize| V::bytes(at.wrapping_add(from + 32 * index), stride);
        let mut header = Header { scales, mins: V::zero(), small: [V::bytes(at, stride); 4] };
        match K::KIND {
            GgmlType::Q4_0 => header.mins = V::multiply(scales, V::splat(-8.0)),
            GgmlType::Q5_0 => header.mins = V::multiply(scales, V::splat(-16.0)),
            GgmlType::Q8_0 => header.mins = V::multiply(scales, V::splat(-128.0)),
            GgmlType::Q4_1 | GgmlType::Q5_1 => header.mins = V::halves(at.add(16), stride),
            GgmlType::Q4_K | GgmlType::Q5_K => {
                header.mins = V::subtract(V::zero(), V::halves(at.add(16), stride));
                let (first, second, third) = (vector(0, 32), vector(1, 32), vector(2, 32));
                header.small = [
                    V::and(first, 63),
                    V::or(V::and(third, 15), V::and(V::right(first, 2), 0x30)),
                    V::and(second, 63),
                    V::or(V::and(V::right(third, 4), 15), V::and(V::right(second, 2), 0x30)),
                ];
            }
            GgmlType::Q6_K => header.small = [vector(0, 16), vector(1, 16), vector(2, 16), vector(3, 16)],
            GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => {}
        }
        header
    }
}

#[inline(always)]
unsafe fn read_run<V: Vector, K: Kind>(header: &Header<V>, index: usize, at: *const u8, stride: usize) -> Run<V> {
    // SAFETY: the caller's promise covers the run.
    unsafe {
        let (scales, mins) = run_scales::<V, K>(header, index);
        Run { scales, mins, quants: read_quants::<V, K>(at, stride) }
    }
}

/// Scales and minimums of a block's `index`-th run, as in [`Run`].
#[inline(always)]
pub(super) unsafe fn run_scales<V: Vector, K: Kind>(
    header: &Header<V>,
    index: usize,
) -> ([V::Floats; 2], [V::Floats; 2]) {
    // SAFETY: numbers in registers.
    unsafe {
        let (mut scales, mut mins) = ([header.scales; 2], [header.mins; 2]);
        match K::KIND {
            GgmlType::Q4_K | GgmlType::Q5_K => {
                let byte = (index % 4) as i32;
                scales = [V::multiply(header.scales, V::unsigned(header.small[index / 4], byte)); 2];
                mins[0] = V::multiply(header.mins, V::unsigned(header.small[2 + index / 4], byte));
            }
            GgmlType::Q6_K => {
                let (small, byte) = (header.small[index / 2], (index % 2 * 2) as i32);
                scales = [
                    V::multiply(header.scales, V::signed(small, byte)),
                    V::multiply(header.scales, V::signed(small, byte + 1)),
                ];
                let offset = V::splat(-32.0);
                mins = [V::multiply(scales[1], offset), V::multiply(V::subtract(scales[0], scales[1]), offset)];
            }
            _ => {}
        }
        (scales, mins)
    }
}

#[inline(always)]
pub(super) unsafe fn read_quants<V: Vector, K: Kind>(at: *const u8, stride: usize) -> [V::Bytes; 8] {
    // SAFETY: the caller's promise covers the run.
    unsafe {
        let vector = |index: usize| V::bytes(at.add(32 * index), stride);
        let skip = high(K::KIND) / 32;
        let mut q = [vector(0); 8];
        if bits(K::KIND) == 8 {
            for (i, q) in q.iter_mut().enumerate() {
                *q = if V::SIGNED { vector(i) } else { V::turn(vector(i)) };
            }
            return q;
        }
        for i in 0..4 {
            let raw = vector(skip + i);
            (q[i], q[i + 4]) = (V::and(raw, 15), V::and(V::right(raw, 4), 15));
        }
        match bits(K::KIND) {
            5 => {
                let high = vector(0);
                for (i, q) in q.iter_mut().enumerate() {
                    let to_fifth = 4 - i as i32;
                    let bit = match to_fifth {
                        1.. => V::left(V::and(high, 1 << i), to_fifth),
                        _ => V::and(V::right(high, -to_fifth), 16),
                    };
                    *q = V::or(*q, bit);
                }
            }
            6 => {
                for (half, q) in q.chunks_exact_mut(4).enumerate() {
                    let high = vector(half);
                    q[0] = V::or(q[0], V::left(V::and(high, 3), 4));
                    q[1] = V::or(q[1], V::left(V::and(high, 12), 2));
                    q[2] = V::or(q[2], V::and(high, 0x30));
                    q[3] = V::or(q[3], V::and(V::right(high, 2), 0x30));
                }
            }
            _ => {}
        }
        q
    }
}

/// `sum` and what one run adds to it for one row of activations.
#[inline(always)]
unsafe fn add_run<V: Vector, K: Kind>(run: &Run<V>, x: &Quantized, sum: V::Floats) -> V::Floats {
    // SAFETY: 32 activations stand in `x`.
    unsafe {
        let q = x.q.as_ptr();
        let scale = V::splat(x.scale);
        let mut sum = sum;
        if matches!(K::KIND, GgmlType::Q6_K) {
            let [a, b, c, d, e, f, g, h] = run.quants;
            let first = V::dot(&[a, b, c, d], q, bits(K::KIND));
            let last = V::dot(&[e, f, g, h], q.add(16), bits(K::KIND));
            let scaled = V::multiply_add(last, run.scales[1], V::multiply(first, run.scales[0]));
            sum = V::multiply_add(scaled, scale, sum);
            sum = V::multiply_add(run.mins[1], V::splat(x.half), sum);
        } else {
            let dot = V::dot(&run.quants, q, bits(K::KIND));
            sum = V::multiply_add(dot, V::multiply(run.scales[0], scale), sum);
        }
        if has_mins::<V>(K::KIND) {
            sum = V::multiply_add(run.mins[0], V::splat(x.sum), sum);
        }
        sum
    }
}

/// `V::GROUPS` groups times `count` rows of `blocks` blocks of activations; `out` gets `GROUP * V::GROUPS` sums a row.
///
/// # Safety
/// See [`Vector`]; `weights` has the groups' blocks, `x` has `count * blocks` blocks, `out` room for the sums.
#[inline(always)]
pub(super) unsafe fn quantized<V: Vector, K: Kind>(
    weights: *const u8,
    stride: usize,
    x: *const Quantized,
    blocks: usize,
    count: usize,
    out: *mut f32,
) {
    // SAFETY: the caller's promise; the loops stay within it.
    unsafe {
        // One row's sums stay in a register; those of several wait in memory that is always near.
        if count == 1 {
            return V::store(out, each_run::<V, K, true>(weights, stride, x, blocks, 1, out));
        }
        for t in 0..count {
            V::store(out.add(t * GROUP * V::GROUPS), V::zero());
        }
        each_run::<V, K, false>(weights, stride, x, blocks, count, out);
    }
}

#[inline(always)]
unsafe fn each_run<V: Vector, K: Kind, const ONE: bool>(
    weights: *const u8,
    stride: usize,
    x: *const Quantized,
    blocks: usize,
    count: usize,
    out: *mut f32,
) -> V::Floats {
    let runs = K::KIND.block_len() / BLOCK;
    let size = K::KIND.block_bytes() * GROUP;
    // SAFETY: the caller's promise; the loops stay within it. Prefetches may point past the end.
    unsafe {
        let mut sum = V::zero();
        for block in 0..blocks / runs {
            let at = weights.add(block * size);
            let front = read_header::<V, K>(at, stride);
            for index in 0..runs {
                let at = at.add(header(K::KIND) + index * run(K::KIND));
                // Rows that pass later find the weights near.
                for line in (0..size / runs).step_by(64) {
                    let ahead = if ONE { AHEAD } else { FAR_AHEAD };
                    V::prefetch(at.wrapping_add(ahead + line), stride);
                }
                let run = read_run::<V, K>(&front, index, at, stride);
                let x = x.add(block * runs + index);
                if ONE {
                    sum = add_run::<V, K>(&run, &*x, sum);
                    continue;
                }
                for t in 0..count {
                    let out = out.add(t * GROUP * V::GROUPS);
                    V::store(out, add_run::<V, K>(&run, &*x.add(t * blocks), V::load(out)));
                }
            }
        }
        sum
    }
}

/// Bytes of weights that are read ahead: one row of activations is as fast as memory.
const AHEAD: usize = 2048;
/// The same for several rows, which leave the memory more time than the processor's own reading ahead uses.
const FAR_AHEAD: usize = 6144;

/// Likewise with the file's numbers and activations as they are: `x` has `count` rows of `columns` numbers.
///
/// # Safety
/// As for [`quantized`].
#[inline(always)]
pub(super) unsafe fn plain<V: Vector, K: Kind>(
    weights: *const u8,
    stride: usize,
    x: *const f32,
    columns: usize,
    count: usize,
    out: *mut f32,
) {
    // SAFETY: the caller's promise; each call below takes the next rows of it.
    unsafe {
        let mut row = 0;
        while row < count {
            let (x, out) = (x.add(row * columns), out.add(row * GROUP * V::GROUPS));
            row += match count - row {
                4.. => plain_rows::<V, K, 4>(weights, stride, x, columns, out),
                2.. => plain_rows::<V, K, 2>(weights, stride, x, columns, out),
                _ => plain_rows::<V, K, 1>(weights, stride, x, columns, out),
            };
        }
    }
}

/// `T` rows. Columns are added up in two sums whatever `T` is, so that a row's numbers do not depend on what else is in
/// the batch, and a single row does not wait for each addition.
#[inline(always)]
unsafe fn plain_rows<V: Vector, K: Kind, const T: usize>(
    weights: *const u8,
    stride: usize,
    x: *const f32,
    columns: usize,
    out: *mut f32,
) -> usize {
    const U: usize = 2;
    let size = K::KIND.block_bytes() * GROUP;
    // SAFETY: the caller's promise; the loops stay within it.
    unsafe {
        let read = |column: usize| {
            let at = weights.add(column * size);
            match K::KIND {
                GgmlType::F16 => V::halves(at, stride),
                GgmlType::BF16 => V::brains(at, stride),
                _ => V::singles(at, stride),
            }
        };
        let mut sums = [[V::zero(); T]; U];
        let whole = columns / U * U;
        for column in (0..whole).step_by(U) {
            if T == 1 {
                V::prefetch(weights.wrapping_add(column * size + AHEAD), stride);
            }
            for (u, sums) in sums.iter_mut().enumerate() {
                let w = read(column + u);
                for (t, sum) in sums.iter_mut().enumerate() {
                    *sum = V::multiply_add(w, V::splat(*x.add(t * columns + column + u)), *sum);
                }
            }
        }
        for column in whole..columns {
            let w = read(column);
            for (t, sum) in sums[0].iter_mut().enumerate() {
                *sum = V::multiply_add(w, V::splat(*x.add(t * columns + column)), *sum);
            }
        }
        for t in 0..T {
            let mut sum = sums[0][t];
            for more in &sums[1..] {
                sum = V::add(sum, more[t]);
            }
            V::store(out.add(t * GROUP * V::GROUPS), sum);
        }
    }
    T
}
