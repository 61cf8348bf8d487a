//! Downloads over real sockets: whole, cut, wrong, missing, too big, and twice at once.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use terrace_agent::pull::{PullError, Source, fetch};
use terrace_contract::canonical::hex;
use terrace_contract::status::AgentFailure;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server of prepared answers, one a connection, that keeps what was asked.
#[derive(Clone, Default)]
struct Server {
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: Vec<Vec<u8>>) -> (Server, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::default();
        let heads = server.heads.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                let (head, mut stream) = head(stream).await;
                heads.lock().unwrap().push(head);
                // The client may hang up first.
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        (server, address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn head(stream: TcpStream) -> (String, TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).await.unwrap() > 0);
    }
    (head.to_ascii_lowercase(), reader.into_inner())
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n").as_bytes(), body].concat()
}

fn whole(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &format!("content-length: {}\r\n", body.len()), body)
}

fn body() -> Vec<u8> {
    (0..300_000u32).flat_map(u32::to_le_bytes).collect()
}

fn source(address: SocketAddr, bytes: &[u8], cache: &Path) -> Source {
    Source {
        url: format!("http://{address}/model.gguf"),
        sha256: hex(&Sha256::digest(bytes)),
        cache_dir: cache.to_owned(),
        token_file: None,
        ca_file: None,
        patience: Duration::from_secs(20),
    }
}

async fn pull(source: &Source) -> Result<Vec<u8>, PullError> {
    fetch(source, |_| {}).await.map(|path| {
        assert_eq!(path, source.cache_dir.join(format!("{}.gguf", source.sha256)));
        std::fs::read(path).unwrap()
    })
}

#[tokio::test]
async fn a_model_is_downloaded_once_and_checked_on_every_hit() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let (server, address) = Server::start(vec![whole(&bytes), whole(&bytes)]).await;
    let source = source(address, &bytes, cache.path());
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 1);

    let path = cache.path().join(format!("{}.gguf", source.sha256));
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn a_download_that_broke_off_goes_on_where_it_stopped() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let (length, half) = (bytes.len(), bytes.len() / 2);
    let cut = answer("200 OK", &format!("content-length: {length}\r\n"), &bytes[..half]);
    let range = format!("content-length: {}\r\ncontent-range: bytes {half}-{}/{length}\r\n", length - half, length - 1);
    let rest = answer("206 Partial Content", &range, &bytes[half..]);
    let (server, address) = Server::start(vec![cut, rest]).await;
    assert_eq!(pull(&source(address, &bytes, cache.path())).await.unwrap(), bytes);
    assert!(server.heads()[1].contains(&format!("range: bytes={half}-\r\n")), "{:?}", server.heads());
}

#[tokio::test]
async fn a_beginning_of_another_file_is_thrown_away_once() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let range = format!(
        "content-length: {}\r\ncontent-range: bytes 5-{}/{}\r\n",
        bytes.len() - 5,
        bytes.len() - 1,
        bytes.len()
    );
    let (server, address) =
        Server::start(vec![answer("206 Partial Content", &range, &bytes[5..]), whole(&bytes)]).await;
    let source = source(address, &bytes, cache.path());
    std::fs::write(cache.path().join(format!("{}.partial", source.sha256)), b"other").unwrap();
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert!(!server.heads()[1].contains("range:"));
}

#[tokio::test]
async fn wrong_bytes_never_get_a_name() {
    let cache = tempfile::tempdir().unwrap();
    let (_, address) = Server::start(vec![whole(b"something else")]).await;
    let source = source(address, b"the model", cache.path());
    let error = pull(&source).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::DigestMismatch);
    assert!(error.to_string().contains(&source.sha256) && error.to_string().contains(&source.url), "{error}");
    let left: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [format!("{}.lock", source.sha256).as_str()]);
}

#[tokio::test]
async fn what_the_source_says_no_to_ends_at_once() {
    for (status, word) in [("404 Not Found", "404"), ("401 Unauthorized", "token")] {
        let cache = tempfile::tempdir().unwrap();
        let (_, address) = Server::start(vec![answer(status, "content-length: 0\r\n", b"")]).await;
        let error = pull(&source(address, b"x", cache.path())).await.unwrap_err();
        assert_eq!(error.reason(), AgentFailure::NotFound);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_file_without_room_is_refused_before_it_is_written() {
    let cache = tempfile::tempdir().unwrap();
    let (_, address) =
        Server::start(vec![answer("200 OK", &format!("content-length: {}\r\n", 1u64 << 60), b"x")]).await;
    let source = source(address, b"x", cache.path());
    let error = pull(&source).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::NoSpace);
    assert!(error.to_string().contains(&(1u64 << 60).to_string()), "{error}");
    assert!(!cache.path().join(format!("{}.partial", source.sha256)).exists());
}

#[tokio::test]
async fn an_unreachable_source_is_tried_until_patience_ends() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let busy = answer("503 Service Unavailable", "content-length: 0\r\n", b"");
    let (server, address) = Server::start(vec![busy, whole(&bytes)]).await;
    assert_eq!(pull(&source(address, &bytes, cache.path())).await.unwrap(), bytes);
    assert_eq!(server.heads().len(), 2);

    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = Source { patience: Duration::ZERO, ..source(gone, b"x", cache.path()) };
    let error = pull(&nobody).await.unwrap_err();
    assert_eq!(error.reason(), AgentFailure::Unreachable);
    assert!(error.to_string().contains(&nobody.url), "{error}");
}

#[tokio::test]
async fn the_token_goes_to_the_source_and_to_nobody_it_redirects_to() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let (second, other) = Server::start(vec![whole(&bytes)]).await;
    let redirect = answer("302 Found", &format!("location: http://{other}/real.gguf\r\ncontent-length: 0\r\n"), b"");
    let (first, address) = Server::start(vec![redirect]).await;
    let token = cache.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let source = Source { token_file: Some(token), ..source(address, &bytes, cache.path()) };
    assert_eq!(pull(&source).await.unwrap(), bytes);
    assert!(first.heads()[0].contains("authorization: bearer s3cret\r\n"));
    assert!(second.heads()[0].starts_with("get /real.gguf ") && !second.heads()[0].contains("s3cret"));
}

#[tokio::test]
async fn two_pods_of_a_node_make_one_download() {
    let (bytes, cache) = (body(), tempfile::tempdir().unwrap());
    let (server, address) = Server::start(vec![whole(&bytes), whole(&bytes)]).await;
    let source = source(address, &bytes, cache.path());
    let (a, b) = tokio::join!(pull(&source), pull(&source));
    assert_eq!((a.unwrap(), b.unwrap()), (bytes.clone(), bytes));
    assert_eq!(server.heads().len(), 1);
}
