//! Where an endpoint is: its base URL, taken apart once, when a snapshot is taken into use.

use http::{HeaderValue, Uri};

use super::body::Call;

/// An endpoint's base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Host name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `host:port`, as the pool names it.
    pub place: String,
    /// The `host` header: the port only where it is not the scheme's own.
    pub authority: HeaderValue,
    /// Where each call goes, whole: HTTP/2 carries scheme and authority in the request line.
    uris: [(Call, Uri); 3],
}

/// A URL that no endpoint can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the URL must be http or https, with a host and without user, query or fragment")]
pub struct NotATarget;

impl Target {
    /// Reads a base URL.
    ///
    /// # Errors
    /// [`NotATarget`].
    pub fn parse(url: &str) -> Result<Target, NotATarget> {
        let uri: Uri = url.parse().map_err(|_| NotATarget)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(NotATarget),
        };
        let authority = uri.authority().ok_or(NotATarget)?;
        if authority.as_str().contains('@') || uri.query().is_some() || url.contains('#') || authority.host().is_empty()
        {
            return Err(NotATarget);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let own = if tls { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(own);
        let named = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let named = if port == own { named } else { format!("{named}:{port}") };
        let (scheme, path) = (if tls { "https" } else { "http" }, uri.path().trim_end_matches('/'));
        let whole = |call: Call| {
            let uri = format!("{scheme}://{named}{path}{}", call.path()).parse().map_err(|_| NotATarget)?;
            Ok((call, uri))
        };
        Ok(Target {
            tls,
            place: format!("{host}:{port}"),
            authority: HeaderValue::from_str(&named).map_err(|_| NotATarget)?,
            uris: [whole(Call::Chat)?, whole(Call::Completion)?, whole(Call::Embedding)?],
            host,
            port,
        })
    }

    /// Where a call goes.
    pub fn uri(&self, call: Call) -> Uri {
        let [chat, others @ ..] = &self.uris;
        others.iter().find(|(of, _)| *of == call).unwrap_or(chat).1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_apart() {
        let target = Target::parse("https://api.example.com/v1/").unwrap();
        assert_eq!((target.tls, target.port, target.place.as_str()), (true, 443, "api.example.com:443"));
        assert_eq!(target.authority, "api.example.com");
        assert_eq!(target.uri(Call::Chat), "https://api.example.com/v1/chat/completions");
        assert_eq!(target.uri(Call::Embedding), "https://api.example.com/v1/embeddings");
        let target = Target::parse("http://[::1]:8000").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 8000));
        assert_eq!(target.authority, "[::1]:8000");
        assert_eq!(target.uri(Call::Completion), "http://[::1]:8000/completions");
    }

    #[test]
    fn what_could_hide_something_is_refused() {
        for url in ["ftp://x/", "https://user:pw@x/v1", "https://x/v1?key=1", "https://x/#a", "/v1", "https://", ""] {
            assert_eq!(Target::parse(url), Err(NotATarget), "{url}");
        }
    }
}
