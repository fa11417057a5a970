//! One rule of a policy: an effect, the tool it is about, conditions on the call, and for whom.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use skep_shell::line::{self, Cover};

use super::pattern::{CommandPattern, HostPattern, Narrowness, PathPattern, never};
use super::{Class, Effect};
use crate::policy::allow;
use crate::vocab::ids::Principal;
use crate::vocab::role::Role;

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub effect: Effect,
    /// An exact name, or a pattern with `*`.
    pub tool: String,
    pub path: Option<PathPattern>,
    pub command: Option<CommandPattern>,
    pub host: Option<HostPattern>,
    /// For whom; empty is for anyone.
    pub grants: Vec<GrantTo>,
    /// Of a rule that asks: who may answer; empty is operators.
    pub approvers: Vec<GrantTo>,
    /// Where it was written, for people.
    pub place: String,
}

/// Somebody a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum GrantTo {
    Any,
    Role(Role),
    /// A principal, or the name its token was given.
    User(String),
}

/// Somebody whose message led to the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub principal: Principal,
    /// `None` if the credential is gone: then no role covers it.
    pub role: Option<Role>,
    /// What its token was called.
    pub name: Option<String>,
}

/// One part of a call, in the form in which rules compare it. A call is decided part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The call names nothing that rules know.
    Whole,
    Command(line::Part),
    Path(PathFact),
    /// A file that a plain line reads or writes by redirection: as if `read` or `write` named it.
    Redirect {
        write: bool,
        path: PathFact,
    },
    /// `None` if the host can be read in two ways.
    Host(Option<String>),
}

/// A path of a call, resolved: relative to the workspace where it lies in it, else absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathFact {
    File(String),
    /// The call is about everything beneath.
    Tree(String),
    Unknown,
}

/// A rule's place in the order: exact tool before pattern, more conditions before fewer, narrower
/// before wider, for fewer people before for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    exact_tool: bool,
    conditions: usize,
    narrow: Narrowness,
    people: u8,
}

impl Specificity {
    /// The same without regard to people.
    pub fn of_call(self) -> Self {
        Self { people: 0, ..self }
    }
}

impl GrantTo {
    pub fn parse(text: &str) -> Option<Self> {
        if text == "any" {
            return Some(Self::Any);
        }
        match text.split_once(':')? {
            ("role", role) => Role::parse(role).map(Self::Role),
            ("user", user) if !user.is_empty() => Some(Self::User(user.to_owned())),
            _ => None,
        }
    }

    pub(super) fn covers(&self, who: &Who) -> bool {
        match self {
            Self::Any => true,
            Self::Role(role) => who.role == Some(*role),
            Self::User(user) => {
                who.principal.as_str() == user || who.name.as_deref() == Some(user.as_str())
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Any => 0,
            Self::Role(_) => 1,
            Self::User(_) => 2,
        }
    }
}

impl fmt::Display for GrantTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Role(role) => write!(f, "role:{}", role.as_str()),
            Self::User(user) => write!(f, "user:{user}"),
        }
    }
}

impl From<GrantTo> for String {
    fn from(to: GrantTo) -> Self {
        to.to_string()
    }
}

impl TryFrom<String> for GrantTo {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text} names nobody"))
    }
}

impl Rule {
    pub fn is_about(&self, tool: &str) -> bool {
        allow::allows(std::slice::from_ref(&self.tool), tool)
    }

    /// As it counts for an agent below the one it was written for: what it says of paths holds in
    /// the workspace of each of them. `folders`: where the agent works, and the one above.
    pub(super) fn for_below(&self, folders: Option<(&str, &str)>) -> Vec<Self> {
        let (Some(path), Some((own, above))) = (&self.path, folders) else {
            return vec![self.clone()];
        };
        let with = |path: PathPattern| Self { path: Some(path.within(own)), ..self.clone() };
        let there = path.beneath_folder(above).map(with);
        let mut rules = vec![with(path.clone())];
        rules.extend(there.filter(|_| own != above));
        rules
    }

    /// It matches every call of its tools, whoever asks.
    pub fn is_unconditional(&self) -> bool {
        let conditions = (&self.path, &self.command, &self.host);
        matches!(conditions, (None, None, None))
            && (self.grants.is_empty() || self.grants.contains(&GrantTo::Any))
    }

    pub fn is_granted(&self) -> bool {
        !self.grants.is_empty() && !self.grants.contains(&GrantTo::Any)
    }

    /// How narrowly it names this person; `None` if it does not.
    pub fn covers(&self, who: &Who) -> Option<u8> {
        match self.grants.is_empty() {
            true => Some(0),
            false => self.grants.iter().filter(|to| to.covers(who)).map(GrantTo::rank).max(),
        }
    }

    pub fn specificity(&self, people: u8) -> Specificity {
        let path = self.path.as_ref().map(PathPattern::narrowness);
        let command = self.command.as_ref().map(CommandPattern::narrowness);
        let host = self.host.as_ref().map(HostPattern::narrowness);
        let conditions = [path, command, host];
        let given = conditions.iter().flatten();
        Specificity {
            exact_tool: !self.tool.contains('*'),
            conditions: given.clone().count(),
            narrow: given.fold(Narrowness::of_glob(&self.tool), |sum, each| sum.and(*each)),
            people,
        }
    }

