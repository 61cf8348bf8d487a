//! Memory of the device as the kernels take it.
#![allow(unsafe_code, reason = "a kernel's argument is a handle and a length, which are kept together here")]

use cubecl::prelude::*;
use cubecl::server::Handle;

/// Numbers that follow each other in the device's memory; which kind is up to who reads them.
#[derive(Clone)]
pub(crate) struct Buffer {
    handle: Handle,
    /// Numbers.
    len: usize,
}

impl Buffer {
    /// A handle of at least `len` numbers.
    pub(crate) fn new(handle: Handle, len: usize) -> Buffer {
        Buffer { handle, len }
    }

    /// New memory for `len` numbers of `size` bytes; what is in it is not said.
    pub(crate) fn empty<R: Runtime>(client: &ComputeClient<R>, len: usize, size: usize) -> Buffer {
        Buffer { handle: client.empty(len * size), len }
    }

    /// A copy of these words.
    pub(crate) fn words<R: Runtime>(client: &ComputeClient<R>, words: &[u32]) -> Buffer {
        Buffer { handle: client.create_from_slice(u32::as_bytes(words)), len: words.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn handle(self) -> Handle {
        self.handle
    }

    /// As a kernel's argument.
    pub(super) fn argument<R: Runtime>(&self) -> ArrayArg<R> {
        // SAFETY: the handle has as many numbers; whoever made the buffer said so.
        unsafe { ArrayArg::from_raw_parts(self.handle.clone(), self.len) }
    }
}

/// Rows of `f32`.
#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) buffer: Buffer,
    pub(crate) count: usize,
    pub(crate) width: usize,
    /// Numbers from the begin of one row to that of the next: CUDA's memory likes rows to begin at round addresses.
    pub(crate) stride: usize,
}

impl Rows {
    /// New rows without gaps.
    pub(crate) fn empty<R: Runtime>(client: &ComputeClient<R>, count: usize, width: usize) -> Rows {
        Rows { buffer: Buffer::empty(client, count * width, size_of::<f32>()), count, width, stride: width }
    }

    /// Whether every number that count, width and stride promise is there.
    pub(super) fn whole(&self) -> bool {
        let last = self.count.saturating_sub(1) * self.stride + self.width;
        self.stride >= self.width && (self.count == 0 || last <= self.buffer.len())
    }
}
