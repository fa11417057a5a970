#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use skep_shell::plain;

use super::*;
use crate::policy::ClassPolicy;
use crate::policy::pattern::{CommandPattern, HostPattern, PathPattern, host_of};
use crate::policy::rule::{GrantTo, PathFact};
use crate::vocab::ids::Principal;
use crate::vocab::role::Role;

/// `EFFECT TOOL [path P | command C | host H | for G,G]`, parts set apart by ` | `.
fn rule(text: &str) -> Rule {
    let mut parts = text.split(" | ");
    let (effect, tool) = parts.next().unwrap().split_once(' ').unwrap();
    let mut rule = Rule {
        effect: Effect::parse(effect).unwrap(),
        tool: tool.to_owned(),
        path: None,
        command: None,
        host: None,
        grants: Vec::new(),
        approvers: Vec::new(),
        place: text.to_owned(),
    };
    for part in parts {
        let (key, value) = part.split_once(' ').unwrap();
        match key {
            "path" => rule.path = Some(PathPattern::parse(value).unwrap()),
            "command" => rule.command = Some(CommandPattern::parse(value).unwrap()),
            "host" => rule.host = Some(HostPattern::parse(value).unwrap()),
            "for" => {
                rule.grants = value.split(',').map(|to| GrantTo::parse(to).unwrap()).collect();
            }
            other => panic!("{other}"),
        }
    }
    rule
}

fn person(name: &str) -> Who {
    let role = match name {
        "operator" => Some(Role::Operator),
        "anna" | "bob" => Some(Role::User),
        _ => None,
    };
    let principal = Principal::new(match name {
        "operator" => "operator".to_owned(),
        name => format!("token:{name}-id"),
    });
    Who { principal, role, name: Some(name.to_owned()) }
}

/// `TOOL`, `TOOL $ command`, `TOOL / path`, `TOOL // folder`, `TOOL @ url`.
fn pieces(call: &str) -> (&str, Vec<Piece>) {
    let Some((tool, rest)) = call.split_once(' ') else { return (call, vec![Piece::Whole]) };
    let (kind, value) = rest.split_once(' ').unwrap();
    let pieces = match kind {
        "$" => plain::line(value).0.into_iter().map(Piece::Command).collect(),
        "/" if value == "?" => vec![Piece::Path(PathFact::Unknown)],
        "/" => vec![Piece::Path(PathFact::File(value.to_owned()))],
        "//" => vec![Piece::Path(PathFact::Tree(value.to_owned()))],
        "@" => vec![Piece::Host(host_of(value))],
        other => panic!("{other}"),
    };
    (tool, pieces)
}

fn class_of(tool: &str) -> Class {
    match tool {
        "read" | "glob" | "grep" => Class::Read,
        "write" | "edit" => Class::Write,
        "bash" => Class::Run,
        "web_fetch" | "send" => Class::Reach,
        _ => Class::Shape,
    }
}

fn decide(rules: &[&str], call: &str, who: &[&str]) -> Verdict {
    let rules = rules.iter().map(|text| rule(text)).collect();
    let policy = Policy { rules, ..Policy::default() };
    let (tool, pieces) = pieces(call);
    let who: Vec<Who> = who.iter().map(|name| person(name)).collect();
    let class = class_of(tool);
    let asked =
        PolicyQuery { tool, class, level: SandboxLevel::Confined, pieces: &pieces, who: &who };
    policy.decide(&asked, &[])
}

