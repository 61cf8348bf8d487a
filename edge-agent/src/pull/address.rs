//! Where a model is: the URL that was given, and where a source sends us from there.

use http::{HeaderValue, Uri};

use super::error::PullError;

/// A URL that can be asked.
///
/// # Errors
/// Says what to write instead.
pub(super) fn parse(text: &str) -> Result<Uri, PullError> {
    // The text is not repeated: it may hold a password.
    let uri: Uri = text.parse().map_err(|e| PullError::Configuration(format!("--model-url is not a URL: {e}")))?;
    check(&uri).map_err(|why| PullError::Configuration(format!("--model-url: {why}")))?;
    Ok(uri)
}

fn check(uri: &Uri) -> Result<(), &'static str> {
    let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("it must begin with http:// or https:// and a host");
    };
    if authority.as_str().contains('@') {
        return Err("a name or password does not belong in it: give a token (--model-token-file)");
    }
    Ok(())
}

/// For messages: without its query, which may carry a secret.
pub(super) fn shown(uri: &Uri) -> String {
    format!("{}://{}{}", uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |a| a.as_str()), uri.path())
}

/// Who is asked: a token is for nobody else.
pub(super) fn origin(uri: &Uri) -> (Option<&str>, Option<&str>, Option<u16>) {
    let port = uri.port_u16().or(if uri.scheme_str() == Some("https") { Some(443) } else { Some(80) });
    (uri.scheme_str(), uri.host(), port)
}

/// A redirect's target. From https it never leads to http.
///
/// # Errors
/// Says what is wrong with it, without repeating it: presigned ones carry secrets in their query.
pub(super) fn redirected(from: &Uri, location: Option<&HeaderValue>) -> Result<Uri, String> {
    let location = location.and_then(|v| v.to_str().ok()).ok_or("it redirects to nowhere")?;
    let to: Uri =
        join(from, location).parse().map_err(|e| format!("it redirects to something that is no URL ({e})"))?;
    check(&to).map_err(|_| "it redirects to something that is not http:// or https:// with a host")?;
    if from.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
        return Err("it redirects from https to http, which is not followed".into());
    }
    Ok(to)
}

/// RFC 3986, section 5.2: a reference as seen from `base`. What is after `#` is never sent.
fn join(base: &Uri, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let (path, query) = reference.find('?').map_or((reference, ""), |at| reference.split_at(at));
    let scheme = base.scheme_str().unwrap_or_default();
    let root = format!("{scheme}://{}", base.authority().map_or("", |a| a.as_str()));
    let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    if has_scheme {
        reference.to_owned()
    } else if path.starts_with("//") {
        format!("{scheme}:{reference}")
    } else if path.starts_with('/') {
        format!("{root}{}{query}", without_dots(path))
    } else if path.is_empty() {
        let kept =
            if query.is_empty() { base.query().map(|q| format!("?{q}")).unwrap_or_default() } else { query.into() };
        format!("{root}{}{kept}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{root}{}{query}", without_dots(&format!("{folder}/{path}")))
    }
}

/// A path that begins with `/`, its `.` and `..` taken out.
fn without_dots(path: &str) -> String {
    let mut out = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        match part {
            "." => {}
            ".." => drop(out.pop()),
            part => {
                out.push(part);
                continue;
            }
        }
        if parts.peek().is_none() {
            out.push("");
        }
    }
    format!("/{}", out.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(from: &str, location: &str) -> Result<String, String> {
        redirected(&parse(from).unwrap(), Some(&HeaderValue::from_str(location).unwrap())).map(|u| u.to_string())
    }

    #[test]
    fn redirects_are_read_as_the_standard_says() {
        let from = "https://a.example/models/m.gguf?x=1";
        for (location, target) in [
            ("/other", "https://a.example/other"),
            ("n.gguf", "https://a.example/models/n.gguf"),
            ("n.gguf?v=a:b/c", "https://a.example/models/n.gguf?v=a:b/c"),
            ("./n.gguf#part", "https://a.example/models/n.gguf"),
            ("../n.gguf", "https://a.example/n.gguf"),
            ("../../../n/./o/../", "https://a.example/n/"),
            ("?y=2", "https://a.example/models/m.gguf?y=2"),
            ("", "https://a.example/models/m.gguf?x=1"),
            ("//b.example/n", "https://b.example/n"),
            ("https://c.example:8443/n?sig=s", "https://c.example:8443/n?sig=s"),
        ] {
            assert_eq!(to(from, location).as_deref(), Ok(target), "{location}");
        }
        for location in ["http://a.example/models/m.gguf", "file:///etc/passwd", "https://u:p@b.example/", "http://["] {
            let error = to(from, location).unwrap_err();
            assert!(!error.contains("example") && !error.contains("passwd"), "{error}");
        }
        assert_eq!(to("http://a.example/m", "https://a.example/m").as_deref(), Ok("https://a.example/m"));
    }

    #[test]
    fn what_is_no_source_is_refused_without_its_secrets() {
        for (url, word) in [
            ("ftp://a.example/m", "http://"),
            ("/m", "http://"),
            ("https://user:hunter2@a.example/m", "--model-token-file"),
            ("https://user:hunter2@a.exa mple/m", "not a URL"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("hunter2"), "{error}");
        }
        assert_eq!(shown(&parse("https://a.example/m?sig=hunter2").unwrap()), "https://a.example/m");
    }

    #[test]
    fn a_port_that_goes_without_saying_is_the_same_origin() {
        let same = |a: &str, b: &str| origin(&a.parse().unwrap()) == origin(&b.parse().unwrap());
        assert!(same("https://a.example/x", "https://a.example:443/y"));
        assert!(!same("https://a.example/x", "https://a.example:444/x"));
        assert!(!same("https://a.example/x", "http://a.example:443/x"));
        assert!(!same("https://a.example/x", "https://b.example/x"));
    }
}
