//! Tests of the whole: users' SDKs against `terrace up` (layer 2), a real API server (layer 3), a real two-node cluster (layer 4).
//!
//! Each suite is a list of named steps with deadlines. A step waits for a state and never for a time, and a failed step
//! prints what the cluster knows of it. What a step needs of an earlier one it checks itself.
#![allow(clippy::large_futures, reason = "each step's future lives once, in a program that has room for it")]

pub mod api_server;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod conditions;
pub mod shell;
pub mod standalone;
pub mod steps;
pub mod wait;

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Where the project is, and what was built in it.
pub struct Place {
    root: PathBuf,
}

impl Place {
    /// The folder that holds the workspace: above the working folder.
    pub fn find() -> anyhow::Result<Place> {
        let here = std::env::current_dir()?;
        let root = here
            .ancestors()
            .find(|p| p.join("charts/terrace/Chart.yaml").exists())
            .context("run terrace-e2e inside the project")?;
        Ok(Place { root: root.to_owned() })
    }

    /// A path of the project.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// The same, as text for a command line.
    pub fn arg(&self, path: impl AsRef<Path>) -> String {
        self.at(path).display().to_string()
    }

    /// A program of the project, as `cargo build --release` leaves it.
    pub fn program(&self, name: &str) -> anyhow::Result<String> {
        let path = self.at("target/release").join(name);
        anyhow::ensure!(path.exists(), "{} is not built: cargo build --release", path.display());
        Ok(path.display().to_string())
    }

    /// The Python of the tests' own environment.
    pub fn python(&self) -> anyhow::Result<String> {
        let path = self.at(".venv/bin/python");
        anyhow::ensure!(path.exists(), "{} is not there: scripts/tools.sh", path.display());
        Ok(path.display().to_string())
    }
}

/// Where the cluster's programs are: `e2e/cluster/build.sh` puts them there.
pub fn programs() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PROGRAMS") {
        return Ok(folder.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("terrace-cluster"))
}
