//! What the engine runs on: what was asked for, held against what this build knows and this machine has.

use terrace_contract::status::DeviceStatus;

use super::Cpu;
use crate::args::Device;

/// A device that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// The processor.
    #[default]
    Cpu,
    /// The first NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda,
    /// A device of Vulkan.
    #[cfg(feature = "vulkan")]
    Vulkan(super::vulkan::Adapter),
}

/// The device, and what status says of it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Where the network is put.
    pub target: Target,
    /// Kind, name, and for `auto` on a processor why it is no GPU.
    pub status: DeviceStatus,
}

/// Looks for the device that is wanted. `cores` are those that the CPU's kernels would use.
///
/// # Errors
/// A sentence that says what is missing and where it comes from. `Auto` and `Cpu` never fail.
pub fn choose(wanted: Device, cores: usize) -> Result<Choice, String> {
    match wanted {
        Device::Cpu => Ok(cpu(cores, None)),
        Device::Cuda => cuda().map_err(|why| format!("--device cuda: {why}; or use --device cpu")),
        Device::Vulkan => vulkan(true).map_err(|why| format!("--device vulkan: {why}; or use --device cpu")),
        Device::Auto => Ok(auto(cores)),
    }
}

fn auto(cores: usize) -> Choice {
    if !cfg!(any(feature = "cuda", feature = "vulkan")) {
        return cpu(cores, Some("this build of the agent knows no GPU".into()));
    }
    let mut reasons = Vec::new();
    for (name, found) in [("cuda", cuda()), ("vulkan", vulkan(false))] {
        match found {
            Ok(choice) => return choice,
            Err(why) => reasons.push(format!("{name}: {why}")),
        }
    }
    cpu(cores, Some(reasons.join(". ")))
}

fn cpu(cores: usize, fallback: Option<String>) -> Choice {
    let unit = if cores == 1 { "core" } else { "cores" };
    let status = DeviceStatus { kind: "cpu".into(), detail: format!("{}, {cores} {unit}", Cpu::detect()), fallback };
    Choice { target: Target::Cpu, status }
}

#[cfg(feature = "cuda")]
fn cuda() -> Result<Choice, String> {
    let found = super::cuda::probe(&super::cuda::Places::usual()).map_err(|missing| missing.to_string())?;
    let detail = format!("{}, CUDA {}", found.name, found.driver);
    Ok(Choice { target: Target::Cuda, status: DeviceStatus { kind: "cuda".into(), detail, fallback: None } })
}

#[cfg(not(feature = "cuda"))]
fn cuda() -> Result<Choice, String> {
    Err("this build of the agent has no CUDA: use the image terrace-agent-cuda".into())
}

/// `software`: a device that is the processor itself will do.
#[cfg(feature = "vulkan")]
fn vulkan(software: bool) -> Result<Choice, String> {
    let found = super::vulkan::probe(software).map_err(|missing| missing.to_string())?;
    let status = DeviceStatus { kind: "vulkan".into(), detail: found.name, fallback: None };
    Ok(Choice { target: Target::Vulkan(found.adapter), status })
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_software: bool) -> Result<Choice, String> {
    Err("this build of the agent has no Vulkan: build it with --features vulkan".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_always_there_and_auto_says_why_it_is_taken() {
        let cpu = choose(Device::Cpu, 1).unwrap();
        assert_eq!((cpu.target, cpu.status.fallback.as_deref()), (Target::Cpu, None));
        assert!(cpu.status.detail.ends_with(", 1 core"), "{}", cpu.status.detail);
        let auto = choose(Device::Auto, 4).unwrap();
        assert_eq!(auto.target == Target::Cpu, auto.status.fallback.is_some(), "{:?}", auto.status);
    }

    #[cfg(not(any(feature = "cuda", feature = "vulkan")))]
    #[test]
    fn a_build_without_gpus_says_so() {
        assert_eq!(
            choose(Device::Cuda, 1).unwrap_err(),
            "--device cuda: this build of the agent has no CUDA: use the image terrace-agent-cuda; or use --device cpu"
        );
        assert_eq!(
            choose(Device::Vulkan, 1).unwrap_err(),
            "--device vulkan: this build of the agent has no Vulkan: build it with --features vulkan; or use --device cpu"
        );
        let fallback = choose(Device::Auto, 1).unwrap().status.fallback;
        assert_eq!(fallback.as_deref(), Some("this build of the agent knows no GPU"));
    }
}
