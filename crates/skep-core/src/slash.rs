//! Commands at the door: handled past the lane, never seen by a model.

/// What a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    Message(String),
    Command(Slash),
    /// A `/word` that is none of ours.
    Unknown {
        word: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slash {
    Stop,
    /// A new session; the rest of the line becomes its first message.
    New {
        rest: Option<String>,
    },
    Status,
    Help,
}

pub const COMMANDS: &[(&str, &str)] = &[
    ("/stop", "end the running or waiting turn; queued messages stay"),
    ("/abort", "the same as /stop"),
    ("/new", "begin a new session; what follows on the line becomes its first message"),
    ("/reset", "the same as /new"),
    ("/status", "what runs, waits and is queued here"),
    ("/help", "this list"),
];

/// `//` at the start sends a literal slash.
pub fn parse(text: &str) -> Typed {
    let trimmed = text.trim_start();
    if let Some(literal) = trimmed.strip_prefix("//") {
        return Typed::Message(format!("/{literal}"));
    }
    let Some(line) = trimmed.strip_prefix('/') else {
        return Typed::Message(text.to_owned());
    };
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
    match word {
        "stop" | "abort" => Typed::Command(Slash::Stop),
        "new" | "reset" => Typed::Command(Slash::New { rest }),
        "status" => Typed::Command(Slash::Status),
        "help" => Typed::Command(Slash::Help),
        _ => Typed::Unknown { word: format!("/{word}") },
    }
}

/// The list of commands, one a line.
pub fn help() -> String {
    let lines = COMMANDS.iter().map(|(word, what)| format!("{word}  {what}"));
    lines.collect::<Vec<_>>().join("\n") + "\n//text  send text that begins with a slash"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_table() {
        let message = |text: &str| Typed::Message(text.to_owned());
        let new = |rest: Option<&str>| Typed::Command(Slash::New { rest: rest.map(str::to_owned) });
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
            ("/Stop", Typed::Unknown { word: "/Stop".into() }),
            ("/etc/passwd is what?", Typed::Unknown { word: "/etc/passwd".into() }),
            ("/", Typed::Unknown { word: "/".into() }),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
