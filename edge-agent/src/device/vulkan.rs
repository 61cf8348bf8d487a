//! Can Vulkan be used here? Asked before burn is: burn panics where the loader or a device is absent.
#![allow(unsafe_code, reason = "the loader is opened at run time")]

use burn_wgpu::WgpuDevice;
use futures::FutureExt as _;
use wgpu::{Backends, DeviceType, Features, Instance, InstanceDescriptor};

/// Which of the machine's devices: burn counts them by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adapter {
    kind: DeviceType,
    index: usize,
    /// Bytes of a buffer, at most.
    pub largest_buffer: u64,
}

impl Adapter {
    /// As burn names it.
    pub fn device(self) -> WgpuDevice {
        match self.kind {
            DeviceType::DiscreteGpu => WgpuDevice::DiscreteGpu(self.index),
            DeviceType::IntegratedGpu => WgpuDevice::IntegratedGpu(self.index),
            DeviceType::VirtualGpu => WgpuDevice::VirtualGpu(self.index),
            DeviceType::Cpu => WgpuDevice::Cpu,
            DeviceType::Other => WgpuDevice::DefaultDevice,
        }
    }
}

/// A usable device of Vulkan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vulkan {
    /// Its name and driver.
    pub name: String,
    /// Where it is.
    pub adapter: Adapter,
}

/// Why Vulkan cannot be used, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No loader.
    #[error("libvulkan.so.1 is not there: install Vulkan's loader (Debian: libvulkan1) and the GPU's driver")]
    Loader,
    /// No device.
    #[error(
        "Vulkan knows no device: install the GPU's Vulkan driver (Debian: mesa-vulkan-drivers; NVIDIA's own comes with \
         its driver) and give the process the GPU's files in /dev/dri"
    )]
    Device,
    /// Only the processor itself.
    #[error("Vulkan knows only {0}, which is this processor: the CPU's own kernels are faster")]
    Software(String),
    /// A device that cannot hold the KV cache's numbers.
    #[error(
        "{0} has no 16-bit floating point (shaderFloat16, storageBuffer16BitAccess), which the KV cache is made of"
    )]
    Half(String),
}

/// Looks for the best device: a GPU of its own before one that shares the processor's memory. `software`: one that is
/// the processor itself will do.
///
/// # Errors
/// What is missing.
pub fn probe(software: bool) -> Result<Vulkan, Missing> {
    // SAFETY: opening runs the initialisers of the system's Vulkan loader, which burn would run as well.
    drop(unsafe { libloading::Library::new("libvulkan.so.1") }.map_err(|_| Missing::Loader)?);
    let descriptor =
        InstanceDescriptor { backends: Backends::VULKAN, ..InstanceDescriptor::new_without_display_handle() };
    // Natively the list is there at once.
    let found = Instance::new(descriptor).enumerate_adapters(Backends::VULKAN).now_or_never().unwrap_or_default();
    let mut counts = [0; 5];
    let numbered = found.into_iter().map(|adapter| {
        let info = adapter.get_info();
        let count = &mut counts[rank(info.device_type)];
        *count += 1;
        let limits = adapter.limits();
        let largest_buffer = limits.max_buffer_size.min(limits.max_storage_buffer_binding_size.into());
        let place = Adapter { kind: info.device_type, index: *count - 1, largest_buffer };
        (place, info.name, adapter.features().contains(Features::SHADER_F16))
    });
    let (adapter, name, half) =
        numbered.min_by_key(|(place, _, half)| (!half, rank(place.kind))).ok_or(Missing::Device)?;
    if adapter.kind == DeviceType::Cpu && !software {
        return Err(Missing::Software(name));
    }
    if half { Ok(Vulkan { name, adapter }) } else { Err(Missing::Half(name)) }
}

fn rank(kind: DeviceType) -> usize {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}
