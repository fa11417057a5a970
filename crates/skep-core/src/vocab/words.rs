//! Closed sets of words: enums that are texts in rows, on the wire and in documents.

/// `words! { /// Doc. Name { Variant = "word", … } }`: the enum with `ALL`, `as_str` and `parse`,
/// and its words for serde and for the OpenAPI document.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$why:meta])* $variant:ident = $word:literal),+ $(,)?
    })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$why])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in rows, on the wire and in documents.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        // Derived, it would not see words that come through this macro.
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($word),+]))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )+};
}

pub(crate) use words;
