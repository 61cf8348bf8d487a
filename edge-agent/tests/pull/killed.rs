//! A process that dies by SIGKILL at each step of a pull, and what the next one finds.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use terrace_agent::pull::{Progress, STALL, Source, Spare, fetch};

use crate::server::{Server, body, from, names, pull, sha256};

const TEST: &str = "killed::a_pull_that_dies_at_any_step_leaves_nothing_that_is_not_whole";
const STEP: &str = "TERRACE_TEST_DIE_AT";
const URL: &str = "TERRACE_TEST_URL";
const CACHE: &str = "TERRACE_TEST_CACHE";

/// Steps at which a process is killed, as [`reached`] knows them, and whether the model has its name by then.
const STEPS: [(&str, bool); 7] = [
    ("connecting", false),
    ("half way", false),
    ("after the last byte", false),
    ("before the digest", false),
    ("before fsync", false),
    ("before rename", false),
    ("after rename", true),
];

fn reached(step: &str, progress: &Progress) -> bool {
    match (step, progress) {
        ("half way", Progress::Downloading { bytes, of: Some(of) }) => 2 * bytes >= *of,
        ("after the last byte", Progress::Downloading { bytes, of: Some(of) }) => bytes == of,
        ("connecting", Progress::Connecting { .. })
        | ("before the digest", Progress::Checking)
        | ("before fsync", Progress::Storing)
        | ("before rename", Progress::Naming)
        | ("after rename", Progress::Named) => true,
        _ => false,
    }
}

/// This program again, as the process that dies.
async fn die(step: &str, url: String, cache: PathBuf) {
    let source = Source {
        url,
        sha256: sha256(&body()),
        cache_dir: cache,
        cache_limit: Some(10_000_000),
        spare: Spare::Bytes(0),
        token_file: None,
        ca_file: None,
        bytes_per_second: None,
        stall: STALL,
        patience: Duration::from_secs(20),
    };
    let observe = |progress: Progress| {
        if reached(step, &progress) {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
    };
    let ended = fetch(&source, observe).await.map(|_| ());
    panic!("it was to die {step}, and went on: {ended:?}");
}

#[tokio::test]
async fn a_pull_that_dies_at_any_step_leaves_nothing_that_is_not_whole() {
    if let (Ok(step), Ok(url), Ok(cache)) = (std::env::var(STEP), std::env::var(URL), std::env::var(CACHE)) {
        return die(&step, url, cache.into()).await;
    }
    let bytes = body();
    for (step, has_name) in STEPS {
        let cache = tempfile::tempdir().unwrap();
        let server = Server::file(bytes.clone()).await;
        let source = server.source(&bytes, cache.path());
        let dies = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .envs([(STEP, step), (URL, &source.url), (CACHE, cache.path().to_str().unwrap())])
            .stdin(Stdio::null())
            .output();
        let dies = tokio::time::timeout(Duration::from_secs(60), dies).await.expect("it does not die").unwrap();
        assert_eq!(dies.status.signal(), Some(9), "{step}: {}", String::from_utf8_lossy(&dies.stderr));

        let model = cache.path().join(format!("{}.gguf", source.sha256));
        assert_eq!(model.exists(), has_name, "{step}: {:?}", names(cache.path()));
        if has_name {
            assert_eq!(std::fs::read(&model).unwrap(), bytes, "{step}");
        }
        let there = source.cache_dir.join(format!("{}.partial", source.sha256)).metadata().map_or(0, |m| m.len());

        // The next process takes over at once, asks only for what is missing, and ends with the model.
        let asked = server.heads().len();
        assert_eq!(pull(&source).await.unwrap(), bytes, "{step}");
        let heads = server.heads().split_off(asked);
        assert_eq!(heads.len(), usize::from(!has_name), "{step}: {heads:?}");
        assert!(heads.iter().all(|head| from(head) as u64 == there), "{step}: {there} bytes were there; {heads:?}");
        assert_eq!(names(cache.path()), [format!("{}.gguf", source.sha256)], "{step}");
    }
}
