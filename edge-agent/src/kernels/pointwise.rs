//! What lies between the products: normalisation and the gate, each in one pass.
#![allow(unsafe_code, reason = "the same plain code compiled for wider vectors, called only where they are")]

use super::distribution::exp;
use crate::device::Cpu;

/// Defines a function whose body is compiled for AVX2 as well and picked at run time.
macro_rules! widest {
    ($(#[$doc:meta])* pub fn $name:ident($($arg:ident: $type:ty),*) $body:block) => {
        $(#[$doc])*
        pub fn $name($($arg: $type),*) {
            #[inline(always)]
            fn plain($($arg: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            if Cpu::detect() == Cpu::Avx2 {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) { plain($($arg),*) }
                // SAFETY: the processor was just asked.
                return unsafe { wide($($arg),*) };
            }
            plain($($arg),*)
        }
    };
}

widest! {
    /// Each row of `x` over its root mean square, times `gamma`.
    pub fn rms_norm(x: &[f32], gamma: &[f32], epsilon: f32, out: &mut [f32]) {
        let width = gamma.len();
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let mean = super::portable::dot(x, x) / width as f32;
            let scale = 1.0 / (mean + epsilon).sqrt();
            for ((out, x), gamma) in out.iter_mut().zip(x).zip(gamma) {
                *out = x * scale * gamma;
            }
        }
    }
}

widest! {
    /// Each row of `x` is a gate and, behind it, what passes: `silu(gate) * up`, rows of half the width.
    pub fn gated_silu(x: &[f32], width: usize, out: &mut [f32]) {
        for (x, out) in x.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
            let (gate, up) = x.split_at(width);
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                let e = exp((-gate.abs()).max(-87.0));
                let numerator = if *gate >= 0.0 { 1.0 } else { e };
                *out = gate * (numerator / (1.0 + e)) * up;
            }
        }
    }
}

widest! {
    /// As [`gated_silu`], with the Gaussian's gate by its approximation with `tanh` (Hendrycks and Gimpel 2016):
    /// `x / 2 * (1 + tanh(u))` is `x` times the sigmoid of `2u`.
    pub fn gated_gelu(x: &[f32], width: usize, out: &mut [f32]) {
        // Twice the root of 2/pi.
        const SLOPE: f32 = 1.595_769_1;
        for (x, out) in x.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
            let (gate, up) = x.split_at(width);
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                let u = SLOPE * gate * (1.0 + 0.044_715 * gate * gate);
                let e = exp((-u.abs()).max(-87.0));
                let numerator = if u >= 0.0 { 1.0 } else { e };
                *out = gate * (numerator / (1.0 + e)) * up;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalisation_is_its_formula() {
        let x: Vec<f32> = (0..2 * 50).map(|i| (i as f32 * 0.3).cos() * 4.0).collect();
        let gamma: Vec<f32> = (0..50).map(|i| 1.0 + i as f32 * 0.01).collect();
        let mut out = vec![0.0; 100];
        rms_norm(&x, &gamma, 1e-5, &mut out);
        for (row, out) in x.chunks(50).zip(out.chunks(50)) {
            let mean: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 50.0;
            for ((x, g), o) in row.iter().zip(&gamma).zip(out) {
                let exact = f64::from(*x) / (mean + 1e-5).sqrt() * f64::from(*g);
                assert!((exact - f64::from(*o)).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn the_gaussian_gate_is_its_formula() {
        let width = 201;
        let gate: Vec<f32> = (0..width).map(|i| (i as f32 - 100.0) * 0.1).collect();
        let x: Vec<f32> = gate.iter().copied().chain((0..width).map(|i| 1.0 + i as f32 * 0.01)).collect();
        let mut out = vec![0.0; width];
        gated_gelu(&x, width, &mut out);
        for i in 0..width {
            let (g, up) = (f64::from(x[i]), f64::from(x[width + i]));
            let u = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g.powi(3));
            let exact = 0.5 * g * (1.0 + u.tanh()) * up;
            assert!((exact - f64::from(out[i])).abs() <= 1e-5 * exact.abs() + 1e-6, "{g}: {exact} {}", out[i]);
        }
    }

    #[test]
    fn the_gate_is_its_formula() {
        let width = 401;
        let gate: Vec<f32> = (0..width).map(|i| (i as f32 - 200.0) * 0.5).collect();
        let x: Vec<f32> = gate.iter().copied().chain((0..width).map(|i| 1.0 + i as f32 * 0.01)).collect();
        let mut out = vec![0.0; width];
        gated_silu(&x, width, &mut out);
        for i in 0..width {
            let (g, up) = (f64::from(x[i]), f64::from(x[width + i]));
            let exact = g / (1.0 + (-g).exp()) * up;
            assert!((exact - f64::from(out[i])).abs() <= 1e-6 * exact.abs() + 1e-7, "{g}: {exact} {}", out[i]);
        }
    }
}
