//! `${NAME}` in a value stands for an environment variable.

use super::problem::Problem;
use super::scalar::Text;
use super::source::Source;

/// Where variables come from: the process's environment, or a test's table.
pub type Variables<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// A value after expansion. No `Debug`: it may be a secret.
pub struct Expanded {
    pub value: String,
    /// The values of the variables it names.
    pub from_environment: Vec<String>,
}

/// A file being resolved: its text and the environment its values may name.
pub struct Reader<'a> {
    pub source: &'a Source,
    pub variables: Variables<'a>,
}

impl Reader<'_> {
    pub fn expand(&self, text: &Text) -> Result<Expanded, Problem> {
        expand(self.source, text, self.variables)
    }

    pub fn text(&self, text: &Text) -> Result<String, Problem> {
        self.expand(text).map(|expanded| expanded.value)
    }

    pub fn problem(&self, text: &Text, what: impl Into<String>) -> Problem {
        self.source.problem_at(text.at(), what)
    }
}

/// Replaces every `${NAME}`. `$` elsewhere stays as it is.
fn expand(source: &Source, text: &Text, variables: Variables) -> Result<Expanded, Problem> {
    let mut value = String::new();
    let mut from_environment = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("${") {
        value.push_str(&rest[..start]);
        let Some(length) = rest[start + 2..].find('}') else {
            let problem = source.problem_at(text.at(), "`${` is not closed");
            return Err(problem.expecting("`${NAME}`"));
        };
        let name = &rest[start + 2..start + 2 + length];
        if !is_variable_name(name) {
            let problem = source.problem_at(text.at(), "`${…}` holds no variable name");
            return Err(problem.expecting("letters, digits and underscores"));
        }
        let Some(found) = variables(name) else {
            let what = format!("the environment variable {name} is not set");
            let problem = source.problem_at(text.at(), what);
            return Err(problem.expecting(format!("{name} in the environment of `skep up`")));
        };
        value.push_str(&found);
        from_environment.push(found);
        rest = &rest[start + 2 + length + 1..];
    }
    value.push_str(rest);
    Ok(Expanded { value, from_environment })
}

fn is_variable_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}
