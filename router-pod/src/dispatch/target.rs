//! Where an endpoint is: its base URL, taken apart once.

/// An endpoint's base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Host name, or an address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path without a slash at its end.
    pub path: String,
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
        let uri: http::Uri = url.parse().map_err(|_| NotATarget)?;
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
        Ok(Target {
            tls,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// `host:port`, as the pool and spans name it.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The `host` header: the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == (if self.tls { 443 } else { 80 }) { host } else { format!("{host}:{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_apart() {
        let target = Target::parse("https://api.example.com/v1/").unwrap();
        assert_eq!((target.tls, target.port, target.path.as_str()), (true, 443, "/v1"));
        assert_eq!(target.authority(), "api.example.com");
        let target = Target::parse("http://[::1]:8000").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("::1", 8000, ""));
        assert_eq!(target.authority(), "[::1]:8000");
    }

    #[test]
    fn what_could_hide_something_is_refused() {
        for url in ["ftp://x/", "https://user:pw@x/v1", "https://x/v1?key=1", "https://x/#a", "/v1", "https://", ""] {
            assert_eq!(Target::parse(url), Err(NotATarget), "{url}");
        }
    }
}