    /// Whether its conditions hold for a part of a call; else why not. What is not understood is
    /// never allowed, and may be what a rule that asks or denies means.
    pub fn fits(&self, piece: &Piece) -> Result<(), String> {
        let strict = self.effect == Effect::Allow;
        if let Some(pattern) = &self.path {
            fits_path(pattern, piece, strict)?;
        }
        if let Some(pattern) = &self.command {
            fits_command(pattern, piece, strict)?;
        }
        if let Some(pattern) = &self.host {
            fits_host(pattern, piece, strict)?;
        }
        Ok(())
    }
}

const NOT_UNDERSTOOD: &str = "and what is not understood is never allowed";

fn fits_path(pattern: &PathPattern, piece: &Piece, strict: bool) -> Result<(), String> {
    let (Piece::Path(path) | Piece::Redirect { path, .. }) = piece else {
        return Err("it names no path".to_owned());
    };
    let fits = match path {
        PathFact::Unknown if strict => {
            return Err(format!("its path leads nowhere that is known, {NOT_UNDERSTOOD}"));
        }
        PathFact::Unknown => true,
        PathFact::File(path) => pattern.matches(path),
        PathFact::Tree(folder) if strict => pattern.covers_tree(folder),
        PathFact::Tree(folder) => pattern.touches_tree(folder),
    };
    fits.then_some(()).ok_or_else(|| "it is another path".to_owned())
}

fn fits_command(pattern: &CommandPattern, piece: &Piece, strict: bool) -> Result<(), String> {
    match piece {
        Piece::Command(line::Part::Command(simple)) if strict => pattern.covers(simple),
        Piece::Command(line::Part::Command(simple)) => {
            pattern.may_mean(simple).then_some(()).ok_or_else(|| "it is another command".to_owned())
        }
        Piece::Command(line::Part::Unknown { cover: Cover::By(outer), .. }) if strict => {
            pattern.covers(outer)
        }
        Piece::Command(line::Part::Unknown { why, .. }) if strict => Err(never(why)),
        Piece::Command(line::Part::Unknown { .. }) => Ok(()),
        Piece::Whole | Piece::Path(_) | Piece::Redirect { .. } | Piece::Host(_) => {
            Err("it runs no command".to_owned())
        }
    }
}

fn fits_host(pattern: &HostPattern, piece: &Piece, strict: bool) -> Result<(), String> {
    let Piece::Host(host) = piece else { return Err("it names no host".to_owned()) };
    let fits = match host {
        Some(host) => pattern.matches(host),
        None if strict => {
            return Err(format!("its host can be read in two ways, {NOT_UNDERSTOOD}"));
        }
        None => true,
    };
    fits.then_some(()).ok_or_else(|| "it is another host".to_owned())
}

impl Piece {
    pub fn is_redirect(&self) -> bool {
        matches!(self, Self::Redirect { .. })
    }

    /// The tool whose rules decide on it, where that is not the call's own.
    pub fn judged_as(&self) -> Option<(&'static str, Class)> {
        match self {
            Self::Redirect { write: true, .. } => Some(("write", Class::Write)),
            Self::Redirect { write: false, .. } => Some(("read", Class::Read)),
            _ => None,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        match self {
            Self::Whole => "the call".to_owned(),
            Self::Command(line::Part::Command(simple)) => format!("command {}", simple.text()),
            Self::Command(line::Part::Unknown { why, .. }) => {
                format!("command not understood: {why}")
            }
            Self::Redirect { write: true, path } => {
                format!("writes {}", Self::Path(path.clone()).text())
            }
            Self::Redirect { write: false, path } => {
                format!("reads {}", Self::Path(path.clone()).text())
            }
            Self::Path(PathFact::File(path)) => format!("path {path}"),
            Self::Path(PathFact::Tree(path)) => format!("everything in {path}"),
            Self::Path(PathFact::Unknown) => "path not understood".to_owned(),
            Self::Host(Some(host)) => format!("host {host}"),
            Self::Host(None) => "host not understood".to_owned(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.effect.as_str(), self.tool)?;
        if let Some(path) = &self.path {
            write!(f, " path {path}")?;
        }
        if let Some(command) = &self.command {
            write!(f, " command {command}")?;
        }
        if let Some(host) = &self.host {
            write!(f, " host {host}")?;
        }
        if !self.grants.is_empty() {
            let to: Vec<String> = self.grants.iter().map(GrantTo::to_string).collect();
            write!(f, " for {}", to.join(", "))?;
        }
        if !self.approvers.is_empty() {
            let by: Vec<String> = self.approvers.iter().map(GrantTo::to_string).collect();
            write!(f, ", approved by {}", by.join(" or "))?;
        }
        Ok(())
    }
}

/// A rule as doors show it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RuleInfo {
    pub effect: Effect,
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `any`, `role:…`, `user:…`.
    pub grants: Vec<String>,
    /// Of a rule that asks: who may answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// File and line.
    pub place: String,
}

impl From<&Rule> for RuleInfo {
    fn from(rule: &Rule) -> Self {
        let any = || vec![GrantTo::Any.to_string()];
        let grants: Vec<String> = rule.grants.iter().map(GrantTo::to_string).collect();
        let operators = || vec![GrantTo::Role(Role::Operator).to_string()];
        let approvers: Vec<String> = rule.approvers.iter().map(GrantTo::to_string).collect();
        let asks = rule.effect == Effect::Ask;
        Self {
            effect: rule.effect,
            tool: rule.tool.clone(),
            path: rule.path.as_ref().map(PathPattern::to_string),
            command: rule.command.as_ref().map(CommandPattern::to_string),
            host: rule.host.as_ref().map(HostPattern::to_string),
            grants: if grants.is_empty() { any() } else { grants },
            approvers: if asks && approvers.is_empty() { operators() } else { approvers },
            place: rule.place.clone(),
        }
    }
}
