//! Numbers as two halves of BF16, in tiles, and the products of those.

use std::arch::asm;
use std::arch::x86_64::*;

use half::f16;

use crate::kernels::amx::{ROWS, Tile};

/// A row of two tiles of weights from sixteen numbers and their followers: `[16][2]`, the upper halves and what they leave.
///
/// # Safety
/// Both are good for sixteen numbers, and the processor has AVX-512.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn place(a: *const f16, b: *const f16, row: usize, to: &mut [Tile]) {
    // SAFETY: the caller's promise; a tile has sixteen rows of 64 bytes.
    unsafe {
        let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
        let number = |at: *const f16| _mm512_cvtph_ps(_mm256_loadu_si256(at.cast()));
        let high = |x: __m512| _mm512_and_si512(_mm512_castps_si512(x), upper);
        let (a, b) = (number(a), number(b));
        let (high_a, high_b) = (high(a), high(b));
        let low_a = _mm512_castps_si512(_mm512_sub_ps(a, _mm512_castsi512_ps(high_a)));
        let low_b = _mm512_castps_si512(_mm512_sub_ps(b, _mm512_castsi512_ps(high_b)));
        let both = |a, b| _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_and_si512(b, upper));
        for (tile, numbers) in to.iter_mut().zip([both(high_a, high_b), both(low_a, low_b)]) {
            _mm512_store_si512(tile.0.as_mut_ptr().add(row * 64).cast(), numbers);
        }
    }
}

/// A step of one row of two tiles, `[step][2 tiles][2]`: upper halves and what they leave, rounded.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn halve(numbers: [__m512; 2], row: usize, step: usize, to: &mut [Tile]) {
    let tile = (step * 2 + row / ROWS) * 2;
    let (high, low) = to[tile..tile + 2].split_at_mut(1);
    for (half, x) in numbers.into_iter().enumerate() {
        let bits = _mm512_castps_si512(x);
        let upper = _mm512_and_si512(bits, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        let rest = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(upper)));
        let rest = _mm512_add_epi32(rest, _mm512_set1_epi32(0x8000));
        let place = row % ROWS * 64 + half * 32;
        for (tile, bits) in [(&mut high[0], bits), (&mut low[0], rest)] {
            let numbers = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
            // SAFETY: a tile has sixteen rows of 64 bytes.
            unsafe { _mm256_storeu_si256(tile.0.as_mut_ptr().add(place).cast(), numbers) };
        }
    }
}

/// Two tiles of rows, `[steps][2][2]`, with two of columns, as many: 32 by 32 sums, to rows of `stride` numbers.
///
/// # Safety
/// Tiles are configured, and `out` has room.
pub(super) unsafe fn multiply(rows: &[Tile], columns: &[Tile], out: *mut f32, stride: usize) {
    assert!(!rows.is_empty() && rows.len() == columns.len() && rows.len().is_multiple_of(4), "tiles of another shape");
    // SAFETY: reads whole steps of both, writes the four tiles of the result. Tiles are only named here.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{x} + {line}]",
            "tileloadd tmm6, [{w} + {line}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{w} + {line} + 2048]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{x} + {line} + 2048]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{w} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{w} + {line} + 3072]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{x} + {line} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm6, [{w} + {line}]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm7, [{w} + {line} + 2048]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{x} + {line} + 3072]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {x}, 4096",
            "add {w}, 4096",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{out} + {stride}], tmm0",
            "tilestored [{out} + {stride} + 64], tmm1",
            "tilestored [{next} + {stride}], tmm2",
            "tilestored [{next} + {stride} + 64], tmm3",
            x = inout(reg) rows.as_ptr() => _,
            w = inout(reg) columns.as_ptr() => _,
            steps = inout(reg) rows.len() / 4 => _,
            line = in(reg) 64usize,
            stride = in(reg) stride * 4,
            out = in(reg) out,
            next = in(reg) out.add(ROWS * stride),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
