//! Output that nobody reads on: `terrace … | head -1`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// A router of one answer, in two pieces.
fn router() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.read(&mut [0; 4096]);
        let event = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let body = [event("one"), event("two"), "data: [DONE]\n\n".to_owned()].concat();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-terrace-tier: edge\r\nconnection: close";
        let _ = write!(client, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    });
    url
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/quickstart");
    let url = router();
    for arguments in [&["ask", "hi", "--url", &url][..], &["check", "-f", manifests], &["crds"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{arguments:?}");
        assert!(child.wait().unwrap().success(), "{arguments:?}");
    }
}
