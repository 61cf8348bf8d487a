//! Several models and several pods of one node: one download each, and room for all that are used.

use std::path::Path;
use std::time::{Duration, SystemTime};

use terrace_agent::pull::{Bound, Model, Progress, PullError, Source, fetch};
use terrace_contract::status::AgentFailure;

use crate::server::{Act, Server, answer, body, cut, header, names, pull, ranged, sha256};

#[tokio::test]
async fn two_pods_of_a_node_make_one_download() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let source = server.source(&bytes, cache.path());
    let (a, b) = tokio::join!(pull(&source), pull(&source));
    assert_eq!((a.unwrap(), b.unwrap()), (bytes.clone(), bytes));
    assert_eq!(server.heads().len(), 1);
}

/// The second waits, says so, and goes on from the first one's bytes once that is gone.
#[tokio::test]
async fn a_pod_that_dies_while_it_downloads_is_taken_over() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server = Server::start(move |index, head| {
        let all = ranged(head, &file, "\"v1\"");
        if index == 0 { vec![Act::Send(cut(all, 500_000)), Act::Stall] } else { vec![Act::Send(all)] }
    });
    let server = server.await;
    let source = server.source(&bytes, cache.path());
    let arrived = tokio::sync::Notify::new();
    let first = fetch(&source, |p| {
        if matches!(p, Progress::Downloading { bytes: 500_000, .. }) {
            arrived.notify_one();
        }
    });
    let mut first = Box::pin(first);
    tokio::select! { _ = &mut first => panic!("half of it is not all"), () = arrived.notified() => {} }
    let waits = tokio::sync::Notify::new();
    let second = fetch(&source, |p| {
        if p == Progress::Waiting {
            waits.notify_one();
        }
    });
    let mut second = Box::pin(second);
    tokio::select! { _ = &mut second => panic!("two downloads"), () = waits.notified() => {} }
    assert_eq!(server.heads().len(), 1);
    // As by a signal: what was written stays, the lock goes.
    drop(first);
    assert_eq!(std::fs::read(second.await.unwrap().path()).unwrap(), bytes);
    assert_eq!(header(&server.heads()[1], "range"), Some("bytes=500000-"));
}

#[tokio::test]
async fn a_file_without_room_is_refused_before_it_is_written() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::answers(vec![answer("200 OK", &format!("content-length: {}\r\n", 1u64 << 60), b"x")]).await;
    let source = server.source(b"x", cache.path());
    let error = pull(&source).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::NoSpace);
    assert!(error.to_string().contains(&(1u64 << 60).to_string()), "{error}");
    assert_eq!(names(cache.path()), [""; 0]);
}

const MB: u64 = 1_000_000;

/// Models of one megabyte each, told apart by their first byte.
struct Node {
    cache: tempfile::TempDir,
    server: Server,
}

fn model(n: u8) -> Vec<u8> {
    let mut bytes = vec![0; MB as usize];
    bytes[0] = n;
    bytes
}

impl Node {
    async fn start() -> Node {
        // The path says which one: its number; without a length if it ends so.
        let server = Server::start(|_, head| {
            let path = head.split(' ').nth(1).unwrap();
            let n = path.trim_start_matches('/').split('.').next().unwrap().parse().unwrap();
            vec![Act::Send(if path.ends_with(".chunks") {
                answer("200 OK", "", &model(n))
            } else {
                ranged(head, &model(n), "\"v\"")
            })]
        });
        Node { cache: tempfile::tempdir().unwrap(), server: server.await }
    }

    fn source(&self, n: u8, limit: u64) -> Source {
        let mut source = self.server.source(&model(n), self.cache.path());
        source.url = format!("http://{}/{n}.gguf", self.server.address);
        Source { cache_limit: Some(limit), ..source }
    }

    async fn pull(&self, n: u8, limit: u64) -> Result<Model, PullError> {
        fetch(&self.source(n, limit), |_| {}).await
    }

