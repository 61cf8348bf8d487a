//! Whether this process may use AMX, whose tiles are state that the system hands out.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "x86-64 alone has tiles"))]
#![allow(unsafe_code, reason = "asks the system for a permission")]

use std::sync::OnceLock;

/// Whether the processor has tiles of eight-bit numbers and of halves (BF16), and the system lets this process use them.
pub(super) fn is_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| has_instructions() && permitted())
}

#[cfg(target_arch = "x86_64")]
fn has_instructions() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const BF16_TILES_INT8: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & BF16_TILES_INT8 == BF16_TILES_INT8
}

#[cfg(not(target_arch = "x86_64"))]
fn has_instructions() -> bool {
    false
}

/// Tiles are eight kilobytes of state for each thread: Linux gives them to a process that asks, for all its threads.
fn permitted() -> bool {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        // asm/prctl.h and the number of the tiles' data among the processor's states.
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XTILEDATA: libc::c_long = 18;
        // SAFETY: asks for a permission; nothing else changes.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    false
}
