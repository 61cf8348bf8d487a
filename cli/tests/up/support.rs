//! `terrace up` with stand-ins for its programs: shell scripts beside a link to the real `terrace`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Nothing here takes nearly as long.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Writes its environment to `<here>/<name>.env`, its port file, and waits.
pub const SERVES: &str = r#"here=$(dirname "$0"); env > "$here/.$POD_NAME"; mv "$here/.$POD_NAME" "$here/$POD_NAME.env"; echo $$ > "$here/$POD_NAME.pid"
echo "$@" >> "$here/$POD_NAME.runs"
while [ $# -gt 0 ]; do case $1 in --port-file) ports=$2;; --listen) listen=$2;; esac; shift; done
case $listen in *:0) listen=127.0.0.1:9;; esac
echo "{\"listen\": \"$listen\"}" > "$ports.partial"; mv "$ports.partial" "$ports"
exec sleep 120"#;

/// A folder with `terrace` and what it starts, and everything that it writes.
pub struct Place(TempDir);

impl Place {
    pub fn new(agent: &str, router: &str) -> Place {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_terrace"), folder.path().join("terrace")).unwrap();
        for (name, script) in [("terrace-agent", agent), ("terrace-router", router)] {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Place(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `terrace` with these arguments, its output in `<here>/out` and `<here>/err`.
    pub fn terrace(&self, arguments: &[&str]) -> Run {
        let file = |name: &str| std::fs::File::create(self.path().join(name)).unwrap();
        // Whoever runs the tests may have SIGHUP ignored.
        let child = Command::new("env")
            .arg("--default-signal=HUP")
            .arg(self.path().join("terrace"))
            .args(arguments)
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env("TMPDIR", self.path().join("tmp"))
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Run { child }
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// What the run said once it is so.
    pub fn until(&self, name: &str, so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = self.read(name);
            if so(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "{name}: {text}\nerr: {}", self.read("err"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A started `terrace`, told to end when it goes.
pub struct Run {
    child: Child,
}

impl Run {
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for its end: whether it went well.
    pub fn ended(&mut self) -> bool {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Not killed: what it started would be left.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("-TERM");
            let _ = self.child.wait();
        }
    }
}

/// A file or folder of the examples.
pub fn example(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.display().to_string()
}
