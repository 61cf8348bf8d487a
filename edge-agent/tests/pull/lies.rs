//! Servers that do not do what they say.

use std::time::Duration;

use terrace_agent::pull::Source;
use terrace_contract::status::AgentFailure;

use crate::server::{Act, Server, answer, body, cut, header, names, part, pull, ranged, whole};

#[tokio::test]
async fn wrong_bytes_never_get_a_name() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::answers(vec![whole(b"something else")]).await;
    let source = server.source(b"the model", cache.path());
    let error = pull(&source).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::DigestMismatch);
    assert!(error.to_string().contains(&source.sha256) && error.to_string().contains(&source.url), "{error}");
    assert_eq!(names(cache.path()), [""; 0]);
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn a_length_that_is_too_short_gives_no_model() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let short = answer("200 OK", &format!("content-length: {}\r\n", bytes.len() - 1), &bytes);
    let server = Server::answers(vec![short]).await;
    let error = pull(&server.source(&bytes, cache.path())).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::DigestMismatch);
    assert_eq!(names(cache.path()), [""; 0]);
}

/// All bytes are there, and the connection ends before the length that was promised.
#[tokio::test]
async fn a_length_that_is_too_long_is_asked_about_again() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server = Server::start(move |index, head| {
        let long = answer("200 OK", &format!("content-length: {}\r\n", file.len() + 9), &file);
        vec![Act::Send(if index == 0 { long } else { ranged(head, &file, "\"v1\"") })]
    });
    let server = server.await;
    assert_eq!(pull(&server.source(&bytes, cache.path())).await.unwrap(), bytes);
    assert_eq!(header(&server.heads()[1], "range"), Some(&*format!("bytes={}-", bytes.len())));
}

#[tokio::test]
async fn a_body_without_a_length_is_as_good() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let server = Server::answers(vec![answer("200 OK", "", &bytes)]).await;
    assert_eq!(pull(&server.source(&bytes, cache.path())).await.unwrap(), bytes);
}

/// Another part than the one asked for is never put where the other belongs.
#[tokio::test]
async fn the_wrong_part_is_not_appended() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server = Server::start(move |index, head| {
        vec![Act::Send(match index {
            0 => cut(ranged(head, &file, "\"v1\""), 500_000),
            1 => part(&file, 400_000, "\"v1\""),
            _ => ranged(head, &file, "\"v1\""),
        })]
    });
    let server = server.await;
    assert_eq!(pull(&server.source(&bytes, cache.path())).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 3);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_asked_again_for_the_rest() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server = Server::start(move |index, head| {
        let all = ranged(head, &file, "\"v1\"");
        match index {
            // No head at all; then half a body.
            0 => vec![Act::Stall],
            1 => vec![Act::Send(cut(all, 500_000)), Act::Stall],
            _ => vec![Act::Send(all)],
        }
    });
    let server = server.await;
    let source = Source { stall: Duration::from_secs(1), ..server.source(&bytes, cache.path()) };
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(header(&server.heads()[2], "range"), Some("bytes=500000-"));
}

#[tokio::test]
async fn a_server_that_always_cuts_gets_as_many_attempts_as_there_is_progress() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let file = bytes.clone();
    let server = Server::start(move |_, head| {
        let all = ranged(head, &file, "\"v1\"");
        vec![Act::Send(if all.len() > 500_000 { cut(all, 400_000) } else { all })]
    });
    let server = server.await;
    let source = Source { patience: Duration::from_secs(2), ..server.source(&bytes, cache.path()) };
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 3);
}

#[tokio::test]
async fn what_the_source_says_no_to_ends_at_once() {
    let gzip = answer("200 OK", "content-encoding: gzip\r\ncontent-length: 1\r\n", b"x");
    let status = |status| answer(status, "content-length: 0\r\n", b"");
    for (answer, word) in [
        (status("404 Not Found"), "404"),
        (status("401 Unauthorized"), "token"),
        (status("204 No Content"), "204"),
        (gzip, "compressed"),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let server = Server::answers(vec![answer]).await;
        let error = pull(&server.source(b"x", cache.path())).await.unwrap_err();
        assert_eq!(error.reason(), AgentFailure::NotFound);
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(server.heads().len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_http_is_unreachable() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _| vec![Act::Send(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())]).await;
    let source = Source { patience: Duration::ZERO, ..server.source(b"x", cache.path()) };
    let error = pull(&source).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::Unreachable);
    assert!(error.to_string().contains("HTTP"), "{error}");
}

#[tokio::test]
async fn the_token_goes_to_the_source_and_to_nobody_it_redirects_to() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let second = Server::answers(vec![whole(&bytes)]).await;
    let away = format!("location: http://{}/real.gguf\r\ncontent-length: 0\r\n", second.address);
    let near = answer("307 Temporary Redirect", "location: ../moved.gguf\r\ncontent-length: 0\r\n", b"");
    let first = Server::answers(vec![near, answer("302 Found", &away, b"")]).await;
    let token = cache.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let source = Source { token_file: Some(token), ..first.source(&bytes, cache.path()) };
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(header(&first.heads()[0], "authorization"), Some("bearer s3cret"));
    assert!(first.heads()[1].starts_with("get /moved.gguf ") && first.heads()[1].contains("s3cret"));
    assert!(second.heads()[0].starts_with("get /real.gguf ") && !second.heads()[0].contains("s3cret"));
}

#[tokio::test]
async fn redirects_end_somewhere() {
    let cache = tempfile::tempdir().unwrap();
    let again = answer("302 Found", "location: /model.gguf\r\ncontent-length: 0\r\n", b"");
    let nowhere = answer("302 Found", "content-length: 0\r\n", b"");
    let secret = answer("302 Found", "location: ftp://x/y?sig=hunter2\r\ncontent-length: 0\r\n", b"");
    for (answer, requests, word) in [(again, 6, "redirects"), (nowhere, 1, "nowhere"), (secret, 1, "http://")] {
        let server = Server::start(move |_, _| vec![Act::Send(answer.clone())]).await;
        let source = Source { patience: Duration::ZERO, ..server.source(b"x", cache.path()) };
        let error = pull(&source).await.unwrap_err();
        assert_eq!(error.reason(), AgentFailure::Unreachable);
        assert!(error.to_string().contains(word) && !error.to_string().contains("hunter2"), "{error}");
        assert_eq!(server.heads().len(), requests);
    }
}
