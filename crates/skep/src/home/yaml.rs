//! Strict YAML: a text becomes a raw type, or one problem with place, key and expectation.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy, Options};

use super::expect;
use super::mistake::Mistake;
use super::place::{self, NodeRole};
use super::source::SourceText;

/// What is told of a text that would take more than any real one.
pub const TOO_MUCH: &str = "the YAML expands to too much";

/// Reads a whole file. An empty file means: every key at its default.
pub fn parse<T: DeserializeOwned + JsonSchema>(source: &SourceText) -> Result<T, Mistake> {
    serde_saphyr::from_str_with_options(&source.text, options())
        .map_err(|error| explain(source, &expect::schema_of::<T>(), error.without_snippet()))
}

fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        // `yes` is not a boolean and `5` is not a string.
        strict_booleans: true,
        no_schema: true,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        // Far above any real file; what a hostile one can cost stays small.
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_nodes: 50_000,
            max_anchors: 64,
            max_aliases: 256,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
        },
    }
}

/// Never shows the value, which may be a secret, except where it had to be one of a few words.
fn explain(source: &SourceText, schema: &Value, error: &Error) -> Mistake {
    if let Error::AliasError { error, .. } = error {
        return explain(source, schema, error);
    }
    let at = error.location().map(|place| (place.line() as u32, place.column() as u32));
    let Some(at) = at.filter(|(line, _)| *line > 0) else {
        return Mistake::of_file(&source.file, syntax(error));
    };
    match error {
        Error::SerdeUnknownField { field, .. } => {
            let mut path = place::path_at(&source.text, at, NodeRole::Key).unwrap_or_default();
            path.pop();
            source
                .mistake_at_key(at, "unknown key")
                .expecting_one_of(field, expect::keys(schema, &path))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => source
            .mistake_at(at, format!("`{variant}` is not known here"))
            .expecting_one_of(variant, expected.iter().copied()),
        Error::DuplicateMappingKey { .. } => {
            source.mistake_at_key(at, "stands twice").expecting("each key once")
        }
        Error::SerdeMissingField { field, .. } => {
            let mut mistake = source.mistake_at(at, format!("the key `{field}` is missing"));
            let mut path = place::path_at(&source.text, at, NodeRole::Value).unwrap_or_default();
            path.push((*field).to_owned());
            mistake.expected = expect::at(schema, &path);
            mistake.key = Some(path.join("."));
            mistake
        }
        Error::QuotingRequired { .. } => {
            mismatch(source, schema, at, "is a bare number or boolean (a string needs quotes)")
        }
        Error::ExternalMessage { .. }
        | Error::Eof { .. }
        | Error::MultipleDocuments { .. }
        | Error::MergeKeyNotAllowed { .. }
        | Error::UnknownAnchor { .. }
        | Error::ContainerEndMismatch { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::RecursiveReferencesRequireWeakTypes { .. }
        | Error::Budget { .. } => {
            let mut mistake = Mistake::of_file(&source.file, syntax(error));
            mistake.at = Some(at);
            mistake
        }
        _ => mismatch(source, schema, at, "wrong value"),
    }
}

fn mismatch(source: &SourceText, schema: &Value, at: (u32, u32), what: &str) -> Mistake {
    let path = place::path_at(&source.text, at, NodeRole::Value).unwrap_or_default();
    let mut mistake = source.mistake_at(at, what);
    mistake.expected = expect::at(schema, &path);
    mistake
}

fn syntax(error: &Error) -> String {
    match error {
        Error::MultipleDocuments { .. } => "more than one YAML document in the file".to_owned(),
        Error::MergeKeyNotAllowed { .. } => "merge keys (`<<`) are not supported".to_owned(),
        Error::UnknownAnchor { .. } => {
            "an alias names no anchor (a text that begins with `*` is put in quotes)".to_owned()
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::RecursiveReferencesRequireWeakTypes { .. }
        | Error::Budget { .. } => TOO_MUCH.to_owned(),
        Error::ExternalMessage { msg, .. } => format!("is not valid YAML: {msg}"),
        Error::Eof { .. } => "is not valid YAML: it ends too early".to_owned(),
        _ => "is not valid YAML".to_owned(),
    }
}
