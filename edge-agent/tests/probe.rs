//! What is said where a part of CUDA is missing. The parts are small libraries made here, with the functions that are
//! asked: machines with an old driver, a broken one, or a driver without a GPU cannot be had otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use terrace_agent::device::cuda::{Missing, Places, Version, probe};

/// A machine as described.
struct Machine {
    folder: TempDir,
    places: Places,
}

const DRIVER: &str = r#"
    #include <string.h>
    #ifdef INIT
    int cuInit(unsigned flags) { return INIT; }
    #endif
    int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
    int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return code != 803; }
    int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
    int cuDeviceGet(int *device, int index) { *device = index; return 0; }
    int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Test GPU", size); return 0; }
"#;
const COMPILER: &str = "int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = MINOR; return 0; }";

impl Machine {
    fn empty() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| vec![folder.path().join(name)];
        let places = Places { driver: at("libcuda.so.1"), compiler: at("libnvrtc.so.12"), toolkits: at("cuda") };
        Machine { folder, places }
    }

    fn library(self, name: &str, source: &str, flags: &[&str]) -> Machine {
        let file = self.folder.path().join("source.c");
        std::fs::write(&file, source).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(self.folder.path().join(name)).arg(&file).args(flags);
        assert!(cc.status().expect("cc, which scripts/packages.sh installs").success());
        self
    }

    fn driver(self, flags: &[&str]) -> Machine {
        self.library("libcuda.so.1", DRIVER, flags)
    }

    fn compiler(self, major: &str, minor: &str) -> Machine {
        self.library("libnvrtc.so.12", COMPILER, &[major, minor])
    }

    fn headers(self) -> Machine {
        let include = self.folder.path().join("cuda/include");
        std::fs::create_dir_all(&include).unwrap();
        std::fs::write(include.join("cuda_runtime.h"), "").unwrap();
        self
    }
}

#[test]
fn each_part_that_is_missing_is_named_with_where_to_get_it() {
    let good = ["-DINIT=0", "-DCOUNT=1"];
    let driver = || Machine::empty().driver(&good);
    let cases = [
        (Machine::empty(), "libcuda.so.1 is not there: it comes with NVIDIA's driver"),
        (Machine::empty().driver(&["-DCOUNT=1"]), "libcuda.so.1 has no function cuInit: the driver is too old"),
        (Machine::empty().driver(&["-DINIT=100", "-DCOUNT=0"]), "the NVIDIA driver shows this process no GPU"),
        (Machine::empty().driver(&["-DINIT=0", "-DCOUNT=0"]), "the NVIDIA driver shows this process no GPU"),
        (
            Machine::empty().driver(&["-DINIT=803", "-DCOUNT=1"]),
            "the NVIDIA driver does not start (cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)): run nvidia-smi",
        ),
        (Machine::empty().driver(&["-DINIT=999", "-DCOUNT=1"]), "the NVIDIA driver does not start (cuInit: 999)"),
        (driver(), "libnvrtc.so.12 is not there: the image terrace-agent-cuda carries it"),
        (
            driver().compiler("-DMAJOR=12", "-DMINOR=8"),
            "libnvrtc is of CUDA 12.8, the driver of CUDA 12.4: NVRTC must not be newer",
        ),
        (driver().compiler("-DMAJOR=12", "-DMINOR=4"), "the CUDA headers are not there ("),
    ];
    for (machine, sentence) in cases {
        let missing = probe(&machine.places).unwrap_err().to_string();
        assert!(missing.starts_with(sentence), "{missing}");
    }
    let header = driver().compiler("-DMAJOR=11", "-DMINOR=8");
    let expected = header.folder.path().join("cuda/include/cuda_runtime.h");
    assert_eq!(probe(&header.places), Err(Missing::Headers(expected.display().to_string())));
}

#[test]
fn a_whole_cuda_is_found() {
    let machine = Machine::empty().driver(&["-DINIT=0", "-DCOUNT=2"]).compiler("-DMAJOR=12", "-DMINOR=4").headers();
    let found = probe(&machine.places).unwrap();
    assert_eq!((found.name.as_str(), found.driver), ("Test GPU", Version { major: 12, minor: 4 }));
}

/// The guide quotes each sentence.
#[test]
fn the_guide_has_every_sentence() {
    let guide = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gpu.md")).unwrap();
    let version = |major, minor| Version { major, minor };
    for missing in [
        Missing::Driver,
        Missing::Function("cuInit"),
        Missing::Start("cuInit: 999".into()),
        Missing::Gpu,
        Missing::Compiler,
        Missing::Versions { compiler: version(12, 8), driver: version(12, 4) },
        Missing::Headers(PathBuf::from("/usr/local/cuda/include/cuda_runtime.h").display().to_string()),
    ] {
        assert!(guide.contains(&missing.to_string()), "docs/gpu.md lacks: {missing}");
    }
}
