//! Weights in 16 bits: what a panel's 32 outputs have in the packed groups becomes tiles, for all rows to meet.

use std::arch::x86_64::*;

use super::{LARGEST, PANEL, TILE, Tile, ZERO};
use crate::gguf::GgmlType;
use crate::kernels::activation::BLOCK;
use crate::kernels::avx512::Avx512;
use crate::kernels::layout::{GROUP, bits, header, run};
use crate::kernels::matrix::Matrix;
use crate::kernels::pool::threads;
use crate::kernels::product::{self, Kind, kinds};
use crate::kernels::vector::Vector as _;

/// Tiles of the 32 outputs from group `first` on, `[columns / 64][2][high, low]`; returns each output's scale. Outputs
/// past the last repeat others.
pub(super) fn unpack(matrix: &Matrix, bytes: &[u8], first: usize, to: &mut [Tile]) -> [f32; PANEL] {
    if !matrix.columns.is_multiple_of(super::COLUMNS) {
        let whole = to.len() - 4;
        to[whole..].fill(ZERO);
    }
    let stride = matrix.columns / matrix.kind.block_len() * matrix.kind.block_bytes() * GROUP;
    let last = matrix.rows.div_ceil(GROUP) - 1;
    let mut scales = [0.0; PANEL];
    for (tile, scales) in scales.chunks_exact_mut(16).enumerate() {
        let group = (first + 2 * tile).min(last);
        let step = if group < last { stride } else { 0 };
        let from = &bytes[group * stride..][..stride + step];
        // SAFETY: a processor with AMX has AVX-512; two groups, or one twice, are there.
        unsafe {
            let at = from.as_ptr();
            match matrix.kind {
                GgmlType::Q4_0 => sixteen::<kinds::Q4_0>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q4_1 => sixteen::<kinds::Q4_1>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q5_0 => sixteen::<kinds::Q5_0>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q5_1 => sixteen::<kinds::Q5_1>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q8_0 => sixteen::<kinds::Q8_0>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q4_K => sixteen::<kinds::Q4_K>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q5_K => sixteen::<kinds::Q5_K>(at, step, matrix.columns, tile, to, scales),
                GgmlType::Q6_K => sixteen::<kinds::Q6_K>(at, step, matrix.columns, tile, to, scales),
                GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => {}
            }
        }
    }
    scales
}

/// Signed bytes as they are.
type Lanes = Avx512<false>;

/// Bits that say how large a number of this kind is.
const fn size_bits(kind: GgmlType) -> u32 {
    if bits(kind) == 8 { 7 } else { bits(kind) }
}

