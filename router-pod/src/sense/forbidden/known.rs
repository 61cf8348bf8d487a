//! What is known of a request that stays with whoever receives it: every other type, and every other member of these,
//! may be one that reaches out.

use super::shape::Shape::{self, Free, Held, List, Object, Open, Or, Plain, Schema, Tagged, Word};

/// Members of a request that are objects or lists. The others are plain; those of none of our lists do not travel,
/// unless a tier names them.
pub(super) const REQUEST: &[(&str, Shape)] = &[
    ("messages", List(&Open(MESSAGE))),
    ("tools", List(&TOOL)),
    ("functions", List(&Object(FUNCTION))),
    ("tool_choice", Or(&Word(&["none", "auto", "required", "any"]), &CHOICE)),
    ("function_call", Or(&Word(&["none", "auto"]), &Object(NAME))),
    ("response_format", FORMAT),
    ("prediction", Tagged(&[("content", &[("content", CONTENT)])])),
    ("reasoning_effort", Plain),
    ("verbosity", Plain),
    ("suffix", Plain),
    ("prompt", Or(&Plain, &List(&Or(&Plain, &List(&Plain))))),
    ("input", Or(&Plain, &List(&Or(&Plain, &List(&Plain))))),
];

/// Members of a message; others do not travel.
const MESSAGE: &[(&str, Shape)] = &[
    ("role", Plain),
    ("name", Plain),
    ("content", CONTENT),
    ("refusal", Plain),
    ("reasoning_content", Plain),
    ("tool_call_id", Plain),
    ("tool_calls", List(&CALL)),
    ("function_call", Object(CALLED)),
];

const CONTENT: Shape = Or(&Plain, &List(&Tagged(PARTS)));

const TEXT: &[(&str, Shape)] = &[
    ("text", Plain),
    ("annotations", Free),
    ("cache_control", Free),
    ("citations", Free),
    ("id", Plain),
    ("index", Plain),
    ("logprobs", Free),
];

/// Parts of content. What is no text has its bytes with it.
const PARTS: &[(&str, &[(&str, Shape)])] = &[
    ("text", TEXT),
    ("input_text", TEXT),
    ("output_text", TEXT),
    ("refusal", &[("refusal", Plain), ("cache_control", Free)]),
    ("image_url", &[("image_url", Held("url")), ("cache_control", Free)]),
    ("image", &[("image", Held("url")), ("cache_control", Free)]),
    ("input_image", &[("image_url", Held("url")), ("detail", Plain), ("cache_control", Free)]),
    ("video_url", &[("video_url", Held("url"))]),
    ("audio_url", &[("audio_url", Held("url"))]),
    ("input_audio", &[("input_audio", Held("data"))]),
    ("file", &[("file", Held("file_data")), ("cache_control", Free)]),
];

const NAME: &[(&str, Shape)] = &[("name", Plain)];
const CALLED: &[(&str, Shape)] = &[("name", Plain), ("arguments", Plain)];
const FUNCTION: &[(&str, Shape)] =
    &[("name", Plain), ("description", Plain), ("parameters", Schema), ("strict", Plain)];

/// Tools that run at the caller; hosted ones run at the receiver and reach out from there.
const TOOL: Shape = Tagged(&[
    ("function", &[("function", Object(FUNCTION)), ("strict", Plain), ("cache_control", Free)]),
    ("custom", &[("custom", Object(&[("name", Plain), ("description", Plain), ("format", Free)]))]),
]);

const CALL: Shape = Tagged(&[
    ("function", &[("function", Object(CALLED)), ("id", Plain), ("index", Plain)]),
    ("custom", &[("custom", Object(&[("name", Plain), ("input", Plain)])), ("id", Plain), ("index", Plain)]),
]);

const NAMED: Shape = Tagged(&[("function", &[("function", Object(NAME))]), ("custom", &[("custom", Object(NAME))])]);

const CHOICE: Shape = Tagged(&[
    ("function", &[("function", Object(NAME))]),
    ("custom", &[("custom", Object(NAME))]),
    ("allowed_tools", &[("allowed_tools", Object(&[("mode", Plain), ("tools", List(&NAMED))]))]),
]);

const FORMAT: Shape = Tagged(&[
    ("text", &[]),
    ("json_object", &[("schema", Schema)]),
    (
        "json_schema",
        &[("json_schema", Object(&[("name", Plain), ("description", Plain), ("schema", Schema), ("strict", Plain)]))],
    ),
]);
