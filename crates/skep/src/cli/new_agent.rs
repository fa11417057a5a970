//! `skep agent new`: the part that writes into the home.

use std::path::PathBuf;

use skep_cli::commands::agent::NewAgentArgs;
use skep_cli::hive::Home;
use skep_cli::{Exit, Failure};
use skep_guard::environment;

use crate::home::KnownNames;
use crate::home::new_agent::{self, NewAgentError};

/// Creates the folder of a new agent and returns its path.
pub fn make(home: &Home, new: &NewAgentArgs, known: &KnownNames) -> Result<PathBuf, Failure> {
    new_agent::create(home, new, known, &environment::var).map_err(|error| refused(new, &error))
}

fn refused(new: &NewAgentArgs, error: &NewAgentError) -> Failure {
    let (exit, next) = match error {
        NewAgentError::Name(_) => (Exit::Usage, "skep agent new a-better-name".to_owned()),
        NewAgentError::Taken { .. } => (Exit::Failed, format!("skep agent show {}", new.name)),
        NewAgentError::NoHome(_) => (Exit::Failed, "skep up".to_owned()),
        NewAgentError::Wrong(_) => (Exit::Usage, "skep agent new --help".to_owned()),
        NewAgentError::Write { .. } => (Exit::Failed, "skep doctor".to_owned()),
    };
    Failure::new(exit, new.attempted(), error.to_string()).next(next)
}
