//! Whole downloads, and such that broke off.

use std::num::NonZeroU64;
use std::time::{Duration, Instant, SystemTime};

use terrace_agent::pull::{Progress, Source, fetch};
use terrace_contract::status::AgentFailure;
use terrace_identity::{Authority, Identity, Usage};

use crate::server::{Act, Server, answer, body, cut, from, header, names, part, pull, ranged, source, tls_file, whole};

#[tokio::test]
async fn a_model_is_downloaded_once_and_checked_on_every_hit() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let source = server.source(&bytes, cache.path());
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 1);

    let path = cache.path().join(format!("{}.gguf", source.sha256));
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn each_step_is_said_before_it_is_taken() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let said = std::sync::Mutex::new(Vec::new());
    fetch(&server.source(&bytes, cache.path()), |p| said.lock().unwrap().push(p)).await.unwrap();
    let mut said = said.into_inner().unwrap();
    let all = bytes.len() as u64;
    assert!(said.contains(&Progress::Downloading { bytes: all, of: Some(all) }));
    said.retain(|p| !matches!(p, Progress::Downloading { .. }));
    let steps =
        [Progress::Connecting { from: 0 }, Progress::Checking, Progress::Storing, Progress::Naming, Progress::Named];
    assert_eq!(said, steps);
}

#[tokio::test]
async fn a_download_that_broke_off_goes_on_where_it_stopped() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let half = bytes.len() / 2;
    let file = bytes.clone();
    let server = Server::start(move |index, head| {
        let all = ranged(head, &file, "\"v1\"");
        vec![Act::Send(if index == 0 { cut(all, half) } else { all })]
    });
    let server = server.await;
    assert_eq!(pull(&server.source(&bytes, cache.path())).await.unwrap(), bytes);
    let heads = server.heads();
    assert_eq!(header(&heads[1], "range"), Some(&*format!("bytes={half}-")));
    assert_eq!(header(&heads[1], "if-range"), Some("\"v1\""));
    assert_eq!(heads.len(), 2);
}

/// The next process knows of the first one's version only by the note beside the partial file.
#[tokio::test]
async fn another_process_goes_on_and_asks_for_the_same_version() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let half = Server::start(move |_, head| vec![Act::Send(cut(ranged(head, &file, "\"v1\""), 500_000)), Act::Stall]);
    let half = half.await;
    let source =
        Source { stall: Duration::from_secs(1), patience: Duration::ZERO, ..half.source(&bytes, cache.path()) };
    assert_eq!(pull(&source).await.unwrap_err().reason(), AgentFailure::Unreachable);
    let rest = Server::file(bytes.clone()).await;
    assert_eq!(pull(&rest.source(&bytes, cache.path())).await.unwrap(), bytes);
    let heads = rest.heads();
    assert_eq!((header(&heads[0], "range"), header(&heads[0], "if-range")), (Some("bytes=500000-"), Some("\"v1\"")));
    assert_eq!(names(cache.path()), [format!("{}.gguf", source.sha256)]);
}

#[tokio::test]
async fn a_file_that_changed_since_is_taken_from_its_beginning() {
    let (new, cache) = (body(), tempfile::tempdir().unwrap());
    let (old, file): (Vec<u8>, _) = (new.iter().map(|b| b ^ 1).collect(), new.clone());
    let server = Server::start(move |index, head| {
        vec![Act::Send(if index == 0 {
            cut(ranged(head, &old, "\"v1\""), 500_000)
        } else {
            ranged(head, &file, "\"v2\"")
        })]
    });
    let server = server.await;
    assert_eq!(pull(&server.source(&new, cache.path())).await.unwrap(), new);
    let heads = server.heads();
    assert_eq!((heads.len(), header(&heads[1], "if-range")), (2, Some("\"v1\"")));
}

