//! What a download may take of a disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_agent::pull::{Bound, Progress, PullError, Source, Spare, fetch};
use terrace_contract::status::AgentFailure;

use crate::server::{Act, Server, answer, body, names, pull};

/// Chunks until the client hangs up.
async fn endless() -> Server {
    Server::start(|_, _| vec![Act::Send(answer("200 OK", "transfer-encoding: chunked\r\n", b"")), Act::Endless]).await
}

fn free(folder: &std::path::Path) -> u64 {
    let stat = rustix::fs::statvfs(folder).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// It filled the disk, and what had come stayed there for the next attempt to find.
#[tokio::test]
async fn a_body_without_end_stops_before_the_reserve_and_leaves_nothing() {
    const ROOM: u64 = 24 << 20;
    let (server, cache) = (endless().await, tempfile::tempdir().unwrap());
    let spare = free(cache.path()) - ROOM;
    let source = Source { spare: Spare::Bytes(spare), ..server.source(b"x", cache.path()) };
    let most = AtomicU64::new(0);
    let pulled = fetch(&source, |p| {
        if let Progress::Downloading { bytes, .. } = p {
            most.fetch_max(bytes, Ordering::Relaxed);
        }
    });
    let error = tokio::time::timeout(Duration::from_secs(120), pulled).await.expect("it never ends").unwrap_err();
    let PullError::NoSpace { bound: Bound::Disk { spare: said, .. }, need: None, came, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(said, spare);
    assert!(came <= most.load(Ordering::Relaxed), "{came} of {most:?}");
    for word in ["--disk-reserve", &spare.to_string(), "does not say how long", "content-length"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert_eq!(names(cache.path()), [""; 0]);
}

#[tokio::test]
async fn a_body_without_end_stops_at_the_caches_limit_and_leaves_nothing() {
    let (server, cache) = (endless().await, tempfile::tempdir().unwrap());
    let source = Source { cache_limit: Some(3_000_000), ..server.source(b"x", cache.path()) };
    let pulled = tokio::time::timeout(Duration::from_secs(120), pull(&source));
    let error = pulled.await.expect("it never ends").unwrap_err();
    assert!(matches!(error, PullError::NoSpace { bound: Bound::Limit(3_000_000), need: None, .. }), "{error:?}");
    assert_eq!(names(cache.path()), [""; 0]);
}

/// What would only fit with the reserve does not fit, and gives back what it had.
#[tokio::test]
async fn what_needs_the_reserve_is_refused_with_what_there_is_and_what_it_needs() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let source = Source { spare: Spare::Bytes(1 << 62), ..server.source(&bytes, cache.path()) };
    let partial = cache.path().join(format!("{}.partial", source.sha256));
    std::fs::write(&partial, &bytes[..500_000]).unwrap();
    let error = pull(&source).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::NoSpace);
    let PullError::NoSpace { bound: Bound::Disk { free, .. }, need: Some(need), came: 500_000, room: 0, .. } = error
    else {
        panic!("{error:?}")
    };
    assert!(need >= bytes.len() as u64 - 512_000 && need <= bytes.len() as u64 - 500_000, "{need}");
    assert!(error.to_string().contains(&format!("{free} are free")), "{error}");
    assert_eq!(names(cache.path()), [""; 0]);
    // And with nothing to leave free it comes.
    assert_eq!(pull(&Source { spare: Spare::Bytes(0), ..source }).await.unwrap(), bytes);
}
