//! `skep agent new`: the part that writes into the home.

use skep_cli::commands::agent::{CreatedAgent, CreatedAgents, NewAgentArgs};
use skep_cli::hive::Home;
use skep_cli::{Exit, Failure};
use skep_guard::environment;

use crate::home::new_agent::{self, NewAgentError, NewFolder};
use crate::home::{KnownNames, load_looking};
use crate::template::{TeamWish, Template};

/// Creates the folder of a new agent, or those of a team.
pub async fn make(
    home: &Home,
    new: &NewAgentArgs,
    known: &KnownNames,
) -> Result<CreatedAgents, Failure> {
    let name = new.first_name();
    let Some(template) = new.template.as_deref().and_then(Template::named) else {
        let folders = [NewFolder::of_agent(name, new)];
        let about = new.description.as_deref().unwrap_or_default();
        return create(home, new, &folders, known, [about].into_iter());
    };
    let wish = TeamWish {
        name,
        parent: new.parent.as_deref(),
        profile: new.profile.as_deref(),
        rehearses: rehearses(home, new.profile.as_deref(), known).await,
    };
    let made = create(home, new, &template.folders(&wish), known, template.about())?;
    Ok(CreatedAgents { request: Some(template.request.to_owned()), ..made })
}

fn create<'a>(
    home: &Home,
    new: &NewAgentArgs,
    folders: &[NewFolder],
    known: &KnownNames,
    about: impl Iterator<Item = &'a str>,
) -> Result<CreatedAgents, Failure> {
    let made = new_agent::create(home, folders, known, &environment::var);
    let made = made.map_err(|error| refused(new, &error))?;
    let agents = folders.iter().zip(made).zip(about).map(|((it, folder), about)| CreatedAgent {
        name: it.name.clone(),
        folder,
        about: about.to_owned(),
    });
    Ok(CreatedAgents { agents: agents.collect(), request: None })
}

/// Whether the rehearsal model plays agents with this profile, or with the usual one. A file with
/// a mistake is found when the agents are created.
async fn rehearses(home: &Home, profile: Option<&str>, known: &KnownNames) -> bool {
    let Ok(loaded) = load_looking(home, known, &environment::var).await else { return false };
    let profile = match profile {
        Some(name) => loaded.settings.profiles.get(name),
        None => loaded.defaults.profile.as_ref(),
    };
    profile.is_some_and(|profile| profile.provider == "rehearsal")
}

fn refused(new: &NewAgentArgs, error: &NewAgentError) -> Failure {
    let (exit, next) = match error {
        NewAgentError::Name(_) => (Exit::Usage, "skep agent new a-better-name".to_owned()),
        NewAgentError::Taken { .. } if new.template.is_some() => {
            (Exit::Failed, "choose another name with --name".to_owned())
        }
        NewAgentError::Taken { name, .. } => (Exit::Failed, format!("skep agent show {name}")),
        NewAgentError::NoHome(_) => (Exit::Failed, "skep up".to_owned()),
        NewAgentError::Wrong(_) => (Exit::Usage, "skep agent new --help".to_owned()),
        NewAgentError::Write { .. } => (Exit::Failed, "skep doctor".to_owned()),
    };
    Failure::new(exit, new.attempted(), error.to_string()).next(next)
}
