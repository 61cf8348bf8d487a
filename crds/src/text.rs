//! Strings with a form: durations, quantities, money, percents, URLs, digests. Each has one regular expression and one
//! sentence that says what to write instead; the API server checks them as CEL and [`crate::schema`] checks the same
//! expression in Rust, so the two cannot differ.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, max: $max:literal, pattern: $pattern:literal $(&& $more:literal)*, write: $write:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// What to write instead of something that has another form.
            pub const WRITE: &'static str = $write;
            /// The text as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "maxLength": $max,
                    "x-kubernetes-validations": [{
                        "rule": concat!("self.matches(r'", $pattern, "')" $(, " && self.matches(r'", $more, "')")*),
                        "message": $write,
                    }],
                })
            }
        }
    };
}

text!(
    /// A length of time as Go writes it: `100ms`, `1h30m`. Always more than nothing.
    Duration, max: 32,
    pattern: "^([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s|m|h)){1,4}$" && "[1-9]",
    write: "write a duration with its unit, longer than zero, such as 100ms, 5s, 2m or 720h"
);

text!(
    /// A number of bytes as Kubernetes writes it: `512Mi`, `4Gi`, `20M`.
    Bytes, max: 32,
    pattern: "^[0-9]{1,12}([.][0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$" && "[1-9]",
    write: "write a number of bytes in quotes or with its unit, such as 512Mi, 4Gi or 20M"
);

text!(
    /// A part of a disk, or a number of bytes; none at all is `"0"`.
    DiskPart, max: 32,
    pattern: "^([0-9]{1,2}%|[0-9]{1,12}([.][0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?)$",
    write: "write a part of the disk such as 15% (99% at most), or a number of bytes in quotes or with its unit, such as 2Gi"
);

text!(
    /// An amount of money as a decimal string: `"0.15"`.
    Money, max: 20,
    pattern: "^[0-9]{1,9}([.][0-9]{1,6})?$",
    write: "write an amount as a string in quotes with at most 6 decimals, such as \"0.15\""
);

text!(
    /// A physical amount as a decimal string: `"0.4"`.
    Decimal, max: 20,
    pattern: "^[0-9]{1,9}([.][0-9]{1,6})?$",
    write: "write a number as a string in quotes with at most 6 decimals, such as \"0.4\""
);

text!(
    /// An objective in percent, above 0 and below 100: `"99"`, `"99.9"`.
    Objective, max: 8,
    pattern: "^[0-9]{1,2}([.][0-9]{1,2})?$" && "[1-9]",
    write: "write a percent below 100 as a string in quotes, such as \"99\" or \"99.9\""
);

text!(
    /// An http or https URL without user information, query or fragment.
    Url, max: 512,
    pattern: r"^https?://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[-A-Za-z0-9._~%!$&()*+,;=:/]*)?$",
    write: "write an http or https URL without user information, query or fragment, such as https://api.example.com/v1; credentials belong in a Secret"
);

text!(
    /// The SHA-256 of a file: 64 hexadecimal digits.
    Sha256, max: 64,
    pattern: "^[0-9a-f]{64}$",
    write: "write the 64 lower-case hexadecimal digits that sha256sum prints, without sha256: in front"
);

text!(
    /// An ISO 4217 code: `USD`.
    Currency, max: 3,
    pattern: "^[A-Z]{3}$",
    write: "write a currency as its three capital letters, such as USD"
);

text!(
    /// The name of a model, as clients and traces see it.
    ModelName, max: 96,
    pattern: "^[A-Za-z0-9][-A-Za-z0-9._:/]*$",
    write: "write a model name of letters, digits and . _ : / -, such as smollm2-135m-instruct"
);

text!(
    /// A short word that becomes a label of metrics: a feature, a task, a region, an entity type.
    Word, max: 63,
    pattern: "^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$",
    write: "write a word of letters, digits and - . _ that begins and ends with a letter or digit, such as eu-west"
);

text!(
    /// A path from the root, without `..`.
    Path, max: 256,
    pattern: "^(/[A-Za-z0-9_+~-][A-Za-z0-9._+~-]*)+$",
    write: "write a path from the root, without . or .. parts, such as /models/model.gguf"
);

text!(
    /// A range of addresses: `10.0.0.0/8`, `fd00::/8`.
    Cidr, max: 49,
    pattern: "^([0-9]{1,3}([.][0-9]{1,3}){3}/([0-9]|[12][0-9]|3[0-2])|[0-9a-fA-F:]{2,39}/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))$",
    write: "write a range of addresses, such as 10.0.0.0/8 or fd00::/8"
);

text!(
    /// A label key, as of a node's topology.
    LabelKey, max: 253,
    pattern: "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9._]{0,61}[A-Za-z0-9])?$",
    write: "write a label key, such as topology.kubernetes.io/zone"
);

text!(
    /// The name of an extended resource.
    ResourceName, max: 253,
    pattern: "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$",
    write: "write the resource that the device plugin offers, such as nvidia.com/gpu or nvidia.com/gpu.shared"
);

text!(
    /// An image with its digest.
    ImageReference, max: 512,
    pattern: "^[a-z0-9][-a-z0-9.]*(:[0-9]{1,5})?(/[a-z0-9][-a-z0-9._]*)+(:[A-Za-z0-9_][-A-Za-z0-9._]{0,127})?@sha256:[0-9a-f]{64}$",
    write: "write an image with its digest, such as registry.example.com/models/smollm2@sha256:<64 hex digits>: a tag alone may change under a running fleet"
);

text!(
    /// The name of a field of a request.
    FieldName, max: 63,
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    write: "write the name of a top-level field of the request, such as top_k"
);

text!(
    /// The name of an object of Kubernetes.
    ObjectName, max: 253,
    pattern: "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    write: "write the name of an object: lower-case letters, digits, - and ."
);

text!(
    /// The key of an entry of a Secret.
    SecretKey, max: 253,
    pattern: "^[-A-Za-z0-9._]+$",
    write: "write the key of an entry of the Secret: letters, digits and - . _"
);
