//! `${NAME}` in a value stands for an environment variable.

use skep_core::policy::vault;

use super::mistake::Mistake;
use super::scalar::TextScalar;
use super::source::SourceText;

/// The source of variables: the environment, or the table of a test.
pub type Variables<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// A value after expansion. No `Debug`: it may be a secret.
pub struct ExpandedValue {
    pub value: String,
    /// The values of the variables it names.
    pub from_environment: Vec<String>,
}

/// A file being resolved: its text and the environment its values may name.
pub struct Reader<'a> {
    pub source: &'a SourceText,
    pub variables: Variables<'a>,
}

impl Reader<'_> {
    pub fn expand(&self, text: &TextScalar) -> Result<ExpandedValue, Mistake> {
        expand(self.source, text, self.variables)
    }

    pub fn text(&self, text: &TextScalar) -> Result<String, Mistake> {
        let written = text.as_str();
        if vault::long_form(written).is_some() || vault::is_meant(written) {
            let mistake = self.mistake(text, "a vault entry cannot stand here");
            return Err(mistake.expecting("one in `api_key` and `extra_headers` alone"));
        }
        self.expand(text).map(|expanded| expanded.value)
    }

    pub fn mistake(&self, text: &TextScalar, what: impl Into<String>) -> Mistake {
        self.source.mistake_at(text.at(), what)
    }
}

/// Replaces every `${NAME}`. `$` elsewhere stays as it is.
fn expand(
    source: &SourceText,
    text: &TextScalar,
    variables: Variables,
) -> Result<ExpandedValue, Mistake> {
    let mut value = String::new();
    let mut from_environment = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("${") {
        value.push_str(&rest[..start]);
        let Some(length) = rest[start + 2..].find('}') else {
            let mistake = source.mistake_at(text.at(), "`${` is not closed");
            return Err(mistake.expecting("`${NAME}`"));
        };
        let name = &rest[start + 2..start + 2 + length];
        if !is_variable_name(name) {
            let mistake = source.mistake_at(text.at(), "`${…}` holds no variable name");
            return Err(mistake.expecting("letters, digits and underscores"));
        }
        let Some(found) = variables(name) else {
            let what = format!("the environment variable {name} is not set");
            let mistake = source.mistake_at(text.at(), what);
            return Err(mistake.expecting(format!("{name} in the environment of `skep up`")));
        };
        value.push_str(&found);
        from_environment.push(found);
        rest = &rest[start + 2 + length + 1..];
    }
    value.push_str(rest);
    Ok(ExpandedValue { value, from_environment })
}

pub fn is_variable_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}
