//! AMX: the products of 16 rows of weights with up to 16 rows of activations, 32 columns at a time, by one instruction.
//! All else of a processor that has it is [`super::avx512`]'s, and so are the sums: whole numbers, the same to the bit.
//!
//! The compiler knows no tiles, so they are named here and nowhere else: a thread sets their shapes once.
#![allow(unsafe_code, reason = "instructions that the compiler has no functions for")]

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, __m512i, _xgetbv};
use std::cell::Cell;
use std::sync::OnceLock;

use super::vector::Sums;

/// Whether this processor has it and this process may use it, which Linux wants to be asked for.
pub(crate) fn is_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
        const TILES_KEPT: u64 = 1 << 17 | 1 << 18;
        if __cpuid_count(7, 0).edx & TILE_AND_INT8 != TILE_AND_INT8 || !std::is_x86_feature_detected!("xsave") {
            return false;
        }
        // SAFETY: the processor has XSAVE, and the system uses it as AVX does.
        if unsafe { kept() } & TILES_KEPT != TILES_KEPT {
            return false;
        }
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const TILE_DATA: libc::c_long = 18;
        // SAFETY: asks the kernel to keep the tiles of this process; it touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
    })
}

/// Which registers the system keeps for each thread.
#[target_feature(enable = "xsave")]
unsafe fn kept() -> u64 {
    // SAFETY: the caller's promise.
    unsafe { _xgetbv(0) }
}

/// Shapes of the tiles, as `ldtilecfg` reads them: 0, 3 and 5 are sums, 1, 4 and 6 activations, 2 is weights.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPES: Shapes = Shapes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 32, 64, 64, 32, 64, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 8, 8, 8, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Gives this thread its tiles. They stay: setting them takes as long as a small product.
///
/// # Safety
/// [`is_there`].
#[inline(always)]
pub(super) unsafe fn prepare() {
    thread_local! {
        static READY: Cell<bool> = const { Cell::new(false) };
    }
    if !READY.get() {
        // SAFETY: the caller's promise; the shapes are valid for the only palette that there is.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
        READY.set(true);
    }
}

/// As many of `count` rows of activations as fit a tile (16, 8 or 4; 0 if there are fewer) times a run's weights:
/// `weights` are unsigned, four columns of 16 rows each. Says how many it took.
///
/// # Safety
/// [`prepare`] was called on this thread; `count` rows of 32 activations begin at `x`, `stride` bytes apart.
#[inline(always)]
pub(super) unsafe fn dots(weights: &[__m512i; 8], x: *const i8, stride: usize, count: usize, sums: &mut Sums) -> usize {
    macro_rules! product {
        ($sums:literal, $x:literal) => {
            asm!(
                "tileloadd tmm2, [{weights} + {line}]",
                concat!("tileloadd ", $x, ", [{x} + {stride}]"),
                concat!("tilezero ", $sums),
                concat!("tdpbsud ", $sums, ", ", $x, ", tmm2"),
                concat!("tilestored [{sums} + {line}], ", $sums),
                weights = in(reg) weights.as_ptr(),
                line = in(reg) 64usize,
                x = in(reg) x,
                stride = in(reg) stride,
                sums = in(reg) sums.0.as_mut_ptr(),
                options(nostack),
            )
        };
    }
    // SAFETY: the tiles have shapes; 8 lines of weights, as many rows of activations and of sums as the shape says are
    // there by type and by the caller's promise.
    unsafe {
        match count {
            16.. => product!("tmm0", "tmm1"),
            8.. => product!("tmm3", "tmm4"),
            4.. => product!("tmm5", "tmm6"),
            _ => return 0,
        }
    }
    match count {
        16.. => 16,
        8.. => 8,
        _ => 4,
    }
}
