//! Instructions of the processor, and the choice among them.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The kernels' choices, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// Anything: plain code.
    Portable,
    /// 64-bit ARM with its usual vectors.
    Neon,
    /// With 8-bit dot products (ARMv8.2 and later).
    NeonDot,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX2 with 8-bit dot products: small cores that have no AVX-512.
    AvxVnni,
    /// AVX-512 with 8-bit dot products.
    Avx512Vnni,
    /// That, and AMX for prompts: tiles of 8-bit numbers.
    Amx,
}

/// What [`Cpu::detect`] says: one more than the place in [`Cpu::ALL`]; 0 before it was asked.
static CHOICE: AtomicU8 = AtomicU8::new(0);

impl Cpu {
    /// Every choice, narrowest first.
    pub const ALL: [Cpu; 8] =
        [Cpu::Portable, Cpu::Neon, Cpu::NeonDot, Cpu::Avx2, Cpu::Avx512, Cpu::AvxVnni, Cpu::Avx512Vnni, Cpu::Amx];

    /// The widest that this processor has, unless [`Cpu::choose`] said otherwise.
    pub fn detect() -> Cpu {
        let chosen = CHOICE.load(Relaxed);
        if let Some(cpu) = usize::from(chosen).checked_sub(1).and_then(|at| Cpu::ALL.get(at)) {
            return *cpu;
        }
        let widest = Cpu::ALL.into_iter().rfind(|cpu| cpu.is_there()).unwrap_or(Cpu::Portable);
        CHOICE.store(widest as u8 + 1, Relaxed);
        widest
    }

    /// Makes [`Cpu::detect`] answer this from now on. Counts before the first product.
    ///
    /// # Errors
    /// If this processor does not have it; the sentence says what there is.
    pub fn choose(self) -> Result<(), String> {
        if !self.is_there() {
            let there: Vec<_> = Cpu::ALL.iter().filter(|c| c.is_there()).map(|c| c.name()).collect();
            return Err(format!("this processor has no {self}: choose one of {}", there.join(", ")));
        }
        CHOICE.store(self as u8 + 1, Relaxed);
        Ok(())
    }

    /// Whether this processor has the instructions.
    pub fn is_there(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma") && has!("f16c");
            let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            match self {
                Cpu::Portable => true,
                Cpu::Avx2 => avx2,
                Cpu::AvxVnni => avx2 && has!("avxvnni"),
                Cpu::Avx512 => avx512,
                Cpu::Avx512Vnni => avx512 && has!("avx512vnni"),
                Cpu::Amx => avx512 && has!("avx512vnni") && super::amx::is_there(),
                Cpu::Neon | Cpu::NeonDot => false,
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected as has;
            match self {
                Cpu::Portable => true,
                Cpu::Neon => has!("neon"),
                Cpu::NeonDot => has!("neon") && has!("dotprod"),
                _ => false,
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            self == Cpu::Portable
        }
    }

    /// Whether code that asks for AVX2, FMA and F16C may run.
    pub fn has_avx2(self) -> bool {
        matches!(self, Cpu::Avx2 | Cpu::AvxVnni) || self.has_avx512()
    }

    /// Whether code that asks for AVX-512 F, BW, DQ and VL may run.
    pub fn has_avx512(self) -> bool {
        matches!(self, Cpu::Avx512 | Cpu::Avx512Vnni | Cpu::Amx)
    }

    /// What to fall back to where this one's kernel is not to be trusted.
    pub fn narrower(self) -> Option<Cpu> {
        match self {
            Cpu::Portable => None,
            Cpu::Neon | Cpu::Avx2 => Some(Cpu::Portable),
            Cpu::NeonDot => Some(Cpu::Neon),
            Cpu::Avx512 | Cpu::AvxVnni => Some(Cpu::Avx2),
            Cpu::Avx512Vnni => Some(Cpu::Avx512),
            Cpu::Amx => Some(Cpu::Avx512Vnni),
        }
    }

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Cpu::Portable => "portable",
            Cpu::Neon => "neon",
            Cpu::NeonDot => "neon-dot",
            Cpu::Avx2 => "avx2",
            Cpu::Avx512 => "avx512",
            Cpu::AvxVnni => "avx-vnni",
            Cpu::Avx512Vnni => "avx512-vnni",
            Cpu::Amx => "amx",
        }
    }
}

impl std::str::FromStr for Cpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpu, String> {
        Cpu::ALL.into_iter().find(|cpu| cpu.name() == text).ok_or_else(|| {
            let names = Cpu::ALL.map(Cpu::name);
            format!("`{text}` is none of {}", names.join(", "))
        })
    }
}

impl std::fmt::Display for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cpu::Portable => "portable",
            Cpu::Neon => "NEON",
            Cpu::NeonDot => "NEON with dot products",
            Cpu::Avx2 => "AVX2",
            Cpu::Avx512 => "AVX-512",
            Cpu::AvxVnni => "AVX2 with VNNI",
            Cpu::Avx512Vnni => "AVX-512 with VNNI",
            Cpu::Amx => "AVX-512 with VNNI and AMX",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_down_ends_at_plain_code() {
        for mut cpu in Cpu::ALL {
            assert_eq!(cpu.name().parse(), Ok(cpu));
            let mut steps = 0;
            while let Some(narrower) = cpu.narrower() {
                assert!(!cpu.is_there() || narrower.is_there(), "{cpu} without {narrower}");
                (cpu, steps) = (narrower, steps + 1);
            }
            assert!(cpu == Cpu::Portable && steps < 5);
        }
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        assert!("sse9".parse::<Cpu>().unwrap_err().contains("`sse9`"));
        let missing = Cpu::ALL.into_iter().find(|cpu| !cpu.is_there()).unwrap();
        let refused = missing.choose().unwrap_err();
        assert!(refused.contains(&missing.to_string()) && refused.contains("portable"), "{refused}");
    }
}
