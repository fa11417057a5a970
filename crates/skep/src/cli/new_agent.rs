//! `skep agent new`: the part that writes into the home.

use skep_cli::commands::agent::{CreatedAgent, CreatedAgents, NewAgentArgs};
use skep_cli::hive::Home;
use skep_cli::{Exit, Failure};
use skep_guard::environment;

use crate::home::new_agent::{self, NewAgentError, NewFolder};
use crate::home::{KnownNames, load_looking};
use crate::template::{self, TeamWish, Template};

/// Creates the folder of a new agent, or those of a team.
pub async fn make(
    home: &Home,
    new: &NewAgentArgs,
    known: &KnownNames,
) -> Result<CreatedAgents, Failure> {
    let name = new.first_name();
    let template = new.template.as_deref().and_then(Template::named);
    let made = match template {
        None => make_one(home, name, new, known),
        Some(template) => {
            let profile = new.profile.as_deref();
            // A file with a mistake is found when the agents are created.
            let loaded = load_looking(home, known, &environment::var).await;
            let rehearses = loaded.is_ok_and(|loaded| template::rehearses(&loaded, profile));
            let wish = TeamWish { name, parent: new.parent.as_deref(), profile, rehearses };
            template.make(home, &wish, known)
        }
    };
    let agents = made.map_err(|error| refused(new, &error))?;
    Ok(CreatedAgents { agents, request: template.map(|it| it.request.to_owned()) })
}

fn make_one(
    home: &Home,
    name: &str,
    new: &NewAgentArgs,
    known: &KnownNames,
) -> Result<Vec<CreatedAgent>, NewAgentError> {
    let folders =
        new_agent::create(home, &[NewFolder::of_agent(name, new)], known, &environment::var)?;
    let about = new.description.clone().unwrap_or_default();
    let agent = |folder| CreatedAgent { name: name.to_owned(), folder, about: about.clone() };
    Ok(folders.into_iter().map(agent).collect())
}

fn refused(new: &NewAgentArgs, error: &NewAgentError) -> Failure {
    let (exit, next) = match error {
        NewAgentError::Name(_) => (Exit::Usage, "skep agent new a-better-name".to_owned()),
        NewAgentError::Taken(_) if new.template.is_some() => {
            (Exit::Failed, "choose another name with --name".to_owned())
        }
        NewAgentError::Taken(_) => (Exit::Failed, format!("skep agent show {}", new.first_name())),
        NewAgentError::NoHome(_) => (Exit::Failed, "skep up".to_owned()),
        NewAgentError::Wrong(_) => (Exit::Usage, "skep agent new --help".to_owned()),
        NewAgentError::Write { .. } => (Exit::Failed, "skep doctor".to_owned()),
    };
    Failure::new(exit, new.attempted(), error.to_string()).next(next)
}
