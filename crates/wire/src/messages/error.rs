//! Anthropic's error body.

use serde_json::{Value, json};

use crate::error::{Code, ErrorBody};

/// An error as Anthropic's packages read it, with Terrace's code and place beside Anthropic's own members. `request_id`
/// is none inside a stream.
pub fn error(code: Code, body: &ErrorBody, request_id: Option<&str>) -> Value {
    let mut error = json!({"type": "error", "error": {
        "type": kind(code),
        "message": body.error.message,
        "code": body.error.code,
        "param": body.error.param,
    }});
    if let Some(id) = request_id {
        error["request_id"] = id.into();
    }
    error
}

/// Anthropic's `type` of an error.
fn kind(code: Code) -> &'static str {
    match code.status() {
        401 => "authentication_error",
        403 | 409 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_type_that_anthropic_has() {
        let known = [
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "not_found_error",
            "request_too_large",
            "rate_limit_error",
            "api_error",
            "overloaded_error",
            "timeout_error",
        ];
        for code in Code::ALL {
            assert!(known.contains(&kind(*code)), "{code:?}");
        }
        let body = error(Code::BoundaryDenied, &ErrorBody::new(Code::BoundaryDenied, "no"), Some("r"));
        let want = json!({"type": "error", "request_id": "r", "error": {
            "type": "permission_error", "message": "no", "code": "boundary_denied", "param": null}});
        assert_eq!(body, want);
    }
}
