//! Enums of the API that are strings in JSON.

/// Declares such an enum. The first variant is the default; an unknown string reads as the variant after `else`, so that a
/// newer server cannot make an object unreadable.
macro_rules! text_enum {
    (
        $(#[$doc:meta])*
        pub enum $name:ident else $fallback:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $text)),+];

            /// The string in JSON.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::ALL.iter().find(|(_, word)| *word == text).map_or(Self::$fallback, |(known, _)| *known)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0].0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Word;
                impl serde::de::Visitor<'_> for Word {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a string")
                    }
                    fn visit_str<E>(self, text: &str) -> Result<$name, E> {
                        Ok(text.into())
                    }
                }
                deserializer.deserialize_str(Word)
            }
        }
    };
}

pub(crate) use text_enum;
