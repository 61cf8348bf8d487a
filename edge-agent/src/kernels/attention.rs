//! Attention over a cache in 16 bits, in one pass from the projections: rotary positions, the write of keys and values,
//! scores, softmax, weighted sum. Each sequence of the batch attends to its own slot of the cache.
#![allow(unsafe_code, reason = "threads write their own heads; wider vectors are used only where they are")]

use half::f16;

use super::distribution::exp;
use super::pool::{Parts, for_each};
use crate::device::Cpu;

/// How a rotation pairs the numbers of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryStyle {
    /// Neighbours: files of the llama architecture keep queries and keys in this order.
    Interleaved,
    /// The i-th number of the first half with that of the second.
    Halves,
}

/// Shape of one layer's attention and of its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub width: usize,
    /// Positions of a slot of the cache.
    pub context: usize,
    /// How positions are written into queries and keys.
    pub style: RotaryStyle,
}

/// Consecutive rows of the batch that belong to one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its slot of the cache.
    pub slot: usize,
    /// Position of its first row.
    pub position: usize,
    /// Rows.
    pub len: usize,
}

/// One row and the span it belongs to.
#[derive(Clone, Copy)]
struct Row {
    slot: usize,
    position: usize,
}

impl Attention {
    /// Numbers of one row of `qkv`: queries, then keys, then values.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// Where a head's numbers of one position are in the cache: `[slots, kv_heads, context, width]`.
    fn at(&self, slot: usize, head: usize, position: usize) -> usize {
        ((slot * self.kv_heads + head) * self.context + position) * self.width
    }

    /// `angles` holds, for each position, `width / 2` cosines and then as many sines. `keys` and `values` are the
    /// cache; the rows' own keys and values are written into it first. `out` has a row of `heads * width` for each.
    pub fn run(
        &self,
        qkv: &[f32],
        spans: &[Span],
        angles: &[f32],
        keys: &mut [f16],
        values: &mut [f16],
        out: &mut [f32],
    ) {
        let rows: Vec<Row> =
            spans.iter().flat_map(|s| (0..s.len).map(|i| Row { slot: s.slot, position: s.position + i })).collect();
        assert!(qkv.len() == rows.len() * self.row() && out.len() == rows.len() * self.heads * self.width);
        let scale = 1.0 / (self.width as f32).sqrt();
        let mut queries = vec![0.0; out.len()];
        let mut turned = vec![0.0; self.width];
        for ((row, qkv), queries) in
            rows.iter().zip(qkv.chunks_exact(self.row())).zip(queries.chunks_exact_mut(self.heads * self.width))
        {
            let angles = &angles[row.position * self.width..(row.position + 1) * self.width];
            let heads: Vec<&[f32]> = qkv.chunks_exact(self.width).collect();
            for (from, to) in heads[..self.heads].iter().zip(queries.chunks_exact_mut(self.width)) {
                self.rotate(from, angles, scale, to);
            }
            for head in 0..self.kv_heads {
                let at = self.at(row.slot, head, row.position);
                self.rotate(heads[self.heads + head], angles, 1.0, &mut turned);
                to_half(&turned, &mut keys[at..at + self.width]);
                to_half(heads[self.heads + self.kv_heads + head], &mut values[at..at + self.width]);
            }
        }
        let work: usize = rows.iter().map(|r| (r.position + 1) * self.heads * self.width).sum();
        let (keys, values, parts) = (&*keys, &*values, Parts::new(out));
        for_each(rows.len() * self.heads, work > 40_000, |index| {
            let (row, head) = (rows[index / self.heads], index % self.heads);
            let start = self.at(row.slot, head * self.kv_heads / self.heads, 0);
            let seen = start..start + (row.position + 1) * self.width;
            let query = &queries[index * self.width..(index + 1) * self.width];
            // SAFETY: each row and head has its own numbers of the result.
            let out = unsafe { parts.part(index * self.width, self.width) };
            attend(query, &keys[seen.clone()], &values[seen], out);
        });
    }

