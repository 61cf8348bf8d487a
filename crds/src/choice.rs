//! Enums of the kinds and their twins in the contract: one line each, so that they cannot drift apart unseen.

/// Declares an enum of unit variants for manifests; with `=> path`, also its conversion to the contract's twin.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident => $to:ty { $($(#[$vm:meta])* $variant:ident),* $(,)? }) => {
        choice!($(#[$meta])* $name { $($(#[$vm])* $variant),* });
        impl From<$name> for $to {
            fn from(value: $name) -> Self {
                match value { $($name::$variant => <$to>::$variant),* }
            }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$vm:meta])* $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[schemars(inline)]
        pub enum $name { $($(#[$vm])* $variant),* }
        impl $name {
            /// The word in manifests.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => stringify!($variant)),* }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use choice;