/// It sends the rest of another version in spite of `If-Range`, with or without saying so.
#[tokio::test]
async fn a_server_that_does_not_heed_if_range_costs_a_second_download_and_never_a_wrong_file() {
    for tag in ["\"v2\"", "\"v1\""] {
        let (new, cache) = (body(), tempfile::tempdir().unwrap());
        let (old, file): (Vec<u8>, _) = (new.iter().map(|b| b ^ 1).collect(), new.clone());
        let server = Server::start(move |index, head| {
            vec![Act::Send(match index {
                0 => cut(ranged(head, &old, "\"v1\""), 500_000),
                1 => part(&file, 500_000, tag),
                _ => ranged(head, &file, tag),
            })]
        });
        let server = server.await;
        assert_eq!(pull(&server.source(&new, cache.path())).await.unwrap(), new);
        let heads = server.heads();
        assert_eq!((heads.len(), header(&heads[2], "range")), (3, None), "{tag}");
    }
}

#[tokio::test]
async fn a_server_without_ranges_gives_all_of_it_again() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server = Server::start(move |index, _| {
        vec![Act::Send(if index == 0 { cut(whole(&file), 500_000) } else { whole(&file) })]
    });
    let server = server.await;
    assert_eq!(pull(&server.source(&bytes, cache.path())).await.unwrap(), bytes);
    assert_eq!(header(&server.heads()[1], "range"), Some("bytes=500000-"));
}

#[tokio::test]
async fn a_partial_file_that_is_whole_needs_nothing_more() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let source = server.source(&bytes, cache.path());
    std::fs::write(cache.path().join(format!("{}.partial", source.sha256)), &bytes).unwrap();
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn a_beginning_of_another_file_is_thrown_away() {
    for beginning in [b"other".to_vec(), vec![7; 2_000_000]] {
        let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
        let server = Server::file(bytes.clone()).await;
        let source = server.source(&bytes, cache.path());
        std::fs::write(cache.path().join(format!("{}.partial", source.sha256)), &beginning).unwrap();
        assert_eq!(pull(&source).await.unwrap(), bytes);
        assert_eq!(header(server.heads().last().unwrap(), "range"), None);
    }
}

#[tokio::test]
async fn an_unreachable_source_is_tried_until_patience_ends() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let busy = answer("503 Service Unavailable", "content-length: 0\r\n", b"");
    let server = Server::answers(vec![busy, whole(&bytes)]).await;
    assert_eq!(pull(&server.source(&bytes, cache.path())).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 2);

    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = Source { patience: Duration::ZERO, ..source(gone, b"x", cache.path()) };
    let error = pull(&nobody).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::Unreachable);
    assert!(error.to_string().contains(&nobody.url), "{error}");
}

/// Patience began again with each byte: such a source held an agent for ever, and nobody was told why.
#[tokio::test]
async fn a_source_that_trickles_ends_like_one_that_is_silent() {
    let bytes = body();
    // A byte now and then over one connection; a byte of each connection.
    for one_connection in [true, false] {
        let (file, cache) = (bytes.clone(), tempfile::tempdir().unwrap());
        let server = Server::start(move |_, head| {
            let first = from(head);
            let all = ranged(head, &file, "\"v1\"");
            let begin = Act::Send(cut(all, 1));
            if one_connection { vec![begin, Act::Trickle(file[first + 1..].to_vec())] } else { vec![begin] }
        })
        .await;
        let source = Source { patience: Duration::from_secs(2), ..server.source(&bytes, cache.path()) };
        let error =
            tokio::time::timeout(Duration::from_secs(60), pull(&source)).await.expect("it never ends").unwrap_err();
        assert_eq!(error.reason(), AgentFailure::Unreachable);
        let said = error.to_string();
        assert!(said.contains("--pull-patience") || !one_connection, "{said}");
        // What came is kept for the next try.
        let partial = cache.path().join(format!("{}.partial", source.sha256));
        assert!(std::fs::read(partial).unwrap().len() > 1);
    }
}

