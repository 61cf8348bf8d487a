//! What this machine gives the engine: instructions of its processor, cores that the container may use.

mod cores;
mod cpu;

pub use cores::granted_cores;
pub use cpu::Cpu;
