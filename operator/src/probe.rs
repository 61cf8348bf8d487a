//! `terrace-operator probe URL`: one question to an admin port, for `helm test`. The image has no shell and no curl.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;

/// How long connecting, asking and answering may take, each.
const LIMIT: Duration = Duration::from_secs(10);

/// How long it waits before it asks again.
const PAUSE: Duration = Duration::from_millis(250);

/// Asks an http URL and ends with 0 if it answers 200.
#[derive(Debug, Parser)]
#[command(name = "terrace-operator probe")]
pub struct Probe {
    /// For example `http://terrace-operator.terrace-system.svc:9090/readyz`.
    pub url: String,
    /// Seconds in which it asks again: just after an installation the nodes may not know the Service yet.
    #[arg(long, default_value_t = 0)]
    pub within: u64,
}

impl Probe {
    /// Asks, again while there is time, and returns the answer's body.
    ///
    /// # Errors
    /// No such address, no answer, or one that is not 200: with what it said last.
    pub fn run(&self) -> anyhow::Result<String> {
        let until = Instant::now() + Duration::from_secs(self.within);
        loop {
            match self.ask() {
                Err(_) if Instant::now() + PAUSE < until => std::thread::sleep(PAUSE),
                last => return last,
            }
        }
    }

    fn ask(&self) -> anyhow::Result<String> {
        let url = &self.url;
        let Some((host, path)) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')) else {
            bail!("{url} is not http://HOST:PORT/PATH");
        };
        let address = host.to_socket_addrs().with_context(|| format!("{host} does not resolve"))?.next();
        let address = address.with_context(|| format!("{host} has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, LIMIT)
            .with_context(|| format!("{host} ({address}) does not take connections"))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.take(1 << 20).read_to_string(&mut answer).with_context(|| format!("{url} does not answer"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.split(' ').nth(1) == Some("200"), "{url} answered {status}: {body}");
        Ok(body.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives these answers, one after the other.
    fn serve(listener: std::net::TcpListener, answers: Vec<&'static str>) {
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
    }

    fn server(answer: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, vec![answer]);
        format!("http://{address}/readyz")
    }

    #[test]
    fn an_answer_of_200_is_its_body_and_anything_else_says_what_it_was() {
        let ok = Probe { within: 0, url: server("HTTP/1.1 200 OK\r\n\r\nready\n") };
        assert_eq!(ok.run().unwrap(), "ready\n");
        let not = Probe { within: 0, url: server("HTTP/1.1 503 Service Unavailable\r\n\r\nno authority yet\n") };
        assert!(not.run().unwrap_err().to_string().contains("503 Service Unavailable: no authority yet"));
        assert!(Probe { within: 0, url: "operator:9090".into() }.run().is_err());
    }

    #[test]
    fn what_is_not_there_yet_is_asked_again_while_there_is_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/readyz", listener.local_addr().unwrap());
        serve(listener, vec!["HTTP/1.1 503 Service Unavailable\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nready\n"]);
        assert_eq!(Probe { url, within: 20 }.run().unwrap(), "ready\n");
    }
}
