//! Large pages under what is read over and over: the processor then knows where memory is without looking it up, and
//! its own prefetching does not stop every four kilobytes.
#![allow(unsafe_code, reason = "advice to the system about memory")]

/// What a large page has on the machines that we know.
const PAGE: usize = 2 << 20;

/// Asks for large pages under these bytes, at once; a neighbour's bytes in the first and last page come along. Only
/// advice: where the system has none to give, everything stays as it is.
pub fn large(bytes: &[u8]) {
    #[cfg(target_os = "linux")]
    {
        let first = bytes.as_ptr() as usize / PAGE * PAGE;
        let end = (bytes.as_ptr() as usize + bytes.len()).next_multiple_of(PAGE);
        for at in (first..end).step_by(PAGE) {
            // SAFETY: neither advice changes what the memory holds, nor whether it is there.
            unsafe {
                libc::madvise(at as *mut _, PAGE, libc::MADV_HUGEPAGE);
                libc::madvise(at as *mut _, PAGE, libc::MADV_COLLAPSE);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (bytes, PAGE);
}
