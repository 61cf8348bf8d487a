//! Attention over a paged cache in 16 bits, in one pass from the projections: rotary positions, the write of keys and
//! values, scores, softmax, weighted sum. Each sequence of the batch finds its own keys and values by a table of blocks.
#![allow(unsafe_code, reason = "threads write their own heads; wider vectors are used only where they are")]

use half::f16;

use super::distribution::exp;
use super::pool::{Parts, for_each};
use crate::device::Cpu;

/// Tokens of a block of the cache.
pub const BLOCK_TOKENS: usize = 16;

/// How a rotation pairs the numbers of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryStyle {
    /// Neighbours: files of the llama architecture keep queries and keys in this order.
    Interleaved,
    /// The i-th number of the first half with that of the second.
    Halves,
}

/// Shape of one layer's attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub width: usize,
    /// Factor of a query's product with a key; usually one over the root of `width`.
    pub scale: f32,
    /// A row sees itself and this many less one before it; none: everything before it.
    pub window: Option<usize>,
    /// How positions are written into queries and keys.
    pub style: RotaryStyle,
}

/// Consecutive rows of the batch that belong to one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<'a> {
    /// Its blocks of the cache: the i-th holds positions from `i * BLOCK_TOKENS` on.
    pub blocks: &'a [u32],
    /// Position of its first row.
    pub position: usize,
    /// Rows.
    pub len: usize,
}

/// One row and the span it belongs to.
#[derive(Clone, Copy)]
struct Row<'a> {
    blocks: &'a [u32],
    position: usize,
}

impl Attention {
    /// Numbers of one row of `qkv`: queries, then keys, then values.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// Numbers of one block of keys, and as many of values: `[kv_heads, width, BLOCK_TOKENS]` for keys, so that a
    /// query meets sixteen keys without a sum across a vector, `[kv_heads, BLOCK_TOKENS, width]` for values.
    pub fn block(&self) -> usize {
        self.kv_heads * self.width * BLOCK_TOKENS
    }

    /// Where a head of a block begins.
    fn at(&self, block: u32, head: usize) -> usize {
        block as usize * self.block() + head * self.width * BLOCK_TOKENS
    }

