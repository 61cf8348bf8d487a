//! The tiles themselves: their shape, and one block of products.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{PANEL, ROWS, TILE, Tile};
use crate::kernels::pool::Parts;

/// Gives the tiles back when dropped: a thread without them is switched faster.
pub(in super::super) struct Configured(());

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: nobody has anything in them.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
    }
}

/// Eight tiles of 16 rows of 64 bytes for this thread.
pub(in super::super) fn configure() -> Configured {
    #[repr(align(64))]
    struct Shape([u8; 64]);
    let mut shape = Shape([0; 64]);
    shape.0[0] = 1;
    for tile in 0..8 {
        shape.0[16 + 2 * tile] = 64;
        shape.0[48 + tile] = ROWS as u8;
    }
    // SAFETY: reads the 64 bytes; the callers have AMX.
    unsafe { asm!("ldtilecfg [{}]", in(reg) shape.0.as_ptr(), options(nostack, readonly)) }
    Configured(())
}

/// What 16 rows of activations give for a panel: of each of its two tiles of outputs the sums of high times high, and
/// those of high times low.
#[repr(align(64))]
pub(super) struct Sums([[[i32; TILE / 4]; 2]; 2]);

impl Default for Sums {
    fn default() -> Sums {
        Sums([[[0; TILE / 4]; 2]; 2])
    }
}

impl Sums {
    /// Adds the products of 16 rows of activations, `[steps][high, low]`, with a panel of weights,
    /// `[steps][2 tiles][high, low]`; `anew` to nothing.
    pub(super) fn add(&mut self, x: &[Tile], weights: &[Tile], anew: bool) {
        assert!(!x.is_empty() && x.len() * 2 == weights.len(), "tiles of another shape");
        // SAFETY: reads whole steps of both, reads and writes the four tiles of the sums. Tiles are only named here.
        unsafe {
            asm!(
                "test {anew}, {anew}",
                "jz 3f",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "jmp 2f",
                "3:",
                "tileloadd tmm0, [{out} + {line}]",
                "tileloadd tmm1, [{out} + {line} + 1024]",
                "tileloadd tmm2, [{out} + {line} + 2048]",
                "tileloadd tmm3, [{out} + {line} + 3072]",
                "2:",
                "tileloadd tmm4, [{x} + {line}]",
                "tileloadd tmm6, [{w} + {line}]",
                "tileloadd tmm5, [{x} + {line} + 1024]",
                "tdpbssd tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {line} + 2048]",
                "tdpbssd tmm1, tmm5, tmm6",
                "tdpbssd tmm2, tmm4, tmm7",
                "tileloadd tmm6, [{w} + {line} + 1024]",
                "tdpbssd tmm3, tmm5, tmm7",
                "tileloadd tmm7, [{w} + {line} + 3072]",
                "tdpbssd tmm1, tmm4, tmm6",
                "tdpbssd tmm3, tmm4, tmm7",
                "add {x}, 2048",
                "add {w}, 4096",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{out} + {line}], tmm0",
                "tilestored [{out} + {line} + 1024], tmm1",
                "tilestored [{out} + {line} + 2048], tmm2",
                "tilestored [{out} + {line} + 3072], tmm3",
                x = inout(reg) x.as_ptr() => _,
                w = inout(reg) weights.as_ptr() => _,
                steps = inout(reg) x.len() / 2 => _,
                line = in(reg) 64usize,
                anew = in(reg) usize::from(anew),
                out = in(reg) self.0.as_mut_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// The products of as many rows of activations as there are `scales`, each with its own; `outputs` are the scales of
    /// the panel's outputs. Row `i` goes to `width` numbers of `to` from `at + i * stride` on.
    ///
    /// # Safety
    /// Nobody else has those numbers. The processor has AVX-512, as all with AMX.
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn rows(
        &self,
        scales: &[f32],
        outputs: &[f32; PANEL],
        to: &Parts<'_, f32>,
        (at, stride, width): (usize, usize, usize),
    ) {
        assert!(scales.len() <= ROWS && width <= PANEL, "more than a panel's");
        for (tile, from) in (0..width).step_by(16).enumerate() {
            let mask = ((1u32 << (width - from).min(16)) - 1) as u16;
            // SAFETY: 16 numbers of each of the tile's rows; the mask keeps to what the caller has.
            unsafe {
                let outputs = _mm512_mul_ps(_mm512_loadu_ps(outputs.as_ptr().add(from)), _mm512_set1_ps(256.0));
                for (row, scale) in scales.iter().enumerate() {
                    let number = |part: usize| {
                        _mm512_cvtepi32_ps(_mm512_load_si512(self.0[tile][part].as_ptr().add(row * 16).cast()))
                    };
                    let sum = _mm512_fmadd_ps(number(0), _mm512_set1_ps(256.0), number(1));
                    let scaled = _mm512_mul_ps(sum, _mm512_mul_ps(outputs, _mm512_set1_ps(*scale)));
                    let to = to.part(at + row * stride + from, (width - from).min(16));
                    _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, scaled);
                }
            }
        }
    }
}