    fn rotate(&self, from: &[f32], angles: &[f32], scale: f32, to: &mut [f32]) {
        let half = self.width / 2;
        let (cos, sin) = angles.split_at(half);
        for i in 0..half {
            let (a, b) = match self.style {
                RotaryStyle::Interleaved => (2 * i, 2 * i + 1),
                RotaryStyle::Halves => (i, i + half),
            };
            to[a] = (from[a] * cos[i] - from[b] * sin[i]) * scale;
            to[b] = (from[a] * sin[i] + from[b] * cos[i]) * scale;
        }
    }
}

fn to_half(from: &[f32], to: &mut [f16]) {
    from.iter().zip(to).for_each(|(x, y)| *y = f16::from_f32(*x));
}

/// One head of one row over all that it may see.
fn attend(query: &[f32], keys: &[f16], values: &[f16], out: &mut [f32]) {
    let width = query.len();
    let mut weights = vec![0.0; keys.len() / width];
    #[cfg(target_arch = "x86_64")]
    if Cpu::detect() == Cpu::Avx2 && width.is_multiple_of(8) {
        // SAFETY: the processor was asked; lengths are checked inside.
        return unsafe {
            wide::scores(query, keys, &mut weights);
            softmax(&mut weights);
            wide::mix(&weights, values, out);
        };
    }
    for (weight, key) in weights.iter_mut().zip(keys.chunks_exact(width)) {
        *weight = query.iter().zip(key).map(|(q, k)| q * k.to_f32()).sum();
    }
    softmax(&mut weights);
    out.fill(0.0);
    for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
        out.iter_mut().zip(value).for_each(|(o, v)| *o += weight * v.to_f32());
    }
}

