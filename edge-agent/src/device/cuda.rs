//! Can CUDA be used here? Asked before burn is: burn panics where the driver, NVRTC or its headers are absent.
//!
//! Kernels are compiled on the node by NVRTC (`libnvrtc`), against the CUDA headers, and given to the driver
//! (`libcuda`). Each may be missing alone, and each comes from elsewhere.
#![allow(unsafe_code, reason = "functions of the driver and of NVRTC, opened at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::PathBuf;

use libloading::{Library, Symbol};

/// A version of CUDA. The driver's says what it can run; NVRTC's, what it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// For example 12.
    pub major: c_int,
    /// For example 8.
    pub minor: c_int,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A usable CUDA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuda {
    /// The first GPU's name.
    pub name: String,
    /// What the driver can run.
    pub driver: Version,
}

/// Why CUDA cannot be used, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No driver.
    #[error(
        "libcuda.so.1 is not there: it comes with NVIDIA's driver; install the driver on this node and, in Kubernetes, \
         NVIDIA's container toolkit, and give the pod its runtime class (`gpu.runtimeClassName: nvidia`)"
    )]
    Driver,
    /// A driver that does not know a function.
    #[error("libcuda.so.1 has no function {0}: the driver is too old; install one for CUDA 12 or later")]
    Function(&'static str),
    /// `cuInit` failed.
    #[error(
        "the NVIDIA driver does not start ({0}): run nvidia-smi on the node; a driver that was just updated needs a reboot"
    )]
    Start(String),
    /// No GPU.
    #[error(
        "the NVIDIA driver shows this process no GPU: give the pod one (`gpu.resource: nvidia.com/gpu`), and look at \
         CUDA_VISIBLE_DEVICES"
    )]
    Gpu,
    /// No compiler.
    #[error(
        "libnvrtc.so.12 is not there: the image terrace-agent-cuda carries it; elsewhere it comes with the CUDA toolkit \
         or the PyPI package nvidia-cuda-nvrtc-cu12, and LD_LIBRARY_PATH must name its folder"
    )]
    Compiler,
    /// A compiler whose output the driver does not take.
    #[error(
        "libnvrtc is of CUDA {compiler}, the driver of CUDA {driver}: NVRTC must not be newer; update the driver, or \
         use an image or toolkit of CUDA {driver} or older"
    )]
    Versions {
        /// NVRTC's.
        compiler: Version,
        /// The driver's.
        driver: Version,
    },
    /// No headers.
    #[error(
        "the CUDA headers are not there ({0}): the image terrace-agent-cuda carries them; elsewhere they come with the \
         CUDA toolkit, and CUDA_PATH must name the folder that holds include/"
    )]
    Headers(String),
}

/// Where the parts are looked for.
#[derive(Debug, Clone)]
pub struct Places {
    /// Names of the driver's library; the first that opens is taken.
    pub driver: Vec<PathBuf>,
    /// Names of NVRTC's.
    pub compiler: Vec<PathBuf>,
    /// Folders of a CUDA toolkit; the first that is there is taken.
    pub toolkits: Vec<PathBuf>,
}

impl Places {
    /// The names and folders that burn's CUDA runtime looks for, in its order.
    pub fn usual() -> Places {
        let toolkits = match std::env::var_os("CUDA_PATH") {
            Some(path) => vec![path.into()],
            None => ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from).to_vec(),
        };
        Places {
            driver: ["libcuda.so", "libcuda.so.1"].map(PathBuf::from).to_vec(),
            compiler: ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.11"].map(PathBuf::from).to_vec(),
            toolkits,
        }
    }
}

/// Looks for the parts, in the order in which they would be needed.
///
/// # Errors
/// The first that is missing.
pub fn probe(places: &Places) -> Result<Cuda, Missing> {
    let driver = open(&places.driver).ok_or(Missing::Driver)?;
    start(&driver)?;
    let (name, version) = describe(&driver)?;
    let compiler = open(&places.compiler).and_then(|library| compiler_version(&library)).ok_or(Missing::Compiler)?;
    if compiler > version {
        return Err(Missing::Versions { compiler, driver: version });
    }
    let toolkit = places.toolkits.iter().find(|path| path.exists());
    let header = |path: &PathBuf| path.join("include/cuda_runtime.h");
    if !toolkit.is_some_and(|path| header(path).exists()) {
        let looked = toolkit.into_iter().chain(&places.toolkits).next().map(header);
        return Err(Missing::Headers(looked.unwrap_or_default().display().to_string()));
    }
    Ok(Cuda { name, driver: version })
}

fn open(names: &[PathBuf]) -> Option<Library> {
    // SAFETY: opening runs the library's initialisers. These are the vendor's own, which burn would run as well.
    names.iter().find_map(|name| unsafe { Library::new(name) }.ok())
}

/// A function of the driver.
///
/// # Safety
/// `F` is its type.
unsafe fn function<'a, F>(library: &'a Library, name: &'static str) -> Result<Symbol<'a, F>, Missing> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name) }.map_err(|_| Missing::Function(name))
}

type NumberOut = unsafe extern "C" fn(*mut c_int) -> c_int;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: c_int = 100;

fn start(driver: &Library) -> Result<(), Missing> {
    // SAFETY: types as in NVIDIA's cuda.h; each pointer is to a local that outlives the call.
    unsafe {
        let init = function::<unsafe extern "C" fn(c_uint) -> c_int>(driver, "cuInit")?;
        match init(0) {
            0 => {}
            NO_DEVICE => return Err(Missing::Gpu),
            code => return Err(Missing::Start(error_name(driver, code))),
        }
        let mut count = 0;
        let counted = function::<NumberOut>(driver, "cuDeviceGetCount")?(&mut count);
        if counted != 0 || count < 1 { Err(Missing::Gpu) } else { Ok(()) }
    }
}

/// `cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)`.
fn error_name(driver: &Library, code: c_int) -> String {
    type Name = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    // SAFETY: types as in cuda.h; the name is a constant of the driver, which is still open while it is copied.
    unsafe {
        let mut name = std::ptr::null();
        match function::<Name>(driver, "cuGetErrorName") {
            Ok(function) if function(code, &mut name) == 0 && !name.is_null() => {
                format!("cuInit: {} ({code})", CStr::from_ptr(name).to_string_lossy())
            }
            _ => format!("cuInit: {code}"),
        }
    }
}

fn describe(driver: &Library) -> Result<(String, Version), Missing> {
    type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    // SAFETY: types as in cuda.h, where a device is an int; the buffer is as long as is said, and stays terminated as
    // its last byte is not offered.
    unsafe {
        let mut number = 0;
        function::<NumberOut>(driver, "cuDriverGetVersion")?(&mut number);
        let mut device = 0;
        function::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>(driver, "cuDeviceGet")?(&mut device, 0);
        let mut name = [0 as c_char; 256];
        function::<Name>(driver, "cuDeviceGetName")?(name.as_mut_ptr(), 255, device);
        let name = CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned();
        Ok((name, Version { major: number / 1000, minor: number % 1000 / 10 }))
    }
}

fn compiler_version(library: &Library) -> Option<Version> {
    // SAFETY: the type is that of nvrtc.h; both pointers are to locals.
    unsafe {
        let version = library.get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion").ok()?;
        let mut found = Version { major: 0, minor: 0 };
        (version(&mut found.major, &mut found.minor) == 0).then_some(found)
    }
}
