//! What an answer's head says about the bytes that follow. Pure: a server may say anything.

use http::{HeaderMap, HeaderValue, StatusCode, header};

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// The file from this byte on.
    Body {
        /// The first byte.
        begin: u64,
        /// Bytes of the whole file, if the source says so.
        whole: Option<u64>,
    },
    /// Nothing: all of it is there.
    Complete,
    /// Something that does not go with what is there.
    Restart(&'static str),
    /// The source has no such file, and the next step.
    Refused(&'static str),
    /// The source may have it later.
    Busy,
}

/// Reads the head of an answer to a request from byte `from` on, of the version `validator`.
pub(super) fn read(status: StatusCode, headers: &HeaderMap, from: u64, validator: Option<&HeaderValue>) -> Head {
    let length = number(headers, header::CONTENT_LENGTH);
    match status {
        StatusCode::OK if encoded(headers) => {
            Head::Refused("it sends the file compressed, and only as it is can it be checked: turn that off there")
        }
        StatusCode::OK => Head::Body { begin: 0, whole: length },
        StatusCode::PARTIAL_CONTENT => partial(headers, from, validator, length),
        StatusCode::RANGE_NOT_SATISFIABLE if from > 0 => match range(headers) {
            Some(Range { of: Some(of), .. }) if of == from => Head::Complete,
            _ => Head::Restart("its file is shorter than what came before"),
        },
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => Head::Busy,
        s if s.is_server_error() => Head::Busy,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Head::Refused("check the token"),
        s if s.is_success() => Head::Refused("that is no file: check the URL"),
        _ => Head::Refused("check the URL"),
    }
}

fn partial(headers: &HeaderMap, from: u64, validator: Option<&HeaderValue>, length: Option<u64>) -> Head {
    let Some(Range { first: Some((first, last)), of }) = range(headers) else {
        return Head::Restart("it sends a part and does not say which");
    };
    if first != from {
        return Head::Restart("it sends another part than the one asked for");
    }
    let bytes = last - first + 1;
    if length.is_some_and(|length| length != bytes) || of.is_some_and(|of| last >= of) {
        return Head::Restart("it contradicts itself about the length");
    }
    // A server that heeds If-Range would have sent the whole file.
    if let (Some(known), Some(now)) = (validator.filter(|v| strong(v)), headers.get(header::ETAG))
        && known != now
    {
        return Head::Restart("its file has changed since the first part came");
    }
    Head::Body { begin: first, whole: of.or(first.checked_add(bytes)) }
}

/// What names this version of the file for `If-Range`: a strong ETag, else the date of its last change.
pub(super) fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let etag = headers.get(header::ETAG).filter(|v| strong(v));
    etag.or_else(|| headers.get(header::LAST_MODIFIED)).cloned()
}

/// Weak ones (`W/"…"`) say that two versions are alike, not that their bytes are.
fn strong(etag: &HeaderValue) -> bool {
    etag.as_bytes().first() == Some(&b'"')
}

fn encoded(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"))
}

struct Range {
    first: Option<(u64, u64)>,
    of: Option<u64>,
}

/// `bytes 5-9/20`, `bytes 5-9/*` or `bytes */20`.
fn range(headers: &HeaderMap) -> Option<Range> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (part, of) = text.strip_prefix("bytes ")?.split_once('/')?;
    let of = if of == "*" { None } else { Some(digits(of)?) };
    let first = match part {
        "*" => None,
        part => {
            let (first, last) = part.split_once('-')?;
            Some((digits(first)?, digits(last)?)).filter(|(first, last)| first <= last && *last < u64::MAX)
        }
    };
    (first.is_some() || part == "*").then_some(Range { first, of })
}

fn number(headers: &HeaderMap, name: header::HeaderName) -> Option<u64> {
    digits(headers.get(name)?.to_str().ok()?)
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, from: u64, known: Option<&'static str>, headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let known = known.map(HeaderValue::from_static);
        read(StatusCode::from_u16(status).unwrap(), &map, from, known.as_ref())
    }

    #[test]
    fn what_fits_is_taken() {
        let body = |begin, whole| Head::Body { begin, whole };
        assert_eq!(head(200, 0, None, &[("content-length", "9")]), body(0, Some(9)));
        assert_eq!(head(200, 0, None, &[]), body(0, None));
        assert_eq!(head(200, 5, None, &[("content-length", "9")]), body(0, Some(9)));
        assert_eq!(head(206, 5, None, &[("content-range", "bytes 5-8/9")]), body(5, Some(9)));
        assert_eq!(head(206, 5, None, &[("content-range", "bytes 5-6/9"), ("content-length", "2")]), body(5, Some(9)));
        assert_eq!(head(206, 5, None, &[("content-range", "bytes 5-8/*")]), body(5, Some(9)));
        let same = [("content-range", "bytes 5-8/9"), ("etag", "\"a\"")];
        assert_eq!(head(206, 5, Some("\"a\""), &same), body(5, Some(9)));
        assert_eq!(head(206, 5, Some("Tue, 01 Jan 2030 00:00:00 GMT"), &same), body(5, Some(9)));
        assert_eq!(head(416, 9, None, &[("content-range", "bytes */9")]), Head::Complete);
    }

    #[test]
    fn what_does_not_fit_is_never_appended() {
        let restart = |status: u16, from: u64, known: Option<&'static str>, headers: &[(&'static str, &str)]| {
            assert!(matches!(head(status, from, known, headers), Head::Restart(_)), "{headers:?}");
        };
        for range in ["bytes 4-8/9", "bytes 0-8/9", "bytes 6-8/9", "bytes 5-9/9", "bytes 8-5/9", "bytes */9"] {
            restart(206, 5, None, &[("content-range", range)]);
        }
        for range in ["5-8/9", "bytes 5-8", "bytes 5/9", "bytes 5-18446744073709551615/*", "bytes +5-8/9", "x"] {
            restart(206, 5, None, &[("content-range", range)]);
        }
        restart(206, 5, None, &[]);
        restart(206, 5, None, &[("content-range", "bytes 5-8/9"), ("content-length", "3")]);
        restart(206, 5, Some("\"a\""), &[("content-range", "bytes 5-8/9"), ("etag", "\"b\"")]);
        restart(416, 9, None, &[("content-range", "bytes */8")]);
        restart(416, 9, None, &[]);
    }

    #[test]
    fn what_is_no_file_says_what_to_do() {
        for (status, word) in [(404, "URL"), (410, "URL"), (401, "token"), (403, "token"), (204, "URL"), (416, "URL")] {
            assert!(matches!(head(status, 0, None, &[]), Head::Refused(hint) if hint.contains(word)), "{status}");
        }
        let gzip = head(200, 0, None, &[("content-encoding", "gzip")]);
        assert!(matches!(gzip, Head::Refused(hint) if hint.contains("compressed")));
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert_eq!(head(status, 0, None, &[]), Head::Busy, "{status}");
        }
    }

    #[test]
    fn only_what_names_the_bytes_is_a_validator() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            validator(&map).map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(of(&[("etag", "\"a\""), ("last-modified", "x")]).as_deref(), Some("\"a\""));
        assert_eq!(of(&[("etag", "W/\"a\""), ("last-modified", "x")]).as_deref(), Some("x"));
        assert_eq!(of(&[("etag", "W/\"a\"")]), None);
    }
}