fn softmax(scores: &mut [f32]) {
    let max = scores.iter().fold(f32::NEG_INFINITY, |m, x| if *x > m { *x } else { m });
    let mut sum = 0.0;
    for x in scores.iter_mut() {
        *x = exp((*x - max).max(-87.0));
        sum += *x;
    }
    let inverse = 1.0 / sum;
    scores.iter_mut().for_each(|x| *x *= inverse);
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use half::f16;
    use std::arch::x86_64::*;

    /// # Safety
    /// AVX2, FMA and F16C are there.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn scores(query: &[f32], keys: &[f16], out: &mut [f32]) {
        let width = query.len();
        assert!(width.is_multiple_of(8) && keys.len() == out.len() * width);
        for (i, out) in out.iter_mut().enumerate() {
            // SAFETY: reads stay inside the query and the i-th key, whose lengths were checked.
            unsafe {
                let key = keys.as_ptr().add(i * width);
                let mut sums = [_mm256_setzero_ps(); 2];
                for at in (0..width).step_by(8) {
                    let k = _mm256_cvtph_ps(_mm_loadu_si128(key.add(at).cast()));
                    let q = _mm256_loadu_ps(query.as_ptr().add(at));
                    sums[at / 8 % 2] = _mm256_fmadd_ps(q, k, sums[at / 8 % 2]);
                }
                let sum = _mm256_add_ps(sums[0], sums[1]);
                let four = _mm_add_ps(_mm256_extractf128_ps(sum, 1), _mm256_castps256_ps128(sum));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                *out = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
            }
        }
    }

    /// # Safety
    /// AVX2, FMA and F16C are there.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn mix(weights: &[f32], values: &[f16], out: &mut [f32]) {
        let width = out.len();
        assert!(width.is_multiple_of(8) && values.len() == weights.len() * width);
        out.fill(0.0);
        // Runs of 64 numbers: their sums stay in registers while all positions pass.
        for first in (0..width).step_by(64) {
            let lanes = (width - first).min(64) / 8;
            // SAFETY: reads stay inside the values of each position, writes inside `out`: lengths were checked.
            unsafe {
                let mut sums = [_mm256_setzero_ps(); 8];
                for (i, weight) in weights.iter().enumerate() {
                    let value = values.as_ptr().add(i * width + first);
                    let weight = _mm256_set1_ps(*weight);
                    if lanes == 8 {
                        for (lane, sum) in sums.iter_mut().enumerate() {
                            let v = _mm256_cvtph_ps(_mm_loadu_si128(value.add(lane * 8).cast()));
                            *sum = _mm256_fmadd_ps(weight, v, *sum);
                        }
                    } else {
                        for (lane, sum) in sums[..lanes].iter_mut().enumerate() {
                            let v = _mm256_cvtph_ps(_mm_loadu_si128(value.add(lane * 8).cast()));
                            *sum = _mm256_fmadd_ps(weight, v, *sum);
                        }
                    }
                }
                for (lane, sum) in sums[..lanes].iter().enumerate() {
                    _mm256_storeu_ps(out.as_mut_ptr().add(first + lane * 8), *sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook: rotate, score against everything up to oneself, softmax, sum.
    fn reference(a: &Attention, qkv: &[f32], angles: &[f32]) -> Vec<f64> {
        let rows = qkv.len() / a.row();
        let head = |row: usize, head: usize| &qkv[row * a.row() + head * a.width..][..a.width];
        let rotated = |row: usize, h: usize| {
            let mut to = vec![0.0; a.width];
            a.rotate(head(row, h), &angles[row * a.width..(row + 1) * a.width], 1.0, &mut to);
            to
        };
        let mut out = Vec::new();
        for row in 0..rows {
            for h in 0..a.heads {
                let kv = h * a.kv_heads / a.heads;
                let q = rotated(row, h);
                let scores: Vec<f64> = (0..=row)
                    .map(|s| {
                        let k = rotated(s, a.heads + kv);
                        let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(k)).sum();
                        (dot / (a.width as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = scores.iter().sum();
                out.extend((0..a.width).map(|i| {
                    let value = |s: usize| f64::from(head(s, a.heads + a.kv_heads + kv)[i]);
                    scores.iter().enumerate().map(|(s, w)| w / total * value(s)).sum::<f64>()
                }));
            }
        }
        out
    }

    fn angles(a: &Attention) -> Vec<f32> {
        (0..a.context)
            .flat_map(|p| {
                let half = a.width / 2;
                let angle = move |i: usize| p as f32 * 100f32.powf(-2.0 * i as f32 / a.width as f32);
                (0..half).map(move |i| angle(i).cos()).chain((0..half).map(move |i| angle(i).sin()))
            })
            .collect()
    }

    #[test]
    fn chunks_and_single_rows_of_two_sequences_give_the_textbooks_result() {
        for (width, style) in [(64, RotaryStyle::Interleaved), (16, RotaryStyle::Halves), (12, RotaryStyle::Halves)] {
            let a = Attention { heads: 4, kv_heads: 2, width, context: 40, style };
            let rows = 33;
            let qkv = |seed: f32| -> Vec<f32> { (0..rows * a.row()).map(|i| (i as f32 * 0.61 + seed).sin()).collect() };
            let (first, second) = (qkv(0.0), qkv(5.0));
            let angles = angles(&a);
            let size = 2 * a.kv_heads * a.context * a.width;
            let (mut keys, mut values) = (vec![f16::ZERO; size], vec![f16::ZERO; size]);
            let mut found = [Vec::new(), Vec::new()];
            // Both sequences at once, in steps of 30, 1, 1 and 1 rows.
            let mut position = 0;
            for len in [30, 1, 1, 1] {
                let part = |x: &[f32]| x[position * a.row()..(position + len) * a.row()].to_vec();
                let batch = [part(&second), part(&first)].concat();
                let spans = [Span { slot: 1, position, len }, Span { slot: 0, position, len }];
                let mut out = vec![0.0; 2 * len * a.heads * a.width];
                a.run(&batch, &spans, &angles, &mut keys, &mut values, &mut out);
                let (b, f) = out.split_at(out.len() / 2);
                found[0].extend_from_slice(f);
                found[1].extend_from_slice(b);
                position += len;
            }
            for (found, qkv) in found.iter().zip([&first, &second]) {
                let expected = reference(&a, qkv, &angles);
                for (f, e) in found.iter().zip(&expected) {
                    assert!((f64::from(*f) - e).abs() < 2e-3, "{style:?} {f} {e}");
                }
            }
        }
    }
}
