//! Which code multiplies which kind of weights. Every choice that is wider than plain code is compared with plain code
//! once, on a small matrix, before it is used: a kernel that disagrees is not used, and a warning says so.
#![allow(unsafe_code, reason = "calls the products, after checking that their pointers stay inside the slices")]

use std::sync::OnceLock;

use super::activation::{BLOCK, Quantized, quantize};
use super::layout::{self, GROUP};
use crate::device::Cpu;
use crate::gguf::GgmlType;

/// Code for one kind of weights on one processor.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// Groups of eight rows that it takes at a time.
    pub(super) groups: usize,
    product: Product,
}

#[derive(Clone, Copy)]
enum Product {
    /// With activations in eight bits.
    Quantized(unsafe fn(*const u8, usize, *const Quantized, usize, usize, *mut f32)),
    /// With activations as they are.
    Plain(unsafe fn(*const u8, usize, *const f32, usize, usize, *mut f32)),
}

/// Rows of activations.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    Quantized(&'a [Quantized]),
    Plain(&'a [f32]),
}

impl Kernel {
    pub(super) fn quantized(
        groups: usize,
        product: unsafe fn(*const u8, usize, *const Quantized, usize, usize, *mut f32),
    ) -> Kernel {
        Kernel { groups, product: Product::Quantized(product) }
    }

    pub(super) fn plain(
        groups: usize,
        product: unsafe fn(*const u8, usize, *const f32, usize, usize, *mut f32),
    ) -> Kernel {
        Kernel { groups, product: Product::Plain(product) }
    }

    /// The code that is used for this kind on this processor.
    pub(super) fn of(cpu: Cpu, kind: GgmlType) -> Kernel {
        static CHECKED: [OnceLock<[Kernel; GgmlType::ALL.len()]>; Cpu::ALL.len()] =
            [const { OnceLock::new() }; Cpu::ALL.len()];
        let all = CHECKED[cpu as usize].get_or_init(|| GgmlType::ALL.map(|kind| checked(cpu, kind)));
        // `ALL` is in the order of the discriminants: a test says so.
        all[kind as usize]
    }

    /// One or two groups times `count` rows: `out` gets `GROUP * self.groups` sums for each. With fewer groups in
    /// `weights` than it takes at a time, the last sums repeat the first.
    pub(super) fn run(
        &self,
        kind: GgmlType,
        columns: usize,
        weights: &[u8],
        x: Rows<'_>,
        count: usize,
        out: &mut [f32],
    ) {
        let stride = columns / kind.block_len() * kind.block_bytes() * GROUP;
        let given = weights.len() / stride.max(1);
        assert!(
            given >= 1 && given <= self.groups.max(1) && weights.len() == given * stride,
            "groups of another shape"
        );
        assert!(out.len() >= count * GROUP * self.groups, "no room for the sums");
        let step = if given > 1 { stride } else { 0 };
        match (self.product, x) {
            (Product::Quantized(product), Rows::Quantized(x)) => {
                let blocks = columns / BLOCK;
                assert!(
                    x.len() >= count * blocks && columns.is_multiple_of(kind.block_len()),
                    "rows of another length"
                );
                // SAFETY: the choice was made for this processor; the lengths were checked above.
                unsafe { product(weights.as_ptr(), step, x.as_ptr(), blocks, count, out.as_mut_ptr()) }
            }
            (Product::Plain(product), Rows::Plain(x)) => {
                assert!(x.len() >= count * columns, "rows of another length");
                // SAFETY: likewise.
                unsafe { product(weights.as_ptr(), step, x.as_ptr(), columns, count, out.as_mut_ptr()) }
            }
            _ => unreachable!("a kind's activations are quantized or not on every processor alike"),
        }
    }
}

/// Whether products of this kind take quantized activations.
pub(super) fn takes_quantized(kind: GgmlType) -> bool {
    layout::bits(kind) > 0
}

