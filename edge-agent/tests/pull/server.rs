//! A source that does what a test tells it, and what is asked of it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use terrace_agent::pull::{PullError, STALL, Source, Spare, fetch};
use terrace_contract::canonical::hex;
use terrace_identity::authority::Leaf;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// One step of an answer.
pub enum Act {
    Send(Vec<u8>),
    /// A byte every 50 ms until the client hangs up, or all are sent.
    Trickle(Vec<u8>),
    /// Chunks of a chunked body until the client hangs up.
    Endless,
    /// Says nothing until the client hangs up.
    Stall,
}

/// A server that keeps what it was asked, and closes each connection after one answer.
pub struct Server {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers by what is asked and how often something was asked before.
    pub async fn start(script: impl Fn(usize, &str) -> Vec<Act> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, heads: Arc::default() };
        let (heads, script) = (server.heads.clone(), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (heads, script) = (heads.clone(), script.clone());
                tokio::spawn(async move {
                    let Some((head, mut stream)) = head(stream).await else { return };
                    let index = {
                        let mut heads = heads.lock().unwrap();
                        heads.push(head.clone());
                        heads.len() - 1
                    };
                    for act in script(index, &head) {
                        match act {
                            // The client may hang up first.
                            Act::Send(bytes) => drop(stream.write_all(&bytes).await),
                            Act::Trickle(bytes) => trickle(&mut stream, &bytes).await,
                            Act::Endless => {
                                let chunk = [b"10000\r\n", &[7; 1 << 16][..], b"\r\n"].concat();
                                while stream.write_all(&chunk).await.is_ok() {}
                            }
                            Act::Stall => while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {},
                        }
                    }
                    let _ = stream.shutdown().await;
                });
            }
        });
        server
    }

    /// Prepared answers, in order; then none.
    pub async fn answers(answers: Vec<Vec<u8>>) -> Server {
        Server::start(move |index, _| answers.get(index).map(|a| Act::Send(a.clone())).into_iter().collect()).await
    }

    /// One file, as an honest server gives it.
    pub async fn file(bytes: Vec<u8>) -> Server {
        Server::start(move |_, head| vec![Act::Send(ranged(head, &bytes, "\"v1\""))]).await
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// This server as the source of `bytes`.
    pub fn source(&self, bytes: &[u8], cache: &Path) -> Source {
        source(self.address, bytes, cache)
    }
}

async fn trickle<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) {
    let mut time = tokio::time::interval(Duration::from_millis(50));
    for byte in bytes {
        time.tick().await;
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
    }
}

/// The head of a request in lower case; none if the client went away.
async fn head<S: AsyncRead + Unpin>(stream: S) -> Option<(String, S)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some((head.to_ascii_lowercase(), reader.into_inner()))
}

/// The value of a header of a request.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The first byte that is asked for.
pub fn from(head: &str) -> usize {
    let range = header(head, "range").and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-'));
    range.map_or(0, |first| first.parse().unwrap())
}

pub fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n").as_bytes(), body].concat()
}

pub fn whole(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &format!("content-length: {}\r\n", body.len()), body)
}

/// The part from `first` on.
pub fn part(bytes: &[u8], first: usize, etag: &str) -> Vec<u8> {
    let (length, last) = (bytes.len() - first, bytes.len() - 1);
    let headers =
        format!("content-length: {length}\r\ncontent-range: bytes {first}-{last}/{}\r\netag: {etag}\r\n", bytes.len());
    answer("206 Partial Content", &headers, &bytes[first..])
}

/// What RFC 9110 asks of a server: the rest if the file is still the same, else all of it.
pub fn ranged(head: &str, bytes: &[u8], etag: &str) -> Vec<u8> {
    let first = from(head);
    if first == 0 || header(head, "if-range").is_some_and(|known| known != etag) {
        return answer("200 OK", &format!("content-length: {}\r\netag: {etag}\r\n", bytes.len()), bytes);
    }
    if first >= bytes.len() {
        let headers = format!("content-length: 0\r\ncontent-range: bytes */{}\r\n", bytes.len());
        return answer("416 Range Not Satisfiable", &headers, b"");
    }
    part(bytes, first, etag)
}

/// A beginning of an answer, cut after `bytes` of it.
pub fn cut(mut answer: Vec<u8>, bytes: usize) -> Vec<u8> {
    let body = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    answer.truncate(body + bytes);
    answer
}

/// 1.2 MB.
pub fn body() -> Vec<u8> {
    (0..300_000u32).flat_map(u32::to_le_bytes).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn source(address: SocketAddr, bytes: &[u8], cache: &Path) -> Source {
    Source {
        url: format!("http://{address}/model.gguf"),
        sha256: sha256(bytes),
        cache_dir: cache.to_owned(),
        cache_limit: None,
        spare: Spare::Bytes(0),
        token_file: None,
        ca_file: None,
        bytes_per_second: None,
        stall: STALL,
        patience: Duration::from_secs(20),
    }
}

/// The bytes of the model that a pull brings, after its place was looked at.
pub async fn pull(source: &Source) -> Result<Vec<u8>, PullError> {
    fetch(source, |_| {}).await.map(|model| {
        assert_eq!(model.path(), source.cache_dir.join(format!("{}.gguf", source.sha256)));
        assert_eq!(model.sha256(), source.sha256);
        std::fs::read(model.path()).unwrap()
    })
}

/// Names of the cache's files but its locks, sorted.
pub fn names(cache: &Path) -> Vec<String> {
    let all = std::fs::read_dir(cache).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = all.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

/// Like [`Server::file`], over TLS.
pub async fn tls_file(bytes: Vec<u8>, leaf: &Leaf) -> SocketAddr {
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).unwrap();
    let chain = CertificateDer::pem_slice_iter(leaf.cert_pem.as_bytes()).map(Result::unwrap).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Whoever does not trust it hangs up.
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let Some((head, mut stream)) = head(stream).await else { continue };
            drop(stream.write_all(&ranged(&head, &bytes, "\"v1\"")).await);
            let _ = stream.shutdown().await;
        }
    });
    address
}
