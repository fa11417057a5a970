//! Commands at the door: handled past the lane, never seen by a model.

use serde::Serialize;
use utoipa::ToSchema;

use crate::vocab::cause::Slash;

/// What a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    Message(String),
    Command(Slash),
}

/// A command as it is shown and completed everywhere: `/help`, the terminal, the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CommandInfo {
    /// With its slash.
    pub name: &'static str,
    /// What may follow it; empty where nothing does.
    pub arguments: &'static str,
    pub help: &'static str,
}

pub const fn command(
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
) -> CommandInfo {
    CommandInfo { name, arguments, help }
}

pub const COMMANDS: &[CommandInfo] = &[
    command("/new", "[message]", "new conversation"),
    command("/model", "[name]", "show or change the model"),
    command("/think", "[off|low|medium|high]", "show or change thinking"),
    command("/compact", "[what to keep]", "summarise older messages"),
    command("/skill", "[name] [message]", "use a skill, or list them"),
    command("/status", "", "turn, queue, model, cost"),
    command("/stop", "", "stop the turn; queued messages stay"),
    command("/help", "", "this list"),
];

/// `//` at the start sends a literal slash.
pub fn parse(text: &str) -> Typed {
    let trimmed = text.trim_start();
    if let Some(literal) = trimmed.strip_prefix("//") {
        return Typed::Message(format!("/{literal}"));
    }
    let Some(line) = trimmed.strip_prefix('/') else { return Typed::Message(text.to_owned()) };
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
    // Telephones begin with a capital.
    match word.to_lowercase().as_str() {
        "stop" | "abort" => Typed::Command(Slash::Stop),
        "new" | "reset" => Typed::Command(Slash::New { rest }),
        "model" => Typed::Command(Slash::Model { wanted: rest }),
        "think" => Typed::Command(Slash::Think { wanted: rest }),
        "compact" => Typed::Command(Slash::Compact { keep: rest }),
        "skill" => Typed::Command(skill(rest)),
        "status" => Typed::Command(Slash::Status),
        "help" => Typed::Command(Slash::Help),
        _ => Typed::Command(Slash::Unknown { word: format!("/{word}") }),
    }
}

fn skill(rest: Option<String>) -> Slash {
    let Some(line) = rest else { return Slash::Skill { name: None, rest: None } };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
    Slash::Skill { name: Some(name.to_owned()), rest: rest.map(str::to_owned) }
}

/// The list of commands, with those that a client handles itself.
pub fn help(own: &[CommandInfo]) -> String {
    let literal = command("//text", "", "send text that begins with a slash");
    let all = COMMANDS.iter().chain(own).chain([&literal]);
    let entry = |it: &CommandInfo| {
        (format!("{} {}", it.name, it.arguments).trim_end().to_owned(), it.help.to_owned())
    };
    listed("Commands", all.map(entry))
}

/// A list as every channel shows it: a heading, then an entry a line, indented by two, with at
/// least two spaces between what it is about and what is said of it.
pub fn listed(
    heading: &str,
    entries: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
) -> String {
    let entries = entries.into_iter().map(|(name, text)| (name.into(), text.into()));
    let entries: Vec<(String, String)> = entries.collect();
    let column = entries.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = entries.iter().map(|(name, text)| format!("\n  {name:<column$}  {text}"));
    lines.fold(heading.to_owned(), |list, line| list + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        let message = |text: &str| Typed::Message(text.to_owned());
        let new = |rest: Option<&str>| Typed::Command(Slash::New { rest: rest.map(str::to_owned) });
        let unknown = |word: &str| Typed::Command(Slash::Unknown { word: word.to_owned() });
        let skill = |name: &str, rest: Option<&str>| {
            let rest = rest.map(str::to_owned);
            Typed::Command(Slash::Skill { name: Some(name.to_owned()), rest })
        };
        let cases = [
            ("hello", message("hello")),
            ("  hello", message("  hello")),
            ("//etc is a folder", message("/etc is a folder")),
            ("/stop", Typed::Command(Slash::Stop)),
            ("/abort now", Typed::Command(Slash::Stop)),
            ("/new", new(None)),
            ("/reset  tell me\nmore", new(Some("tell me\nmore"))),
            (" /status", Typed::Command(Slash::Status)),
            ("/help", Typed::Command(Slash::Help)),
            ("/model", Typed::Command(Slash::Model { wanted: None })),
            ("/model fast ", Typed::Command(Slash::Model { wanted: Some("fast".into()) })),
            ("/compact", Typed::Command(Slash::Compact { keep: None })),
            ("/compact the plan", Typed::Command(Slash::Compact { keep: Some("the plan".into()) })),
            ("/skill", Typed::Command(Slash::Skill { name: None, rest: None })),
            ("/skill review", skill("review", None)),
            ("/Skill review  the diff\nof today ", skill("review", Some("the diff\nof today"))),
            ("/think high", Typed::Command(Slash::Think { wanted: Some("high".into()) })),
            ("/Stop", Typed::Command(Slash::Stop)),
            ("/STATUS", Typed::Command(Slash::Status)),
            ("/Stopp", unknown("/Stopp")),
            ("/etc/passwd is what?", unknown("/etc/passwd")),
            ("/", unknown("/")),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
    /// Whoever completes from the table never sends a word that is not understood.
    #[test]
    fn every_listed_command_is_understood() {
        for CommandInfo { name, .. } in COMMANDS {
            let unknown = matches!(parse(name), Typed::Command(Slash::Unknown { .. }));
            assert!(!unknown && matches!(parse(name), Typed::Command(_)), "{name}");
        }
    }
}
