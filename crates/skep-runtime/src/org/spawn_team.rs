//! `spawn_team`, `request_spawn`: an agent wants a team below it.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use skep_core::heads;
use skep_core::ids::{AgentName, NEW_AGENT_NAME, is_new_agent_name};
use skep_core::policy::allow;
use skep_core::settings::AgentState;
use skep_core::tool::ToolAnswer;
use skep_guard::vault::check_credential;
use skep_store::spawn::Spawner;

use super::arguments::{RequestSpawnArguments, SpawnArguments};
use super::making::{self, SpawnFailure, SpawnOrder};
use super::tool::{OrgCall, answered, refused};
use super::update_team::{DESCRIPTION, keywords};
use crate::door::AgentDraft;

/// Bytes of what a team is to know.
const CONTEXT: usize = 64 << 10;
/// What a team has that nobody named tools for, as far as its spawner has it.
const USUAL: [&str; 2] = ["@files", "@messages"];
/// Credentials of one team.
const MOST_CREDENTIALS: usize = 16;
/// The argument that is on no record.
pub(super) const CREDENTIALS: &str = "credentials";

type Refused = Box<ToolAnswer>;

pub(super) async fn spawn(call: OrgCall, arguments: SpawnArguments) -> ToolAnswer {
    make(&call, named(arguments)).await
}

pub(super) async fn spawn_refusal(call: OrgCall, arguments: SpawnArguments) -> Option<ToolAnswer> {
    refusal(&call, named(arguments)).await
}

pub(super) async fn request(call: OrgCall, arguments: RequestSpawnArguments) -> ToolAnswer {
    make(&call, requested(&call, arguments)).await
}

pub(super) async fn request_refusal(
    call: OrgCall,
    arguments: RequestSpawnArguments,
) -> Option<ToolAnswer> {
    refusal(&call, requested(&call, arguments)).await
}

fn named(arguments: SpawnArguments) -> Result<TeamWish, Refused> {
    let words = match keywords(arguments.scope_accepts) {
        Ok(words) if words.is_empty() => {
            return Err(no("no_keywords", "scope_accepts names at least one keyword"));
        }
        Ok(words) => words,
        Err(why) => return Err(no("bad_keyword", &why)),
    };
    Ok(TeamWish {
        name: arguments.name,
        description: arguments.description.unwrap_or_default(),
        words,
        context: arguments.init_context,
        engine: arguments.engine,
        profile: arguments.profile,
        tools: arguments.allowed_tools,
        has_credentials: arguments.credentials.is_some(),
    })
}

/// What a manager asks for.
fn requested(call: &OrgCall, arguments: RequestSpawnArguments) -> Result<TeamWish, Refused> {
    if !call.is_manager() {
        return Err(no("not_manager", "only an agent with `manager: true` may ask for agents"));
    }
    Ok(TeamWish {
        words: vec![arguments.name.to_string()],
        name: arguments.name,
        description: arguments.description,
        context: None,
        engine: None,
        profile: None,
        tools: None,
        has_credentials: false,
    })
}

/// What an agent wants.
struct TeamWish {
    name: AgentName,
    description: String,
    words: Vec<String>,
    context: Option<String>,
    engine: Option<String>,
    profile: Option<String>,
    tools: Option<Vec<String>>,
    has_credentials: bool,
}

impl TeamWish {
    /// Whether what is on record holds the text.
    fn says(&self, text: &str) -> bool {
        let others = [&self.context, &self.engine, &self.profile].into_iter().flatten();
        let others = others.chain(&self.words).chain(self.tools.iter().flatten());
        let mut others = others.map(String::as_str).chain([self.name.as_str(), &self.description]);
        // Keywords are kept without capitals.
        others.any(|other| other.to_lowercase().contains(&text.to_lowercase()))
    }
}

async fn make(call: &OrgCall, wanted: Result<TeamWish, Refused>) -> ToolAnswer {
    let order = match wanted.and_then(|wanted| order(call, wanted)) {
        Ok(order) => order,
        Err(refused) => return *refused,
    };
    match making::spawn(&call.shared, order).await {
        Ok(result) => answered(&result),
        Err(failure) => told(&failure),
    }
}

