//! Strict YAML: a text becomes a raw type, or one problem with place, key and expectation.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy, Options};

use super::expect;
use super::place::{self, Role};
use super::problem::Problem;
use super::schema;
use super::source::Source;

/// Reads a whole file. An empty file means: every key at its default.
pub fn parse<T: DeserializeOwned + JsonSchema>(source: &Source) -> Result<T, Problem> {
    serde_saphyr::from_str_with_options(&source.text, options())
        .map_err(|error| explain(source, &schema::of::<T>(), error.without_snippet()))
}

fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        // `yes` and `5` are not taken for what they only resemble.
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

/// The value itself is never shown, except where it had to be one of a few words: it may be a
/// secret.
fn explain(source: &Source, schema: &Value, error: &Error) -> Problem {
    if let Error::AliasError { error, .. } = error {
        return explain(source, schema, error);
    }
    let at = error.location().map(|place| (place.line() as u32, place.column() as u32));
    let Some(at) = at.filter(|(line, _)| *line > 0) else {
        return Problem::of_file(&source.file, syntax(error));
    };
    match error {
        Error::SerdeUnknownField { field, .. } => {
            let mut path = place::path_at(&source.text, at, Role::Key).unwrap_or_default();
            path.pop();
            source
                .problem_at_key(at, "unknown key")
                .expecting_one_of(field, expect::keys(schema, &path))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => source
            .problem_at(at, format!("`{variant}` is not known here"))
            .expecting_one_of(variant, expected.iter().copied()),
        Error::DuplicateMappingKey { .. } => {
            source.problem_at_key(at, "stands twice").expecting("each key once")
        }
        Error::SerdeMissingField { field, .. } => {
            let mut problem = source.problem_at(at, format!("the key `{field}` is missing"));
            let mut path = place::path_at(&source.text, at, Role::Value).unwrap_or_default();
            path.push((*field).to_owned());
            problem.expected = expect::at(schema, &path);
            problem.key = Some(path.join("."));
            problem
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
            let mut problem = Problem::of_file(&source.file, syntax(error));
            problem.at = Some(at);
            problem
        }
        _ => mismatch(source, schema, at, "wrong value"),
    }
}

fn mismatch(source: &Source, schema: &Value, at: (u32, u32), what: &str) -> Problem {
    let path = place::path_at(&source.text, at, Role::Value).unwrap_or_default();
    let mut problem = source.problem_at(at, what);
    problem.expected = expect::at(schema, &path);
    problem
}

fn syntax(error: &Error) -> String {
    match error {
        Error::MultipleDocuments { .. } => "more than one YAML document in the file".to_owned(),
        Error::MergeKeyNotAllowed { .. } => "merge keys (`<<`) are not supported".to_owned(),
        Error::UnknownAnchor { .. } => "an alias names no anchor".to_owned(),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::RecursiveReferencesRequireWeakTypes { .. }
        | Error::Budget { .. } => "the YAML expands to too much".to_owned(),
        Error::ExternalMessage { msg, .. } => format!("is not valid YAML: {msg}"),
        Error::Eof { .. } => "is not valid YAML: it ends too early".to_owned(),
        _ => "is not valid YAML".to_owned(),
    }
}
