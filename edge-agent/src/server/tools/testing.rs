//! What of a template says how its model calls tools.

pub(super) const HERMES: &str = "{{ tools }} <tool_call>";
pub(super) const MISTRAL: &str = "{{ tools }} [TOOL_CALLS]";
pub(super) const LLAMA: &str = "{{ tools }} <|python_tag|>";
pub(super) const OTHER: &str = "{{ messages }}";