/// Why nobody has to be asked whether the team may be made.
async fn refusal(call: &OrgCall, wanted: Result<TeamWish, Refused>) -> Option<ToolAnswer> {
    match wanted.and_then(|wanted| order(call, wanted)) {
        Ok(order) => making::check(&call.shared, &order).await.err().map(|no| told(&no)),
        Err(refused) => Some(*refused),
    }
}

fn told(failure: &SpawnFailure) -> ToolAnswer {
    let SpawnFailure { code, step, why } = failure;
    match step {
        None => refused(code, why),
        Some(step) => {
            let failed = json!({"success": false, "error": code, "step": step, "reason": why});
            ToolAnswer::error(failed.to_string())
        }
    }
}

fn no(code: &str, why: &str) -> Refused {
    Box::new(refused(code, why))
}

fn order(call: &OrgCall, wanted: TeamWish) -> Result<SpawnOrder, Refused> {
    if !is_new_agent_name(wanted.name.as_str()) {
        return Err(no("bad_name", &format!("a name has {NEW_AGENT_NAME}")));
    }
    if wanted.description.chars().count() > DESCRIPTION {
        let why = format!("a description has at most {DESCRIPTION} characters");
        return Err(no("too_large", &why));
    }
    if wanted.context.as_ref().is_some_and(|context| context.len() > CONTEXT) {
        return Err(no("too_large", &format!("init_context has at most {CONTEXT} bytes")));
    }
    let credentials = match (wanted.has_credentials, call.context.secrets.given(CREDENTIALS)) {
        (false, _) => Vec::new(),
        (true, Some(given)) => {
            let given = read_credentials(given).and_then(|given| {
                let open = given.iter().all(|(_, value)| !wanted.says(value.expose_secret()));
                open.then_some(given).ok_or_else(|| "the value stands in another argument".into())
            });
            given.map_err(|why| no("bad_credentials", &why))?
        }
        (true, None) => {
            let why = "the credentials are on no record, and the hive was started since they were \
                       given; nothing was made. Call again with them.";
            return Err(no("credentials_lost", why));
        }
    };
    let settings = call.shared.settings();
    let Some(AgentState::Active(spawner)) = settings.agents.get(&call.context.agent) else {
        return Err(no("unknown_team", "you are not among the agents any more"));
    };
    check_known(call, &wanted)?;
    let tools =
        tools_of(wanted.tools, &spawner.allowed_tools).map_err(|why| no("unknown_tool", &why))?;
    Ok(SpawnOrder {
        op: format!("{}/{}", call.context.turn, call.context.call),
        draft: AgentDraft {
            name: wanted.name,
            parent: Some(call.context.agent.clone()),
            description: wanted.description,
            engine: wanted.engine,
            profile: wanted.profile,
            allowed_tools: Some(tools),
            context: wanted.context,
        },
        words: wanted.words,
        credentials,
        spawner: Spawner::Turn { turn: call.context.turn.clone(), limits: call.chain_limits() },
        by: format!("agent:{}", call.context.agent),
        cancel: call.context.cancel.clone(),
    })
}

/// What is wanted by a name has to be there: nobody is asked about a team that could not be made.
fn check_known(call: &OrgCall, wanted: &TeamWish) -> Result<(), Refused> {
    let (settings, snapshot) = (call.shared.settings(), call.shared.snapshot());
    let unknown = |code: &str, what: &str, name: &str| {
        no(code, &format!("there is no {what} {}", heads::in_line(name)))
    };
    if let Some(name) = wanted.profile.as_ref().filter(|it| !settings.profiles.contains_key(*it)) {
        return Err(unknown("unknown_profile", "profile", name));
    }
    if let Some(name) = wanted.engine.as_ref().filter(|it| !snapshot.engines.contains_key(*it)) {
        return Err(unknown("unknown_engine", "engine", name));
    }
    let is_unknown = |name: &&String| {
        !name.starts_with('@') && !name.contains('*') && snapshot.toolbox.find(name).is_none()
    };
    match wanted.tools.iter().flatten().find(is_unknown) {
        Some(name) => Err(unknown("unknown_tool", "tool", name)),
        None => Ok(()),
    }
}

