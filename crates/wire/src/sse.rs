//! Server-sent events: writing `data:` lines, and reading them from chunks that split anywhere.

use std::collections::VecDeque;

use bytes::{Buf as _, BufMut, Bytes, BytesMut};
use serde::Serialize;

/// The last event of an OpenAI stream.
pub const DONE: &str = "[DONE]";
/// Bytes of one event that are still buffered; a peer that sends more is broken.
pub const MAX_EVENT_BYTES: usize = 4 << 20;

/// Bytes that hold most events.
const TYPICAL_EVENT: usize = 384;

/// One event whose data is JSON.
pub fn json_event<T: Serialize>(value: &T) -> Bytes {
    let mut out = BytesMut::with_capacity(TYPICAL_EVENT).writer();
    out.get_mut().put_slice(b"data: ");
    // What cannot be written as JSON is no event's data; nothing here is.
    let _ = serde_json::to_writer(&mut out, value);
    let mut out = out.into_inner();
    out.put_slice(b"\n\n");
    out.freeze()
}

/// One event whose data is a single line.
pub fn data_event(data: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(data.len() + 8);
    out.put_slice(b"data: ");
    out.put_slice(data.as_bytes());
    out.put_slice(b"\n\n");
    out.freeze()
}

/// One event with a name, whose data is JSON.
pub fn named_event<T: Serialize>(name: &str, value: &T) -> Bytes {
    let data = serde_json::to_string(value).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Events as one piece; none if there is none.
pub fn joined(events: &mut VecDeque<Bytes>) -> Option<Bytes> {
    let first = events.pop_front()?;
    if events.is_empty() {
        return Some(first);
    }
    let mut all = BytesMut::with_capacity(first.len() + events.iter().map(Bytes::len).sum::<usize>());
    all.put_slice(&first);
    events.drain(..).for_each(|event| all.put_slice(&event));
    Some(all.freeze())
}

/// The event that ends a stream.
pub fn done_event() -> Bytes {
    Bytes::from_static(b"data: [DONE]\n\n")
}

/// A comment line: a heartbeat that readers skip.
pub fn comment(text: &str) -> Bytes {
    Bytes::from(format!(": {text}\n\n"))
}

/// One event as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `id:` field.
    pub id: Option<String>,
    /// The `event:` field.
    pub event: Option<String>,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// The peer sends something that is no event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenStream {
    /// An event longer than [`MAX_EVENT_BYTES`].
    TooLong,
    /// Bytes that are not UTF-8.
    NotUtf8,
}

impl std::fmt::Display for BrokenStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BrokenStream::TooLong => "an event of the stream is too long",
            BrokenStream::NotUtf8 => "the stream is not UTF-8",
        })
    }
}

impl std::error::Error for BrokenStream {}

/// Reads events from chunks. Lines end in LF, CR LF or CR; comments are skipped.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    scanned: usize,
    current: Event,
    has_data: bool,
    /// The last line ended in CR: a LF right after it belongs to that end.
    after_cr: bool,
}

impl Decoder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk and returns the events that it completes.
    ///
    /// # Errors
    /// [`BrokenStream`]; the stream cannot be read on after it.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<Event>, BrokenStream> {
        self.buffer.extend_from_slice(chunk);
        let mut events = Vec::new();
        let buffer = std::mem::take(&mut self.buffer);
        let (mut read, mut scanned) = (0, self.scanned);
        while let Some(at) = memchr::memchr2(b'\n', b'\r', &buffer[scanned..]) {
            let (end, line) = (buffer[scanned + at], &buffer[read..scanned + at]);
            (read, scanned) = (scanned + at + 1, scanned + at + 1);
            if std::mem::replace(&mut self.after_cr, end == b'\r') && end == b'\n' && line.is_empty() {
                continue;
            }
            let line = std::str::from_utf8(line).map_err(|_| BrokenStream::NotUtf8)?;
            if line.is_empty() {
                let event = std::mem::take(&mut self.current);
                if std::mem::take(&mut self.has_data) {
                    events.push(event);
                }
                continue;
            }
            self.field(line);
        }
        self.buffer = buffer;
        self.buffer.advance(read);
        self.scanned = self.buffer.len();
        if self.buffer.len() + self.current.data.len() > MAX_EVENT_BYTES {
            return Err(BrokenStream::TooLong);
        }
        Ok(events)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
                self.has_data = true;
            }
            "id" => self.current.id = Some(value.to_owned()),
            "event" => self.current.event = Some(value.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_split() {
        let text =
            ": hi\r\nid: 7\ndata: {\"a\":\"\u{e9}\"}\n\ndata: x\ndata: y\n\nevent: end\ndata: [DONE]\n\n".as_bytes();
        let mut whole = Decoder::new();
        let want = whole.push(text).unwrap();
        assert_eq!(want.len(), 3);
        assert_eq!((want[0].id.as_deref(), want[1].data.as_str()), (Some("7"), "x\ny"));
        for size in 1..text.len() {
            let mut decoder = Decoder::new();
            let got: Vec<Event> = text.chunks(size).flat_map(|c| decoder.push(c).unwrap()).collect();
            assert_eq!(got, want, "chunks of {size}");
        }
    }

    #[test]
    fn lines_may_end_in_a_lone_carriage_return() {
        let want = Decoder::new().push(b"data: a\ndata: b\n\nevent: end\ndata: c\n\n").unwrap();
        assert_eq!(want.len(), 2);
        for end in ["\r", "\r\n"] {
            let text = "data: a\ndata: b\n\nevent: end\ndata: c\n\n".replace('\n', end);
            for size in 1..=text.len() {
                let mut decoder = Decoder::new();
                let got: Vec<Event> = text.as_bytes().chunks(size).flat_map(|c| decoder.push(c).unwrap()).collect();
                assert_eq!(got, want, "{end:?}, chunks of {size}");
            }
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::new();
        let chunk = vec![b'x'; 1 << 20];
        let results: Vec<_> = (0..5).map(|_| decoder.push(&chunk)).collect();
        assert_eq!(results.last().unwrap(), &Err(BrokenStream::TooLong));
    }
}
