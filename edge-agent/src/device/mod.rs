//! What this machine gives the engine: instructions of its processor, cores that the container may use, its GPU.

mod amx;
mod cgroup;
mod cores;
mod cpu;
pub mod cuda;
mod memory;
mod pages;
mod probe;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use cores::granted_cores;
pub use cpu::Cpu;
pub use memory::usable_memory;
pub use pages::large;
pub use probe::{Choice, Target, choose};