/// Who waits for two seconds in all does not wait for the next byte for twenty.
#[tokio::test]
async fn a_silent_source_ends_within_a_patience_that_is_short() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server =
        Server::start(move |_, head| vec![Act::Send(cut(ranged(head, &file, "\"v1\""), 100_000)), Act::Stall]).await;
    let source = Source { patience: Duration::from_secs(2), ..server.source(&bytes, cache.path()) };
    assert!(source.stall > Duration::from_secs(10));
    let error = tokio::time::timeout(Duration::from_secs(9), pull(&source)).await.expect("too long").unwrap_err();
    assert_eq!(error.reason(), AgentFailure::Unreachable);
    assert!(error.to_string().contains("no more bytes within 2 s"), "{error}");
}

/// Each attempt brought bytes, so patience began anew with each: it went on for ever.
#[tokio::test]
async fn a_source_that_cuts_and_begins_anew_ends_with_what_it_did() {
    let bytes = body();
    type Answer = fn(&[u8], &str) -> Vec<u8>;
    let anew: Answer = |file, _| cut(whole(file), 500_000);
    // It knows no ranges; it sends another range than the one asked for.
    let wrong: Answer = |file, head| match from(head) {
        0 => cut(whole(file), 500_000),
        first => part(file, first - 100_000, "\"v1\""),
    };
    for (answers, said) in [(anew, "from its beginning"), (wrong, "wrongly")] {
        let (file, cache) = (bytes.clone(), tempfile::tempdir().unwrap());
        let server = Server::start(move |_, head| vec![Act::Send(answers(&file, head))]).await;
        let source = Source { patience: Duration::from_secs(3), ..server.source(&bytes, cache.path()) };
        let pulled = tokio::time::timeout(Duration::from_secs(60), pull(&source));
        let error = pulled.await.expect("it never ends").unwrap_err();
        assert_eq!(error.reason(), AgentFailure::Unreachable);
        for word in [said, "byte 500000", "--pull-patience", "range"] {
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        // The waits grow, from a quarter of a second on: without growth there would be a dozen.
        assert!((2..=6).contains(&server.heads().len()), "{}", server.heads().len());
    }
}

#[tokio::test]
async fn a_download_is_no_faster_than_it_may_be() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let limited = Source { bytes_per_second: NonZeroU64::new(1_000_000), ..server.source(&bytes, cache.path()) };
    let began = Instant::now();
    assert_eq!(pull(&limited).await.unwrap(), bytes);
    // 1.2 MB. How much slower it is depends on the machine.
    assert!(began.elapsed() >= Duration::from_millis(1190), "{:?}", began.elapsed());
}

#[tokio::test]
async fn https_is_believed_for_its_certificate_only() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let authority = Authority::generate("c-1", SystemTime::now()).unwrap();
    let issue = |ips: &[std::net::IpAddr]| {
        authority.issue(&Identity::operator("c-1"), Usage::Serve, &[], ips, SystemTime::now()).unwrap()
    };
    let [right, wrong] =
        [tls_file(bytes.clone(), &issue(&[[127, 0, 0, 1].into()])).await, tls_file(bytes.clone(), &issue(&[])).await];
    let ca = cache.path().join("ca.crt");
    std::fs::write(&ca, authority.cert_pem()).unwrap();
    let from = |address: std::net::SocketAddr, ca_file| Source {
        url: format!("https://{address}/model.gguf"),
        ca_file,
        patience: Duration::ZERO,
        ..source(address, &bytes, cache.path())
    };
    for (address, ca_file) in [(right, None), (wrong, Some(ca.clone()))] {
        let error = pull(&from(address, ca_file)).await.unwrap_err();
        assert_eq!(error.reason(), AgentFailure::Unreachable);
        assert!(error.to_string().contains("certificate"), "{error}");
    }
    assert_eq!(pull(&from(right, Some(ca.clone()))).await.unwrap(), bytes);

    std::fs::write(&ca, "nothing").unwrap();
    let none = Source { sha256: "0".repeat(64), ..from(right, Some(ca)) };
    let error = pull(&none).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::InvalidConfiguration);
    assert!(error.to_string().contains("--model-ca"), "{error}");
}
