//! A client that closes its own side of the connection once it has asked.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::embeddings::small;
use crate::support::{LIMIT, chat, with};

#[tokio::test]
async fn a_client_that_closes_its_side_gets_its_answer() {
    let agent = small(&[]).await;
    for stream in [false, true] {
        let body = with(chat("Hi", 40), json!({"stream": stream, "logit_bias": {"260": -100}})).to_string();
        let mut connection = TcpStream::connect(agent.plain).await.unwrap();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = String::new();
        let all = tokio::time::timeout(LIMIT, connection.read_to_string(&mut answer));
        all.await.expect("it stays open").unwrap();
        assert!(answer.contains("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\"finish_reason\":\"length\""), "{answer}");
        assert_eq!(answer.contains("[DONE]"), stream, "{answer}");
    }
    let answered = agent.metric("terrace_requests_total{outcome=\"answered\"}").await;
    assert!((answered - 2.0).abs() < 0.1, "{answered}");
}
