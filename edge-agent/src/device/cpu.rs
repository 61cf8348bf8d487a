//! Instructions of the processor, asked once.

/// The kernels' choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpu {
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// Anything: plain code.
    Portable,
}

impl Cpu {
    /// What this processor has.
    pub fn detect() -> Cpu {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c")
        {
            return Cpu::Avx2;
        }
        Cpu::Portable
    }
}

impl std::fmt::Display for Cpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Cpu::Avx2 => "AVX2",
            Cpu::Portable => "portable",
        })
    }
}