/// Functions of one processor for every kind: `kernels!(TYPE, "features")` makes `kernel(kind)`.
macro_rules! kernels {
    ($vector:ty $(, $features:literal)?) => {
        /// # Safety
        /// See [`product::quantized`]; the processor has the features.
        $(#[target_feature(enable = $features)])?
        unsafe fn quantized<K: product::Kind>(
            weights: *const u8,
            stride: usize,
            x: *const Quantized,
            blocks: usize,
            count: usize,
            out: *mut f32,
        ) {
            // SAFETY: the caller's promise.
            unsafe { product::quantized::<$vector, K>(weights, stride, x, blocks, count, out) }
        }

        /// # Safety
        /// See [`product::plain`]; the processor has the features.
        $(#[target_feature(enable = $features)])?
        unsafe fn plain<K: product::Kind>(
            weights: *const u8,
            stride: usize,
            x: *const f32,
            columns: usize,
            count: usize,
            out: *mut f32,
        ) {
            // SAFETY: the caller's promise.
            unsafe { product::plain::<$vector, K>(weights, stride, x, columns, count, out) }
        }

        pub(in crate::kernels) fn kernel(kind: GgmlType) -> Kernel {
            use product::kinds;
            let groups = <$vector as Vector>::GROUPS;
            match kind {
                GgmlType::F32 => Kernel::plain(groups, plain::<kinds::F32>),
                GgmlType::F16 => Kernel::plain(groups, plain::<kinds::F16>),
                GgmlType::BF16 => Kernel::plain(groups, plain::<kinds::BF16>),
                GgmlType::Q4_0 => Kernel::quantized(groups, quantized::<kinds::Q4_0>),
                GgmlType::Q4_1 => Kernel::quantized(groups, quantized::<kinds::Q4_1>),
                GgmlType::Q5_0 => Kernel::quantized(groups, quantized::<kinds::Q5_0>),
                GgmlType::Q5_1 => Kernel::quantized(groups, quantized::<kinds::Q5_1>),
                GgmlType::Q8_0 => Kernel::quantized(groups, quantized::<kinds::Q8_0>),
                GgmlType::Q4_K => Kernel::quantized(groups, quantized::<kinds::Q4_K>),
                GgmlType::Q5_K => Kernel::quantized(groups, quantized::<kinds::Q5_K>),
                GgmlType::Q6_K => Kernel::quantized(groups, quantized::<kinds::Q6_K>),
            }
        }
    };
}
pub(super) use kernels;

/// What a processor offers, whether or not it is right.
fn offered(cpu: Cpu, kind: GgmlType) -> Kernel {
    match cpu {
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx2 => super::avx2::base::kernel(kind),
        #[cfg(target_arch = "x86_64")]
        Cpu::AvxVnni => super::avx2::vnni::kernel(kind),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx512 => super::avx512::base::kernel(kind),
        #[cfg(target_arch = "x86_64")]
        Cpu::Avx512Vnni | Cpu::Amx => super::avx512::vnni::kernel(kind),
        #[cfg(target_arch = "aarch64")]
        Cpu::Neon => super::neon::base::kernel(kind),
        #[cfg(target_arch = "aarch64")]
        Cpu::NeonDot => super::neon::dot::kernel(kind),
        _ => super::portable::kernel(kind),
    }
}

/// The widest at or below `cpu` that agrees with plain code.
fn checked(cpu: Cpu, kind: GgmlType) -> Kernel {
    let mut candidate = Some(cpu);
    while let Some(cpu) = candidate {
        if cpu != Cpu::Portable && cpu.is_there() {
            let difference = difference(offered(cpu, kind), kind);
            if difference < 1e-3 {
                return offered(cpu, kind);
            }
            tracing::warn!(
                kind = %kind, cpu = cpu.name(), difference,
                "a kernel disagrees with plain code on this processor and is not used; please report the processor's model"
            );
        }
        candidate = cpu.narrower();
    }
    offered(Cpu::Portable, kind)
}

/// Norm of the difference from plain code over the norm of its result, on a small matrix; 1 where that is no number.
fn difference(kernel: Kernel, kind: GgmlType) -> f64 {
    const COLUMNS: usize = 512;
    const COUNT: usize = 3;
    let rows = GROUP * kernel.groups;
    let bytes = super::sample::blocks(kind, rows * COLUMNS / kind.block_len(), 0x7e11_ace5);
    let packed = layout::pack(kind, &bytes, rows, COLUMNS);
    let x: Vec<f32> = (0..COUNT * COLUMNS).map(|i| (i as f32 * 0.77).sin()).collect();
    let mut small = vec![Quantized::ZERO; x.len() / BLOCK];
    quantize(&x, &mut small);
    let x = if takes_quantized(kind) { Rows::Quantized(&small) } else { Rows::Plain(&x) };
    let plain = offered(Cpu::Portable, kind);
    let (mut worst, group) = (0.0f64, packed.len() / kernel.groups);
    // One row of activations and several take different ways.
    for count in [1, COUNT] {
        let mut found = vec![f32::NAN; rows * count];
        kernel.run(kind, COLUMNS, &packed, x, count, &mut found);
        let (mut off, mut norm) = (0.0, 0.0);
        for (index, weights) in packed.chunks_exact(group).enumerate() {
            let mut expected = vec![0.0; GROUP * count];
            plain.run(kind, COLUMNS, weights, x, count, &mut expected);
            for (row, expected) in expected.chunks_exact(GROUP).enumerate() {
                for (found, expected) in found[row * rows + index * GROUP..].iter().zip(expected) {
                    off += f64::from(found - expected).powi(2);
                    norm += f64::from(*expected).powi(2);
                }
            }
        }
        let difference = (off / norm).sqrt();
        worst = worst.max(if difference.is_finite() { difference } else { 1.0 });
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_processors_stand_at_their_own_number() {
        assert!(GgmlType::ALL.iter().enumerate().all(|(i, kind)| *kind as usize == i));
        assert!(Cpu::ALL.iter().enumerate().all(|(i, cpu)| *cpu as usize == i));
    }

    /// A kernel with a scale that is a hundredth off, as a wrong shift or a wrong lane would at least be.
    #[test]
    fn a_kernel_that_is_wrong_is_found() {
        unsafe fn wrong(w: *const u8, s: usize, x: *const Quantized, blocks: usize, count: usize, out: *mut f32) {
            let Product::Quantized(right) = super::super::portable::kernel(GgmlType::Q4_K).product else { panic!() };
            // SAFETY: the same promise.
            unsafe {
                right(w, s, x, blocks, count, out);
                (0..GROUP * count).for_each(|i| *out.add(i) *= 1.01);
            }
        }
        let kind = GgmlType::Q4_K;
        assert!(difference(Kernel::quantized(1, wrong), kind) > 5e-3);
        assert!(difference(offered(Cpu::Portable, kind), kind) < 1e-9);
    }
}