/// Rules, call, people, effect.
type Case = (&'static [&'static str], &'static str, &'static [&'static str], Effect);

use Effect::{Allow, Ask, Deny};

const OPERATOR: &[&str] = &["operator"];

#[rustfmt::skip]
const CASES: &[Case] = &[
    // Classes, where no rule matches.
    (&[], "read / a", OPERATOR, Allow),
    (&[], "write / a", OPERATOR, Allow),
    (&[], "bash $ ls", OPERATOR, Allow),
    (&[], "web_fetch @ https://example.org", OPERATOR, Ask),
    (&[], "spawn_team", OPERATOR, Ask),
    (&["deny write"], "read / a", OPERATOR, Allow),
    (&["ask bash | command git push"], "bash $ git log", OPERATOR, Allow),
    // Deny decides, however general.
    (&["deny *", "allow read"], "read / a", OPERATOR, Deny),
    (&["deny *", "allow read | path a"], "read / a", OPERATOR, Deny),
    (&["deny re*", "allow read | path a"], "read / a", OPERATOR, Deny),
    (&["deny bash | command rm", "allow bash | command rm -rf build $"],
     "bash $ rm -rf build", OPERATOR, Deny),
    (&["deny write | path secrets/**", "allow write"], "write / secrets/key", OPERATOR, Deny),
    (&["deny write | path secrets/**", "allow write"], "write / src/a", OPERATOR, Allow),
    // Exact tool before pattern.
    (&["ask *", "allow read"], "read / a", OPERATOR, Allow),
    (&["allow *", "ask read"], "read / a", OPERATOR, Ask),
    (&["ask web_*", "allow web_fetch"], "web_fetch @ https://a.org", OPERATOR, Allow),
    (&["allow web_* | host a.org", "ask web_fetch"], "web_fetch @ https://a.org", OPERATOR, Ask),
    // More conditions before fewer.
    (&["ask bash", "allow bash | command git"], "bash $ git log", OPERATOR, Allow),
    (&["allow bash", "ask bash | command git"], "bash $ git log", OPERATOR, Ask),
    (&["ask write", "allow write | path docs/**"], "write / docs/a.md", OPERATOR, Allow),
    (&["ask write", "allow write | path docs/**"], "write / src/a.rs", OPERATOR, Ask),
    // Narrower before wider.
    (&["ask bash | command git", "allow bash | command git status"],
     "bash $ git status", OPERATOR, Allow),
    (&["allow bash | command git", "ask bash | command git push"],
     "bash $ git push", OPERATOR, Ask),
    (&["ask write | path **", "allow write | path docs/**"], "write / docs/a", OPERATOR, Allow),
    (&["ask write | path docs/**", "allow write | path docs/*.md"],
     "write / docs/a.md", OPERATOR, Allow),
    (&["allow write | path docs/**", "ask write | path docs/private/**"],
     "write / docs/private/a", OPERATOR, Ask),
    (&["ask w*", "allow wri*"], "write / a", OPERATOR, Allow),
    (&["ask web_fetch | host *.org", "allow web_fetch | host *.a.org"],
     "web_fetch @ https://x.a.org", OPERATOR, Allow),
    // A tie asks.
    (&["ask read", "allow read"], "read / a", OPERATOR, Ask),
    (&["allow read", "ask read"], "read / a", OPERATOR, Ask),
    (&["ask bash | command git log", "allow bash | command git log"],
     "bash $ git log", OPERATOR, Ask),
    // People.
    (&["allow send | for role:operator"], "send", OPERATOR, Allow),
    (&["allow send | for role:operator"], "send", &["anna"], Deny),
    (&["allow send | for user:anna"], "send", &["anna"], Allow),
    (&["allow send | for user:token:anna-id"], "send", &["anna"], Allow),
    (&["allow send | for user:anna"], "send", &["bob"], Deny),
    (&["allow send | for user:anna", "allow send | for user:bob"], "send", &["bob"], Allow),
    (&["allow send | for user:anna,user:bob"], "send", &["bob"], Allow),
    (&["allow send | for any"], "send", &["bob"], Allow),
    (&["allow send | for role:user"], "send", &["stranger"], Deny),
    (&["allow send | for role:operator"], "read / a", &["anna"], Allow),
    (&["deny send | for user:bob", "allow send"], "send", &["bob"], Deny),
    (&["deny send | for user:bob", "allow send"], "send", &["anna"], Allow),
    (&["ask bash", "allow bash | for role:operator"], "bash $ ls", OPERATOR, Allow),
    (&["ask bash", "allow bash | for role:operator"], "bash $ ls", &["anna"], Ask),
    (&["allow bash", "ask bash | for role:user"], "bash $ ls", &["anna"], Ask),
    (&["allow *", "allow send | for user:anna"], "send", &["bob"], Deny),
    (&["allow *", "allow send | for user:anna"], "send", &["anna"], Allow),
    (&["allow bash | command deploy | for role:operator"], "bash $ deploy", &["anna"], Deny),
    (&["allow bash | command deploy | for role:operator"], "bash $ ls", OPERATOR, Allow),
    // Everybody whose message led to the call counts.
    (&["allow send | for user:anna"], "send", &["anna", "bob"], Deny),
    (&["allow send | for role:user"], "send", &["anna", "bob"], Allow),
    (&["ask read | for user:bob"], "read / a", &["anna", "bob"], Ask),
    (&["allow send | for role:operator"], "send", &[], Deny),
    (&["allow send"], "send", &[], Allow),
    // Every command of a line.
    (&["ask bash", "allow bash | command git"], "bash $ git log && rm -rf /", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git", "allow bash | command ls"],
     "bash $ git log; ls", OPERATOR, Allow),
    (&["deny bash | command rm"], "bash $ ls | xargs rm", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ echo `rm x`", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ echo \"$(rm x)\"", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ (cd a; rm x)", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ if true; then rm x; fi", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ for f in a b; do rm $f; done", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ /bin/rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ r''m x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ \\rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ A=1 rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ env A=1 rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ sudo -u bob rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ sudo --user bob rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ sh -c 'rm x'", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ bash -lc \"cd a && rm x\"", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ eval rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ find . -exec rm {} +", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ nice -n 5 timeout 3 rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ diff <(rm x) y", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ $CMD x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ $'\\x72m' x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ r{m,} x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ echo 'rm x", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ cat <<E\nrm\nE", OPERATOR, Deny),
    (&["deny bash | command rm"], "bash $ ls rm", OPERATOR, Allow),
    (&["deny bash | command rm"], "bash $ echo 'rm x'", OPERATOR, Allow),
    (&["deny bash | command rm"], "bash $ ls # rm", OPERATOR, Allow),
    (&["deny bash | command git push"], "bash $ git -C a push", OPERATOR, Deny),
    (&["deny bash | command git push"], "bash $ git log", OPERATOR, Allow),
    // What is not understood is never allowed.
    (&["ask bash", "allow bash | command git"], "bash $ $GIT log", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git"], "bash $ PAGER=rm git log", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git"], "bash $ ./git log", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git"], "bash $ git log > ~/.bashrc", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git"], "bash $ git log 2>&1 >/dev/null", OPERATOR, Allow),
    (&["ask bash", "allow bash | command git"], "bash $ git log $(rm x)", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git"], "bash $ sudo git log", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git"], "bash $ git() { rm x; }; git", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git log $"], "bash $ git log", OPERATOR, Allow),
    (&["ask bash", "allow bash | command git log $"], "bash $ git log -p", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git log $"], "bash $ git log $X", OPERATOR, Ask),
    (&["ask bash", "allow bash | command npm run test:*"],
     "bash $ npm run test:unit", OPERATOR, Allow),
    (&["ask bash", "allow bash | command npm run test:*"], "bash $ npm run deploy", OPERATOR, Ask),
    (&["ask bash", "allow bash | command git commit -m 'a b'"],
     "bash $ git commit -m \"a b\"", OPERATOR, Allow),
    // Text that runs is covered by exactly its words.
    (&["ask bash", "allow bash | command sh", "allow bash | command ls"],
     "bash $ sh -c ls", OPERATOR, Ask),
    (&["ask bash", "allow bash | command sh"], "bash $ sh -c ls", OPERATOR, Ask),
    (&["ask bash", "allow bash | command sh -c *"], "bash $ sh -c ls", OPERATOR, Ask),
    (&["ask bash", "allow bash | command sh -c ls $"], "bash $ sh -c ls", OPERATOR, Allow),
    (&["ask bash", "allow bash | command sh -c 'case a in esac' $"],
     "bash $ sh -c 'case a in esac'", OPERATOR, Allow),
    (&["ask bash", "allow bash | command sh -c 'rm x' $", "deny bash | command rm"],
     "bash $ sh -c 'rm x'", OPERATOR, Deny),
    (&["ask bash", "allow bash | command ssh h ls"], "bash $ ssh h ls", OPERATOR, Ask),
    (&["ask bash", "allow bash | command ssh h ls $"], "bash $ ssh h ls", OPERATOR, Allow),
    (&["ask bash", "allow bash | command watch"], "bash $ watch -n 1 ls", OPERATOR, Ask),
    (&["ask bash", "allow bash | command eval ls $"], "bash $ eval ls", OPERATOR, Ask),
    (&["ask bash", "allow bash | command timeout", "allow bash | command cargo test"],
     "bash $ timeout 60 cargo test", OPERATOR, Allow),
    (&["ask bash", "allow bash | command timeout"], "bash $ timeout 60 cargo test", OPERATOR, Ask),
    // Variables are spelt.
    (&["ask bash", "allow bash | command cargo run"],
     "bash $ RUST_LOG=debug cargo run", OPERATOR, Ask),
    (&["ask bash", "allow bash | command RUST_LOG=* cargo run"],
     "bash $ RUST_LOG=debug cargo run -q", OPERATOR, Allow),
    (&["ask bash", "allow bash | command RUST_LOG=* cargo run"],
     "bash $ RUST_LOG=debug A=b cargo run", OPERATOR, Ask),
    (&["ask bash", "allow bash | command RUST_LOG=* cargo run"],
     "bash $ 'RUST_LOG=debug' cargo run", OPERATOR, Ask),
    (&["ask bash", "allow bash | command RUST_LOG=* cargo run"], "bash $ cargo run", OPERATOR, Ask),
    (&["ask bash", "allow bash | command RUST_LOG=*"],
     "bash $ RUST_LOG=debug cargo run", OPERATOR, Ask),
    // Redirections, which the `$` of a pattern leaves out.
    (&["ask bash", "allow bash | command git log"], "bash $ git log > x", OPERATOR, Allow),
    (&["ask bash", "allow bash | command git log $"], "bash $ git log > x", OPERATOR, Ask),
    (&["ask bash", "allow bash | command python3 $"],
     "bash $ python3 <<'E'\nrm\nE", OPERATOR, Ask),
    // Paths.
    (&["deny read | path *.key"], "read / a.key", OPERATOR, Deny),
    (&["deny read | path *.key"], "read / b/a.key", OPERATOR, Allow),
    (&["deny read | path **/*.key"], "read / b/c/a.key", OPERATOR, Deny),
    (&["deny read | path **/*.key"], "read / a.key", OPERATOR, Deny),
    (&["deny read | path **"], "read / /etc/passwd", OPERATOR, Allow),
    (&["deny read | path /etc/**"], "read / /etc/passwd", OPERATOR, Deny),
    (&["deny grep | path secrets/**"], "grep // .", OPERATOR, Deny),
    (&["deny grep | path secrets/**"], "grep // src", OPERATOR, Allow),
    (&["deny grep | path secrets/**"], "grep // secrets/deep", OPERATOR, Deny),
    (&["ask grep", "allow grep | path src/**"], "grep // src", OPERATOR, Allow),
    (&["ask grep", "allow grep | path src/**"], "grep // .", OPERATOR, Ask),
    (&["ask grep", "allow grep | path src/*.rs"], "grep // src", OPERATOR, Ask),
    (&["deny read | path secrets/**"], "read / ?", OPERATOR, Deny),
    (&["ask read", "allow read | path src/**"], "read / ?", OPERATOR, Ask),
    (&["deny bash | path secrets/**"], "bash $ cat secrets/a", OPERATOR, Allow),
    // Hosts.
    (&["allow web_fetch | host example.org"], "web_fetch @ https://example.org/a", OPERATOR, Allow),
    (&["allow web_fetch | host example.org"],
     "web_fetch @ https://EXAMPLE.org.:443/a", OPERATOR, Allow),
    (&["allow web_fetch | host example.org"],
     "web_fetch @ https://example.org@evil.net/", OPERATOR, Ask),
    (&["allow web_fetch | host example.org"],
     "web_fetch @ https://example.org.evil.net/", OPERATOR, Ask),
    (&["allow web_fetch | host *.example.org"],
     "web_fetch @ https://a.example.org/", OPERATOR, Allow),
    (&["allow web_fetch | host *.example.org"], "web_fetch @ https://example.org/", OPERATOR, Ask),
    (&["allow web_fetch | host *.example.org"],
     "web_fetch @ https://badexample.org/", OPERATOR, Ask),
    (&["deny web_fetch | host evil.net"], "web_fetch @ https:\\\\evil.net", OPERATOR, Deny),
    (&["deny web_fetch | host evil.net"], "web_fetch @ http://[::1]/", OPERATOR, Ask),
];

#[test]
fn gate_policy_table() {
    assert!(CASES.len() >= 80, "{}", CASES.len());
    let mut wrong = Vec::new();
    for (rules, call, who, expected) in CASES {
        let verdict = decide(rules, call, who);
        if verdict.effect != *expected {
            wrong.push(format!("{rules:?} {call} {who:?}: expected {expected:?}: {verdict:#?}"));
        }
        // The order of the rules makes no difference, not even to the words.
        let reversed: Vec<&str> = rules.iter().rev().copied().collect();
        let other = decide(&reversed, call, who);
        assert_eq!((other.effect, &other.why), (verdict.effect, &verdict.why), "{rules:?} {call}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gate_policy_that_is_broken_denies_everything() {
    let broken = Some("config.yaml:3: `policy`: unknown key".to_owned());
    let rules = vec![rule("allow *")];
    let policy = Policy { rules, broken, ..Policy::default() };
    let pieces = [Piece::Whole];
    let (class, level) = (Class::Read, SandboxLevel::Confined);
    let asked = PolicyQuery { tool: "read", class, level, pieces: &pieces, who: &[] };
    let verdict = policy.decide(&asked, &[rule("allow read")]);
    assert_eq!(verdict.effect, Deny);
    assert!(verdict.why.contains("config.yaml:3"), "{}", verdict.why);
}

#[test]
fn gate_policy_grants_answer_questions_and_never_refusals() {
    let cases = [
        (&["ask bash"][..], "allow bash | command ls", Allow),
        (&["ask bash"], "allow bash | command rm", Ask),
        (&["deny bash"], "allow bash | command ls", Deny),
        (&["allow bash | for user:bob"], "allow bash", Deny),
    ];
    for (rules, grant, expected) in cases {
        let rules = rules.iter().map(|text| rule(text)).collect();
        let policy = Policy { rules, ..Policy::default() };
        let (tool, pieces) = pieces("bash $ ls");
        let (class, level, who) = (Class::Run, SandboxLevel::Confined, [person("anna")]);
        let asked = PolicyQuery { tool, class, level, pieces: &pieces, who: &who };
        assert_eq!(policy.decide(&asked, &[rule(grant)]).effect, expected, "{grant}");
    }
}

#[test]
fn gate_policy_trace_says_why_and_why_not() {
    let rules = ["allow bash | command git", "ask bash", "deny write", "allow bash | for user:bob"];
    let verdict = decide(&rules, "bash $ git log", OPERATOR);
    assert_eq!(verdict.effect, Allow);
    assert_eq!(verdict.why, "allowed by allow bash | command git: allow bash command git");
    let told: Vec<(bool, &str)> =
        verdict.parts[0].rules.iter().map(|look| (look.matched, look.why.as_str())).collect();
    let expected = [
        (true, "matches"),
        (true, "matches"),
        (false, "it is about other tools"),
        (false, "it is not for operator"),
    ];
    assert_eq!(told, expected);
}

/// Lines that would take long or deep are answered all the same.
#[test]
fn gate_policy_hostile_lines() {
    let lines = [
        "(".repeat(20_000),
        "$(".repeat(20_000),
        "env ".repeat(20_000) + "rm",
        "a;".repeat(10_000) + "rm x",
        "`".repeat(9_999),
        "{".repeat(20_000),
        "é".repeat(10_000) + " $(rm x)",
    ];
    for line in lines {
        let verdict = decide(&["deny bash | command rm"], &format!("bash $ {line}"), OPERATOR);
        assert_eq!(verdict.effect, Deny, "{:.40}", line);
    }
}

/// A second evaluator, as plain as can be: it knows the words of the specification and nothing of
/// the code above. Its calls have one plain command or one plain path.
mod naive {
    use super::*;

    pub struct Call<'a> {
        pub tool: &'a str,
        pub words: &'a [&'a str],
        pub who: &'a str,
    }

    fn about(rule: &Rule, call: &Call<'_>) -> bool {
        rule.tool == call.tool
            || rule.tool == "*"
            || rule.tool.strip_suffix('*').is_some_and(|start| call.tool.starts_with(start))
    }

    fn condition(rule: &Rule, call: &Call<'_>) -> bool {
        let Some(pattern) = &rule.command else { return true };
        let pattern = pattern.to_string();
        let pattern: Vec<&str> = pattern.split(' ').collect();
        if rule.effect == Allow {
            return call.words.starts_with(&pattern);
        }
        let mut rest = call.words.iter();
        call.words.first() == pattern.first()
            && pattern.iter().all(|word| rest.any(|other| other == word))
    }

    fn people(rule: &Rule, call: &Call<'_>) -> Option<u8> {
        if rule.grants.is_empty() {
            return Some(0);
        }
        let mut best = None;
        for grant in &rule.grants {
            let rank = match grant {
                GrantTo::Any => Some(0),
                GrantTo::Role(role) => (person(call.who).role == Some(*role)).then_some(1),
                GrantTo::User(user) => (user == call.who).then_some(2),
            };
            best = best.max(rank);
        }
        best
    }

    /// Exact tool, conditions, letters and words said, letters left open, people.
    fn rank(rule: &Rule, people: u8) -> (bool, usize, usize, i64, u8) {
        let command = rule.command.as_ref().map(CommandPattern::to_string);
        let words = command.as_ref().map_or(0, |text| text.split(' ').count());
        let letters = command.as_ref().map_or(0, |text| text.replace(' ', "").len());
        let stars = rule.tool.matches('*').count();
        let said = rule.tool.len() - stars + letters + words;
        let open = stars + usize::from(command.is_some());
        (stars == 0, usize::from(command.is_some()), said, -(open as i64), people)
    }

    pub fn decide(rules: &[Rule], call: &Call<'_>) -> Effect {
        let about: Vec<&Rule> = rules.iter().filter(|rule| about(rule, call)).collect();
        let matching: Vec<(&Rule, u8)> = about
            .iter()
            .filter(|rule| condition(rule, call))
            .filter_map(|rule| Some((*rule, people(rule, call)?)))
            .collect();
        if matching.iter().any(|(rule, _)| rule.effect == Deny) {
            return Deny;
        }
        let granted = |rule: &&Rule| {
            rule.effect == Allow && !rule.grants.is_empty() && !rule.grants.contains(&GrantTo::Any)
        };
        let granted: Vec<&Rule> = about.iter().copied().filter(granted).collect();
        let left_out =
            !granted.is_empty() && granted.iter().all(|rule| people(rule, call).is_none());
        let top = matching.iter().map(|(rule, people)| rank(rule, *people)).max();
        if let Some(top) = top {
            let of_top = matching.iter().filter(|(rule, people)| rank(rule, *people) == top);
            if of_top.clone().any(|(rule, _)| rule.effect == Ask) {
                return Ask;
            }
            let zero = (top.0, top.1, top.2, top.3, 0);
            let narrower = granted.iter().any(|r| condition(r, call) && rank(r, 0) > zero);
            return if left_out && narrower { Deny } else { Allow };
        }
        if left_out { Deny } else { ClassPolicy::default().decide(class_of(call.tool), CONFINED) }
    }

    const CONFINED: SandboxLevel = SandboxLevel::Confined;
}

const WORDS: &[&str] = &["git", "push", "log", "rm"];

fn any_rule() -> impl Strategy<Value = Rule> {
    let effect = prop::sample::select(vec!["allow", "ask", "deny", "allow", "ask"]);
    let tool = prop::sample::select(vec!["*", "ba*", "bash", "send", "se*"]);
    let command = prop::option::of(prop::collection::vec(prop::sample::select(WORDS), 1..3));
    let to = ["any", "role:operator", "role:user", "user:anna", "user:bob"];
    let grants = prop::collection::vec(prop::sample::select(to.to_vec()), 0..3);
    (effect, tool, command, grants).prop_map(|(effect, tool, command, grants)| {
        let mut text = format!("{effect} {tool}");
        if let Some(words) = command {
            text.push_str(&format!(" | command {}", words.join(" ")));
        }
        if !grants.is_empty() {
            text.push_str(&format!(" | for {}", grants.join(",")));
        }
        rule(&text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn gate_policy_agrees_with_the_naive_evaluator(
        rules in prop::collection::vec(any_rule(), 0..7),
        words in prop::collection::vec(prop::sample::select(WORDS), 1..4),
        who in prop::sample::select(vec!["operator", "anna", "bob", "stranger"]),
        seed in any::<u64>(),
    ) {
        let expected = naive::decide(&rules, &naive::Call { tool: "bash", words: &words, who });
        let pieces: Vec<Piece> =
            plain::line(&words.join(" ")).0.into_iter().map(Piece::Command).collect();
        let people = [person(who)];
        let (class, level) = (Class::Run, SandboxLevel::Confined);
        let asked = PolicyQuery { tool: "bash", class, level, pieces: &pieces, who: &people };
        let mut policy = Policy { rules, ..Policy::default() };
        let first = policy.decide(&asked, &[]);
        prop_assert_eq!(first.effect, expected, "{:#?}", first);
        // In any other order too.
        let count = policy.rules.len().max(1);
        policy.rules.rotate_left(usize::try_from(seed % count as u64).unwrap_or(0));
        policy.rules.reverse();
        prop_assert_eq!(policy.decide(&asked, &[]).effect, expected);
    }
}