/// What is named as far as the spawner has it; nothing named: what is usual.
fn tools_of(named: Option<Vec<String>>, spawner: &[String]) -> Result<Vec<String>, String> {
    let usual = || USUAL.iter().map(|name| (*name).to_owned()).collect();
    let mut patterns: Vec<String> = Vec::new();
    for name in named.unwrap_or_else(usual) {
        match allow::preset(&name) {
            Some(tools) => patterns.extend(tools.iter().map(|tool| (*tool).to_owned())),
            None if name.starts_with('@') => return Err(format!("there is no preset {name}")),
            None => patterns.push(name),
        }
    }
    Ok(allow::both(&patterns, spawner))
}

/// Names and values of an object of texts. No refusal repeats any of it.
fn read_credentials(given: &SecretString) -> Result<Vec<(String, SecretString)>, String> {
    let fields: Map<String, Value> = serde_json::from_str(given.expose_secret())
        .map_err(|_| "credentials is an object of names and texts".to_owned())?;
    if fields.len() > MOST_CREDENTIALS {
        return Err(format!("a team has at most {MOST_CREDENTIALS} credentials"));
    }
    let one = |(name, value): (String, Value)| {
        let Value::String(value) = value else {
            return Err("every value of credentials is a text".to_owned());
        };
        check_credential(&name, &value).map_err(|error| error.to_string())?;
        Ok((name, SecretString::from(value)))
    };
    fields.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn org_a_spawned_agent_never_has_more_than_its_spawner() {
        let files = ["read", "write", "edit", "glob", "grep"];
        let check = |named: Option<&[&str]>, spawner: &[&str], expected: &[&str]| {
            let tools = tools_of(named.map(list), &list(spawner));
            assert_eq!(tools, Ok(list(expected)), "{named:?} {spawner:?}");
        };
        check(None, &["read", "bash"], &["read"]);
        check(None, &["bash"], &[]);
        check(None, &["read", "recv", "set_*"], &["read", "recv", "set_status"]);
        check(Some(&["bash", "read"]), &["read"], &["read"]);
        check(Some(&["*"]), &["read", "vault_*"], &["read", "vault_*"]);
        check(Some(&["*"]), &["*"], &["*"]);
        check(Some(&["@files"]), &["*"], &files);
        check(Some(&["@files", "bash"]), &["grep"], &["grep"]);
        check(Some(&[]), &["*"], &[]);
        assert!(tools_of(Some(list(&["@all"])), &list(&["*"])).is_err());
    }

    #[test]
    fn org_credentials_are_keys_under_names() {
        let read = |given: Value| read_credentials(&SecretString::from(given.to_string()));
        let good = |n: usize| (format!("KEY_{n}"), json!(format!("cred-{n:02}-aB3dE5gH7jK9mN")));
        assert_eq!(read((0..16).map(good).collect::<Value>()).unwrap().len(), 16);
        let cases = [
            ((0..17).map(good).collect(), "at most 16"),
            (json!({"C": "operator"}), "an ordinary word"),
            (json!({"C": "password: x y z"}), "ordinary words cannot be hidden"),
            (json!({"C": "cred-0123456789abcd"}), "a name or an id"),
            (json!({"C": "short"}), "8 to 16384 bytes"),
            (json!({"a key": "cred-0123456789abcd"}), "name begins with a letter"),
            (json!({"": "cred-0123456789abcd"}), "name begins with a letter"),
            (json!({"cred-0123456789abcd": "PRESS_TOKEN"}), "looks like a key"),
            (json!({"C": 7}), "is a text"),
            (json!(["x"]), "an object"),
        ];
        for (given, expected) in cases {
            let why = read(given).unwrap_err();
            assert!(why.contains(expected) && !why.contains("cred-"), "{expected}: {why}");
        }
    }

    #[test]
    fn org_a_credential_stands_in_no_other_argument() {
        let key = "cred-0123456789ABCD";
        let with = |change: fn(&mut TeamWish, String)| {
            let mut wish = TeamWish {
                name: AgentName::new("a"),
                description: String::new(),
                words: list(&["books"]),
                context: None,
                engine: None,
                profile: None,
                tools: None,
                has_credentials: true,
            };
            change(&mut wish, format!("use {key}."));
            wish.says(key)
        };
        assert!(!with(|_, _| ()));
        assert!(with(|wish, text| wish.context = Some(text)));
        assert!(with(|wish, text| wish.description = text));
        assert!(with(|wish, text| wish.words.push(text.to_lowercase())));
        assert!(with(|wish, text| wish.tools = Some(vec![text])));
    }
}