/// One tile's outputs: two groups.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn sixteen<K: Kind>(
    at: *const u8,
    stride: usize,
    columns: usize,
    tile: usize,
    to: &mut [Tile],
    scales: &mut [f32],
) {
    let kind = K::KIND;
    let (block, runs) = (kind.block_bytes() * GROUP, kind.block_len() / BLOCK);
    let blocks = columns / kind.block_len();
    // The panel that this thread takes next, as a rule.
    let ahead = threads() * PANEL / GROUP * blocks * block;
    // What a number's whole part is multiplied with to fill 16 bits, before the scale.
    let unit = (1u32 << size_bits(kind)) as f32;
    // SAFETY: blocks and runs of two groups, as the caller promised; tiles of `columns`.
    unsafe {
        let mut most = _mm512_setzero_ps();
        for index in 0..blocks {
            let head = product::read_header::<Lanes, K>(at.add(index * block), stride);
            for index in 0..if header(kind) > 32 { runs } else { 1 } {
                let (steps, mins) = product::run_scales::<Lanes, K>(&head, index);
                for (step, min) in steps.into_iter().zip(halves(kind, mins)) {
                    let span = _mm512_mul_ps(step, _mm512_set1_ps(unit));
                    let far = _mm512_abs_ps(_mm512_add_ps(span, min));
                    most =
                        _mm512_max_ps(most, _mm512_max_ps(far, _mm512_max_ps(_mm512_abs_ps(span), _mm512_abs_ps(min))));
                }
            }
        }
        let scale = _mm512_mul_ps(most, _mm512_set1_ps(1.0 / LARGEST));
        _mm512_storeu_ps(scales.as_mut_ptr(), scale);
        let there = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(most, _mm512_set1_ps(1e-33));
        let inverse = _mm512_maskz_div_ps(there, _mm512_set1_ps(LARGEST), most);
        for index in 0..blocks {
            let from = at.add(index * block);
            let head = product::read_header::<Lanes, K>(from, stride);
            for run_index in 0..runs {
                for line in (0..block / runs).step_by(64) {
                    Lanes::prefetch(from.wrapping_add(ahead + run_index * run(kind) + line), stride);
                }
                let from = from.add(header(kind) + run_index * run(kind));
                let (steps, mins) = product::run_scales::<Lanes, K>(&head, run_index);
                let quants = product::read_quants::<Lanes, K>(from, stride);
                let whole = |x: __m512, by: f32| {
                    doubled(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_mul_ps(x, inverse), _mm512_set1_ps(by))))
                };
                let mins = halves(kind, mins);
                let first = (whole(steps[0], unit), whole(mins[0], 1.0));
                let last =
                    if matches!(kind, GgmlType::Q6_K) { (whole(steps[1], unit), whole(mins[1], 1.0)) } else { first };
                let column = (index * runs + run_index) * BLOCK;
                let step = column / 64;
                let line = column % 64 / 4;
                let to = to.as_mut_ptr().add(step * 4 + tile * 2);
                let (high, low) = (to.cast::<i8>(), to.add(1).cast::<i8>());
                for (i, q) in quants.iter().enumerate() {
                    let ((step_low, step_high), (min_low, min_high)) = if i < 4 { first } else { last };
                    let q = if bits(kind) == 8 {
                        *q
                    } else {
                        _mm512_sll_epi16(*q, _mm_cvtsi32_si128(7 - bits(kind) as i32))
                    };
                    let none = _mm512_setzero_si512();
                    let a = _mm512_add_epi16(_mm512_mulhrs_epi16(_mm512_unpacklo_epi8(none, q), step_low), min_low);
                    let b = _mm512_add_epi16(_mm512_mulhrs_epi16(_mm512_unpackhi_epi8(none, q), step_high), min_high);
                    let upper = |w| _mm512_srai_epi16(_mm512_add_epi16(w, _mm512_set1_epi16(128)), 8);
                    let lower = |w| _mm512_and_si512(w, _mm512_set1_epi16(255));
                    let place = (line + i) * 64;
                    debug_assert!(place < TILE);
                    _mm512_store_si512(high.add(place).cast(), _mm512_packs_epi16(upper(a), upper(b)));
                    _mm512_store_si512(low.add(place).cast(), _mm512_packus_epi16(lower(a), lower(b)));
                }
            }
        }
    }
}

/// What the first 16 columns of a run have added, and the last 16.
#[inline(always)]
unsafe fn halves(kind: GgmlType, mins: [__m512; 2]) -> [__m512; 2] {
    // SAFETY: the callers have AVX-512.
    unsafe {
        match kind {
            _ if !product::has_mins::<Lanes>(kind) => [_mm512_setzero_ps(); 2],
            GgmlType::Q6_K => [_mm512_add_ps(mins[0], mins[1]), mins[0]],
            _ => [mins[0]; 2],
        }
    }
}

/// Sixteen numbers of 16 bits, each four times: of the rows whose bytes are the lower halves of each 16 bytes, and of the
/// others.
#[inline(always)]
unsafe fn doubled(x: __m512i) -> (__m512i, __m512i) {
    // SAFETY: the callers have AVX-512.
    unsafe {
        let twice = _mm512_or_si512(_mm512_and_si512(x, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(x, 16));
        (_mm512_unpacklo_epi32(twice, twice), _mm512_unpackhi_epi32(twice, twice))
    }
}
