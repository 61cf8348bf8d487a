//! What lies between the products: normalisation and the gate, each in one pass.
#![allow(unsafe_code, reason = "the same plain code compiled for wider vectors, called only where they are")]

use super::distribution::exp;
use super::pool::{Parts, for_each, threads};

/// Defines a function whose body is compiled for AVX2 and AVX-512 as well and picked at run time.
macro_rules! widest {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*) $body:block) => {
        $(#[$meta])*
        fn $name($($arg: $type),*) {
            #[inline(always)]
            fn plain($($arg: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            if $crate::device::Cpu::detect().has_avx512() {
                #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
                fn widest($($arg: $type),*) { plain($($arg),*) }
                // SAFETY: the processor was just asked.
                return unsafe { widest($($arg),*) };
            }
            #[cfg(target_arch = "x86_64")]
            if $crate::device::Cpu::detect().has_avx2() {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) { plain($($arg),*) }
                // SAFETY: the processor was just asked.
                return unsafe { wide($($arg),*) };
            }
            plain($($arg),*)
        }
    };
}

pub(super) use widest;

/// Rows of `from` numbers to rows of `to` numbers; many rows on several threads.
fn by_rows(x: &[f32], from: usize, out: &mut [f32], to: usize, work: impl Fn(&[f32], &mut [f32]) + Sync) {
    let count = out.len() / to;
    assert!(x.len() == count * from && out.len() == count * to, "rows of the wrong length");
    if out.len() < 16_384 {
        return work(x, out);
    }
    let run = count.div_ceil(threads() * 2);
    let parts = Parts::new(out);
    for_each(count.div_ceil(run), true, |index| {
        let rows = run.min(count - index * run);
        // SAFETY: each run of rows is taken by one index.
        let out = unsafe { parts.part(index * run * to, rows * to) };
        work(&x[index * run * from..][..rows * from], out);
    });
}

/// Adds `y` to `x`, number by number.
pub fn add(x: &mut [f32], y: &[f32]) {
    assert!(x.len() == y.len(), "of different lengths");
    let run = if x.len() < 65_536 { x.len() } else { x.len().div_ceil(threads() * 2) };
    let (count, len) = (x.len().div_ceil(run.max(1)), x.len());
    let parts = Parts::new(x);
    for_each(count, true, |index| {
        let at = index * run;
        // SAFETY: each run is taken by one index.
        let x = unsafe { parts.part(at, run.min(len - at)) };
        sum(x, &y[at..at + x.len()]);
    });
}

/// Each row of `x` over its root mean square, times `gamma`.
pub fn rms_norm(x: &[f32], gamma: &[f32], epsilon: f32, out: &mut [f32]) {
    by_rows(x, gamma.len(), out, gamma.len(), |x, out| normalise(x, gamma, epsilon, out));
}

/// Each row of `x` is a gate and, behind it, what passes: `silu(gate) * up`, rows of half the width.
pub fn gated_silu(x: &[f32], width: usize, out: &mut [f32]) {
    by_rows(x, 2 * width, out, width, |x, out| silu_rows(x, width, out));
}

/// Likewise with the Gaussian's gate by its approximation with `tanh` (Hendrycks and Gimpel 2016):
/// `x / 2 * (1 + tanh(u))` is `x` times the sigmoid of `2u`.
pub fn gated_gelu(x: &[f32], width: usize, out: &mut [f32]) {
    by_rows(x, 2 * width, out, width, |x, out| gelu_rows(x, width, out));
}

/// Sum of products, in lanes that the compiler can turn into vectors.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// 1 / (1 + e^-x), from an exponential that cannot overflow.
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    let e = exp((-x.abs()).max(-87.0));
    let numerator = if x >= 0.0 { 1.0 } else { e };
    numerator / (1.0 + e)
}

/// `gate(g) * up` for each pair of a row's halves.
#[inline(always)]
fn gated(x: &[f32], width: usize, out: &mut [f32], gate: impl Fn(f32) -> f32) {
    for (x, out) in x.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
        let (gates, up) = x.split_at(width);
        for ((out, g), up) in out.iter_mut().zip(gates).zip(up) {
            *out = gate(*g) * up;
        }
    }
}

widest! {
    fn normalise(x: &[f32], gamma: &[f32], epsilon: f32, out: &mut [f32]) {
        let width = gamma.len();
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let mean = dot(x, x) / width as f32;
            let scale = 1.0 / (mean + epsilon).sqrt();
            for ((out, x), gamma) in out.iter_mut().zip(x).zip(gamma) {
                *out = x * scale * gamma;
            }
        }
    }
}

widest! {
    fn sum(x: &mut [f32], y: &[f32]) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += *y);
    }
}

widest! {
    fn silu_rows(x: &[f32], width: usize, out: &mut [f32]) {
        gated(x, width, out, |g| g * sigmoid(g));
    }
}

widest! {
    fn gelu_rows(x: &[f32], width: usize, out: &mut [f32]) {
        // Twice the root of 2/pi.
        const SLOPE: f32 = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
        gated(x, width, out, |g| g * sigmoid(SLOPE * g * (1.0 + 0.044_715 * g * g)));
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
    fn many_rows_are_each_row() {
        let width = 40;
        let x: Vec<f32> = (0..1000 * 2 * width).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
        let mut all = vec![0.0; 1000 * width];
        gated_silu(&x, width, &mut all);
        for (x, all) in x.chunks(2 * width).zip(all.chunks(width)) {
            let mut one = vec![0.0; width];
            gated_silu(x, width, &mut one);
            assert_eq!(one, all);
        }
    }

    #[test]
    fn the_gates_are_their_formulas() {
        let width = 401;
        let gate: Vec<f32> = (0..width).map(|i| (i as f32 - 200.0) * 0.5).collect();
        let x: Vec<f32> = gate.iter().copied().chain((0..width).map(|i| 1.0 + i as f32 * 0.01)).collect();
        let mut out = vec![0.0; width];
        let mut gelu = vec![0.0; width];
        gated_silu(&x, width, &mut out);
        gated_gelu(&x, width, &mut gelu);
        for i in 0..width {
            let (g, up) = (f64::from(x[i]), f64::from(x[width + i]));
            let exact = g / (1.0 + (-g).exp()) * up;
            assert!((exact - f64::from(out[i])).abs() <= 1e-6 * exact.abs() + 1e-7, "{g}: {exact} {}", out[i]);
            let u = (2.0 / std::f64::consts::PI).sqrt() * (g + 0.044715 * g.powi(3));
            let exact = 0.5 * g * (1.0 + u.tanh()) * up;
            assert!((exact - f64::from(gelu[i])).abs() <= 2e-6 * exact.abs() + 1e-6, "{g}: {exact} {}", gelu[i]);
        }
    }
}