    /// `angles` holds, for each row, `width / 2` cosines and then as many sines. `keys` and `values` are the
    /// cache, block after block; the rows' own keys and values are written into it first. `out` has a row of
    /// `heads * width` for each.
    pub fn run(
        &self,
        qkv: &[f32],
        spans: &[Span<'_>],
        angles: &[f32],
        keys: &mut [f16],
        values: &mut [f16],
        out: &mut [f32],
    ) {
        let rows: Vec<Row<'_>> =
            spans.iter().flat_map(|s| (0..s.len).map(|i| Row { blocks: s.blocks, position: s.position + i })).collect();
        assert!(qkv.len() == rows.len() * self.row() && out.len() == rows.len() * self.heads * self.width);
        assert!(angles.len() == rows.len() * self.width, "angles for other rows");
        let mut queries = vec![0.0; out.len()];
        let mut turned = vec![0.0; self.width];
        let turns = rows.iter().zip(angles.chunks_exact(self.width));
        for (((row, angles), qkv), queries) in
            turns.zip(qkv.chunks_exact(self.row())).zip(queries.chunks_exact_mut(self.heads * self.width))
        {
            let heads: Vec<&[f32]> = qkv.chunks_exact(self.width).collect();
            for (from, to) in heads[..self.heads].iter().zip(queries.chunks_exact_mut(self.width)) {
                self.rotate(from, angles, self.scale, to);
            }
            let (block, slot) = (row.blocks[row.position / BLOCK_TOKENS], row.position % BLOCK_TOKENS);
            for head in 0..self.kv_heads {
                let at = self.at(block, head);
                self.rotate(heads[self.heads + head], angles, 1.0, &mut turned);
                let column = keys[at + slot..at + self.width * BLOCK_TOKENS].iter_mut().step_by(BLOCK_TOKENS);
                column.zip(&turned).for_each(|(to, from)| *to = f16::from_f32(*from));
                let value = &mut values[at + slot * self.width..at + (slot + 1) * self.width];
                let from = heads[self.heads + self.kv_heads + head];
                value.iter_mut().zip(from).for_each(|(to, from)| *to = f16::from_f32(*from));
            }
        }
        let work: usize = rows.iter().map(|r| (r.position + 1) * self.heads * self.width).sum();
        let (keys, values, parts) = (&*keys, &*values, Parts::new(out));
        for_each(rows.len() * self.heads, work > 40_000, |index| {
            let (row, head) = (rows[index / self.heads], index % self.heads);
            let query = &queries[index * self.width..(index + 1) * self.width];
            // SAFETY: each row and head has its own numbers of the result.
            let out = unsafe { parts.part(index * self.width, self.width) };
            self.attend(query, row, head * self.kv_heads / self.heads, keys, values, out);
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

    /// One head of one row over all that it may see.
    fn attend(&self, query: &[f32], row: Row<'_>, head: usize, keys: &[f16], values: &[f16], out: &mut [f32]) {
        let size = self.width * BLOCK_TOKENS;
        let seen = row.position + 1;
        let first = self.window.map_or(0, |window| seen.saturating_sub(window));
        let blocks = &row.blocks[first / BLOCK_TOKENS..seen.div_ceil(BLOCK_TOKENS)];
        let mut weights = vec![0.0; blocks.len() * BLOCK_TOKENS];
        let wide = cfg!(target_arch = "x86_64") && Cpu::detect() == Cpu::Avx2 && self.width.is_multiple_of(8);
        for (block, weights) in blocks.iter().zip(weights.chunks_exact_mut(BLOCK_TOKENS)) {
            let at = self.at(*block, head);
            scores(wide, query, &keys[at..at + size], weights);
        }
        let start = first / BLOCK_TOKENS * BLOCK_TOKENS;
        weights[..first - start].fill(f32::NEG_INFINITY);
        weights.truncate(seen - start);
        softmax(&mut weights);
        out.fill(0.0);
        for (block, weights) in blocks.iter().zip(weights.chunks(BLOCK_TOKENS)) {
            let at = self.at(*block, head);
            mix(wide, weights, &values[at..at + weights.len() * self.width], out);
        }
    }
}

/// Products of a query with the sixteen keys of a block.
fn scores(wide: bool, query: &[f32], keys: &[f16], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if wide {
        // SAFETY: the processor was asked; lengths are checked inside.
        return unsafe { wide::scores(query, keys, out) };
    }
    let _ = wide;
    out.fill(0.0);
    for (q, keys) in query.iter().zip(keys.chunks_exact(BLOCK_TOKENS)) {
        out.iter_mut().zip(keys).for_each(|(o, k)| *o += q * k.to_f32());
    }
}

/// Adds some positions' values, weighted.
fn mix(wide: bool, weights: &[f32], values: &[f16], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if wide {
        // SAFETY: the processor was asked; lengths are checked inside.
        return unsafe { wide::mix(weights, values, out) };
    }
    let _ = wide;
    for (weight, value) in weights.iter().zip(values.chunks_exact(out.len())) {
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

    use super::BLOCK_TOKENS;

    /// # Safety
    /// AVX2, FMA and F16C are there.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn scores(query: &[f32], keys: &[f16], out: &mut [f32]) {
        assert!(keys.len() == query.len() * BLOCK_TOKENS && out.len() == BLOCK_TOKENS);
        // SAFETY: reads stay inside the block, writes inside `out`: lengths were checked.
        unsafe {
            let mut sums = [_mm256_setzero_ps(); 2];
            for (i, q) in query.iter().enumerate() {
                let key = keys.as_ptr().add(i * BLOCK_TOKENS);
                let q = _mm256_set1_ps(*q);
                for (half, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm256_fmadd_ps(q, _mm256_cvtph_ps(_mm_loadu_si128(key.add(half * 8).cast())), *sum);
                }
            }
            _mm256_storeu_ps(out.as_mut_ptr(), sums[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), sums[1]);
        }
    }

    /// # Safety
    /// AVX2, FMA and F16C are there.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn mix(weights: &[f32], values: &[f16], out: &mut [f32]) {
        let width = out.len();
        assert!(width.is_multiple_of(8) && values.len() == weights.len() * width);
        for at in (0..width).step_by(8) {
            // SAFETY: reads stay inside the values of each position, both ends inside `out`: lengths were checked.
            unsafe {
                let mut sum = _mm256_loadu_ps(out.as_ptr().add(at));
                for (i, weight) in weights.iter().enumerate() {
                    let value = _mm256_cvtph_ps(_mm_loadu_si128(values.as_ptr().add(i * width + at).cast()));
                    sum = _mm256_fmadd_ps(_mm256_set1_ps(*weight), value, sum);
                }
                _mm256_storeu_ps(out.as_mut_ptr().add(at), sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook: rotate, score against everything up to oneself (or as far back as the window), softmax, sum.
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
                let first = a.window.map_or(0, |w| (row + 1).saturating_sub(w));
                let scores: Vec<f64> = (first..=row)
                    .map(|s| {
                        let k = rotated(s, a.heads + kv);
                        let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(k)).sum();
                        (dot * f64::from(a.scale)).exp()
                    })
                    .collect();
                let total: f64 = scores.iter().sum();
                out.extend((0..a.width).map(|i| {
                    let value = |s: usize| f64::from(head(first + s, a.heads + a.kv_heads + kv)[i]);
                    scores.iter().enumerate().map(|(s, w)| w / total * value(s)).sum::<f64>()
                }));
            }
        }
        out
    }

    fn angles(a: &Attention, positions: usize) -> Vec<f32> {
        (0..positions)
            .flat_map(|p| {
                let half = a.width / 2;
                let angle = move |i: usize| p as f32 * 100f32.powf(-2.0 * i as f32 / a.width as f32);
                (0..half).map(move |i| angle(i).cos()).chain((0..half).map(move |i| angle(i).sin()))
            })
            .collect()
    }

    #[test]
    fn chunks_and_single_rows_of_two_sequences_give_the_textbooks_result() {
        for (width, style, window) in [
            (64, RotaryStyle::Interleaved, None),
            (16, RotaryStyle::Halves, Some(21)),
            (12, RotaryStyle::Halves, None),
            (64, RotaryStyle::Halves, Some(5)),
        ] {
            let a = Attention { heads: 4, kv_heads: 2, width, scale: 0.2, window, style };
            let rows = 33;
            let qkv = |seed: f32| -> Vec<f32> { (0..rows * a.row()).map(|i| (i as f32 * 0.61 + seed).sin()).collect() };
            let (first, second) = (qkv(0.0), qkv(5.0));
            let angles = angles(&a, rows);
            // Blocks of two sequences, in no order; the cache's old content is of no account.
            let (tables, size) = ([[4, 0, 2], [1, 5, 3]], 6 * a.block());
            let (mut keys, mut values) = (vec![f16::NAN; size], vec![f16::NAN; size]);
            let mut found = [Vec::new(), Vec::new()];
            // Both sequences at once, in steps of 30, 1, 1 and 1 rows.
            let mut position = 0;
            for len in [30, 1, 1, 1] {
                let part = |x: &[f32]| x[position * a.row()..(position + len) * a.row()].to_vec();
                let batch = [part(&second), part(&first)].concat();
                let spans = [1, 0].map(|s| Span { blocks: &tables[s], position, len });
                let turns = angles[position * width..(position + len) * width].repeat(2);
                let mut out = vec![0.0; 2 * len * a.heads * a.width];
                a.run(&batch, &spans, &turns, &mut keys, &mut values, &mut out);
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