    /// As if it had been used so many seconds ago.
    fn age(&self, n: u8, seconds: u64) {
        let file = std::fs::File::options().write(true).open(self.path(n, "gguf")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    fn path(&self, n: u8, kind: &str) -> std::path::PathBuf {
        self.cache.path().join(format!("{}.{kind}", sha256(&model(n))))
    }

    fn has(&self) -> Vec<u8> {
        (0..9).filter(|&n| self.path(n, "gguf").exists()).collect()
    }
}

#[tokio::test]
async fn the_models_used_least_recently_make_room_and_one_in_use_never_does() {
    let node = Node::start().await;
    let oldest = node.pull(0, 3 * MB).await.unwrap();
    for n in [1, 2] {
        node.pull(n, 3 * MB).await.unwrap();
    }
    for (n, seconds) in [(0, 300), (1, 200), (2, 100)] {
        node.age(n, seconds);
    }
    node.pull(3, 3 * MB).await.unwrap();
    assert_eq!(node.has(), [0, 2, 3]);
    // A hit is a use.
    node.pull(2, 3 * MB).await.unwrap();
    node.age(3, 50);
    node.pull(4, 3 * MB).await.unwrap();
    assert_eq!(node.has(), [0, 2, 4]);
    drop(oldest);
    node.pull(5, 3 * MB).await.unwrap();
    assert_eq!(node.has(), [2, 4, 5]);
}

#[tokio::test]
async fn a_model_that_would_not_fit_costs_no_other_its_place() {
    let node = Node::start().await;
    let used = node.pull(0, 2 * MB).await.unwrap();
    node.pull(1, 2 * MB).await.unwrap();
    let too_small = node.pull(2, 2 * MB - 1).await.unwrap_err();
    assert!(matches!(too_small, PullError::NoSpace { bound: Bound::Limit(_), need: Some(MB), .. }), "{too_small:?}");
    assert!(too_small.to_string().contains("--cache-limit"), "{too_small}");
    assert_eq!(node.has(), [0, 1]);
    drop(used);
    let never = node.pull(2, MB / 2).await.unwrap_err();
    assert_eq!(never.reason(), AgentFailure::NoSpace);
    assert_eq!(node.has(), [0, 1]);
}

#[tokio::test]
async fn what_is_left_of_a_download_counts_and_goes() {
    let node = Node::start().await;
    for kind in ["partial", "validator"] {
        std::fs::write(node.path(7, kind), model(7)).unwrap();
    }
    // What is not ours is neither counted nor removed.
    std::fs::write(node.cache.path().join("notes.txt"), model(0)).unwrap();
    node.pull(0, MB).await.unwrap();
    assert_eq!(names(node.cache.path()), [node.path(0, "gguf").file_name().unwrap().to_str().unwrap(), "notes.txt"]);
}

#[tokio::test]
async fn a_download_that_goes_on_in_another_pod_is_left_alone() {
    let node = Node::start().await;
    std::fs::write(node.path(7, "partial"), model(7)).unwrap();
    let other = std::fs::File::create(node.path(7, "lock")).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(node.pull(0, 2 * MB - 1).await.unwrap_err().reason(), AgentFailure::NoSpace);
    assert!(node.path(7, "partial").exists());
    node.pull(0, 3 * MB).await.unwrap();
}

#[tokio::test]
async fn room_is_made_for_a_file_of_unknown_length_as_it_comes() {
    let node = Node::start().await;
    node.pull(0, 2 * MB).await.unwrap();
    let chunks = |limit| {
        let mut source = node.source(1, limit);
        source.url = source.url.replace(".gguf", ".chunks");
        source
    };
    fetch(&chunks(MB), |_| {}).await.unwrap();
    assert_eq!(node.has(), [1]);
    assert_eq!(
        fetch(&Source { sha256: sha256(&model(2)), ..chunks(MB / 2) }, |_| {}).await.unwrap_err().reason(),
        AgentFailure::NoSpace
    );
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_still_gives_what_it_has() {
    let node = Node::start().await;
    node.pull(0, MB).await.unwrap();
    let read_only = |path: &Path, yes: bool| {
        let mut permissions = std::fs::metadata(path).unwrap().permissions();
        permissions.set_readonly(yes);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    std::fs::remove_file(node.path(0, "lock")).unwrap();
    std::fs::remove_file(node.cache.path().join("room.lock")).unwrap();
    read_only(node.cache.path(), true);
    let again = node.pull(0, MB).await;
    read_only(node.cache.path(), false);
    assert_eq!(again.unwrap().path(), node.path(0, "gguf"));
    assert_eq!((node.server.heads().len(), names(node.cache.path()).len()), (1, 1));
}
