//! Templates of teams for people at the dashboard: made as `skep agent new --template` makes them,
//! and in force at once.

use std::sync::Arc;

use skep_runtime::door::{
    DoorError, ErrorKind, MadeTeam, TeamDraft, TeamTemplates, TemplateAgent, TemplateInfo,
};

use crate::apply::Applier;
use crate::home::new_agent::NewAgentError;
use crate::template::{self, Template};

/// What the hive shows and calls.
pub fn offered(applier: Arc<Applier>) -> TeamTemplates {
    TeamTemplates {
        all: template::ALL.iter().map(info).collect(),
        make: Arc::new(move |draft| {
            let applier = Arc::clone(&applier);
            Box::pin(async move { make(&applier, &draft).await })
        }),
    }
}

fn info(template: &Template) -> TemplateInfo {
    let agents = template.agents(template.name);
    let agents = agents.map(|(name, about)| TemplateAgent { name, description: about.to_owned() });
    let agents: Vec<_> = agents.collect();
    TemplateInfo {
        name: template.name.to_owned(),
        // The lead is what others see of the team.
        description: agents.first().map(|lead| lead.description.clone()).unwrap_or_default(),
        agents,
        request: template.request.to_owned(),
    }
}

async fn make(applier: &Applier, draft: &TeamDraft) -> Result<MadeTeam, DoorError> {
    let Some(template) = Template::named(&draft.template) else {
        let known: Vec<_> = template::ALL.iter().map(|template| template.name).collect();
        let text = format!("There is no such template; there are: {}.", known.join(", "));
        return Err(DoorError::new(ErrorKind::NotFound, "unknown_template", text));
    };
    let name = draft.name.as_deref().unwrap_or(template.name);
    let parent = draft.parent.as_ref().map(|parent| parent.as_str());
    let made = applier.make_team(template, name, parent).await;
    let made = made.map_err(|error| refused(applier, &error))?;
    let agents = made.into_iter().map(|it| TemplateAgent { name: it.name, description: it.about });
    Ok(MadeTeam {
        template: template.name.to_owned(),
        agents: agents.collect(),
        request: template.request.to_owned(),
    })
}

fn refused(applier: &Applier, error: &NewAgentError) -> DoorError {
    let (kind, code) = match error {
        NewAgentError::Name(_) => (ErrorKind::Invalid, "bad_name"),
        NewAgentError::Wrong(_) => (ErrorKind::Invalid, "invalid_settings"),
        NewAgentError::Taken(_) => (ErrorKind::Conflict, "name_taken"),
        NewAgentError::NoHome(_) | NewAgentError::Write { .. } => {
            (ErrorKind::Conflict, "settings_not_saved")
        }
    };
    // People at the dashboard need not know where the home is.
    let home = format!("{}/", applier.home().root().display());
    let why = error.to_string().replace(&home, "");
    DoorError::new(kind, code, format!("The team was not made: {why}"))
}
