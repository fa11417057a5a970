//! The decision on a call, and why (spec 06 §4).
//!
//! A call is decided for each of its parts and for everybody whose message led to it; the
//! strictest of these decisions is the call's. For one part and one person:
//!
//! 1. a matching `deny` decides, however general;
//! 2. else the most specific matching `ask` or `allow`; where an `ask` is as specific as an
//!    `allow`, it asks. An `allow` that is less specific than one for other people does not count;
//! 3. else, where `allow` rules for the tool name people and this person is none of them: denied;
//! 4. else the tool's class decides.
//!
//! The rules of each agent above are decided by in the same way (1 to 3); the strictest decision
//! counts. Where none of theirs matches, they say nothing.
//!
//! A [`Rule`] that stands for a time or a session is a grant: it turns a question into a yes, and
//! never a refusal.

use serde::Serialize;
use utoipa::ToSchema;

use super::approvers::Approvers;
use super::host_standing::{HostListing, HostStanding};
use super::rule::{Piece, Rule, Specificity, Who};
use super::{Class, Effect, Policy};
use crate::vocab::configuration::SandboxLevel;

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct PolicyQuery<'a> {
    pub tool: &'a str,
    pub class: Class,
    pub level: SandboxLevel,
    /// At least one.
    pub pieces: &'a [Piece],
    /// Empty: decided as for a person whom no rule names.
    pub who: &'a [Who],
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Verdict {
    pub effect: Effect,
    /// In a sentence.
    pub why: String,
    /// The rule that decided; absent where the class did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub parts: Vec<PartVerdict>,
    /// Where it asks: who may answer, one of each list.
    #[serde(skip_serializing_if = "Approvers::is_empty")]
    pub approvers: Approvers,
    /// The host the call names, and how it stands with the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStanding>,
    /// The command that runs instead of the given one: the same words, quoted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
    /// A rule with a command allowed a part, so only what was judged may run.
    #[serde(skip)]
    pub by_command: bool,
}

impl Verdict {
    /// The stricter of two decisions on the same call; this one where they are alike.
    #[must_use]
    pub fn or_stricter(self, other: Self) -> Self {
        let mut approvers = self.approvers.clone();
        approvers.join(&other.approvers);
        let stricter =
            if strictness(other.effect) > strictness(self.effect) { other } else { self };
        Self { approvers, ..stricter }
    }

    /// Denied whatever the rules say of its parts.
    #[must_use]
    pub fn denied(mut self, why: String, by: &str) -> Self {
        for part in &mut self.parts {
            part.effect = Effect::Deny;
            part.why.clone_from(&why);
            part.rule = Some(by.to_owned());
        }
        let rule = Some(by.to_owned());
        Self { effect: Effect::Deny, why, rule, approvers: Approvers::default(), ..self }
    }

    /// With what the agent's lists say of the host that the call names. A host that is denied
    /// there is denied by nothing else: no rule, no grant and no person lifts it.
    #[must_use]
    pub fn at_host(mut self, host: HostStanding) -> Self {
        match (host.standing, self.effect) {
            (HostListing::Denied, _) => {
                let by = if host.denied_by.is_some() { NETWORK_DENY } else { NETWORK };
                self = self.denied(host.why.clone(), by);
            }
            (HostListing::Unlisted, Effect::Ask) => {
                self.why = format!("{}; {}", self.why, host.why);
            }
            (HostListing::Listed | HostListing::Unlisted, _) => {}
        }
        self.host = Some(host);
        self
    }

    /// It names a host that cannot be read, and the agent's lists deny some.
    #[must_use]
    pub fn at_unread_host(self) -> Self {
        let why = "its host cannot be read, and the agent's network.deny may mean it".to_owned();
        self.denied(why, NETWORK_DENY)
    }
}

/// The decision on one part of the call, for one person.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct PartVerdict {
    /// Which part of the call.
    pub part: String,
    /// Whose message led to it.
    pub who: String,
    pub effect: Effect,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Of the rules that ask.
    #[serde(skip)]
    pub approvers: Approvers,
    /// The rules, and why each matched or did not.
    pub rules: Vec<Looked>,
    /// How many compared rules are left out of `rules`.
    #[serde(skip_serializing_if = "is_zero")]
    pub untold: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What decided where a host is denied.
const NETWORK_DENY: &str = "network.deny";
/// What decided where an address is out of reach.
const NETWORK: &str = "network";
/// The most rules that a decision lists over all its parts; matching ones come on top.
const TOLD: usize = 300;
/// The most matching rules that one part lists.
const TOLD_MATCHING: usize = 5;

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Looked {
    pub rule: String,
    /// File and line.
    pub place: String,
    pub matched: bool,
    pub why: String,
}

impl Policy {
    /// Decides by the rules and the grants.
    pub fn decide(&self, asked: &PolicyQuery<'_>, grants: &[Rule]) -> Verdict {
        if let Some(broken) = &self.broken {
            let why = format!("the policy cannot be read, so everything is denied: {broken}");
            let rule = Some(broken.clone());
            let (effect, parts, approvers) = (Effect::Deny, Vec::new(), Approvers::default());
            return Verdict {
                effect,
                why,
                rule,
                parts,
                approvers,
                host: None,
                runs: None,
                by_command: false,
            };
        }
        let nobody = [Who {
            principal: crate::vocab::ids::Principal::new("nobody"),
            role: None,
            name: None,
        }];
        let who = if asked.who.is_empty() { &nobody } else { asked.who };
        let (mut parts, mut room, mut by_command) = (Vec::new(), TOLD, false);
        let mut decide = |redirects: bool| {
            let pieces = asked.pieces.iter().filter(|piece| piece.is_redirect() == redirects);
            for (person, piece) in who.iter().flat_map(|who| pieces.clone().map(move |p| (who, p)))
            {
                let (part, by) = self.decide_part(asked, grants, piece, person, &mut room);
                by_command |= by;
                parts.push(part);
            }
            by_command
        };
        // Where a redirection leads counts where the line is covered by a rule about commands.
        if decide(false) {
            decide(true);
        }
        let strictest = parts.iter().max_by_key(|part| strictness(part.effect));
        let (effect, why, rule) = match strictest {
            Some(part) if parts.len() == 1 => (part.effect, part.why.clone(), part.rule.clone()),
            Some(part) => (part.effect, format!("{}: {}", part.part, part.why), part.rule.clone()),
            None => {
                let why = "the call has no part that could be decided".to_owned();
                (Effect::Deny, why, None)
            }
        };
        let mut approvers = Approvers::default();
        let asking = parts.iter().filter(|part| part.effect == Effect::Ask);
        asking.for_each(|part| approvers.join(&part.approvers));
        Verdict { effect, why, rule, parts, approvers, host: None, runs: None, by_command }
    }

    fn decide_part(
        &self,
        asked: &PolicyQuery<'_>,
        grants: &[Rule],
        piece: &Piece,
        who: &Who,
        room: &mut usize,
    ) -> (PartVerdict, bool) {
        let (tool, class) = piece.judged_as().unwrap_or((asked.tool, asked.class));
        let mut told = Told { rules: Vec::new(), untold: 0, matched: 0, room };
        let mut best = Best::default();
        for rule in &self.rules {
            let fits = best.sort(rule, tool, piece, who);
            told.add(rule, fits);
        }
        let (mut effect, mut why, mut by) = match best.decision() {
            Some((effect, why, rule)) => (effect, why, Some(rule)),
            None => {
                let (effect, class) = (self.classes.decide(class, asked.level), class.as_str());
                let come_to = match effect {
                    Effect::Allow => "are allowed",
                    Effect::Ask => "need approval",
                    Effect::Deny => "are denied",
                };
                (effect, format!("no rule matched; `{class}` tools {come_to}"), None)
            }
        };
        let mut approvers = Approvers::default();
        if effect == Effect::Ask {
            approvers.require(by.map_or(&[][..], |rule| &rule.approvers));
        }
        let mut by_command =
            effect == Effect::Allow && by.is_some_and(|rule| rule.command.is_some());
        for rules in &self.above {
            let mut best = Best::default();
            for rule in rules.iter() {
                let fits = best.sort(rule, tool, piece, who);
                told.add(rule, fits);
            }
            let Some((theirs, text, rule)) = best.decision() else { continue };
            if theirs == Effect::Ask {
                approvers.require(&rule.approvers);
            }
            by_command |= theirs == Effect::Allow && rule.command.is_some();
            if strictness(theirs) > strictness(effect) {
                (effect, why, by) = (theirs, text, Some(rule));
            }
        }
        for grant in grants {
            let fits = Best::default().sort(grant, tool, piece, who);
            if effect == Effect::Ask && fits.is_ok() {
                effect = Effect::Allow;
                why = format!("granted by {}: {}", grant.place, grant);
                by = Some(grant);
                by_command |= grant.command.is_some();
            }
            told.add(grant, fits);
        }
        let Told { rules, untold, .. } = told;
        let (part, who) = (piece.text(), who.principal.to_string());
        let by_command = effect == Effect::Allow && by_command;
        let rule = by.map(|rule| rule.place.clone());
        (PartVerdict { part, who, effect, why, rule, approvers, rules, untold }, by_command)
    }
}

/// Selects the rules that the trace lists: enough to understand the decision.
struct Told<'r> {
    rules: Vec<Looked>,
    untold: usize,
    matched: usize,
    room: &'r mut usize,
}

impl Told<'_> {
    fn add(&mut self, rule: &Rule, fits: Result<(), String>) {
        let matched = fits.is_ok();
        self.matched += usize::from(matched);
        let always = matched && self.matched <= TOLD_MATCHING;
        if !always && *self.room == 0 {
            self.untold += 1;
            return;
        }
        *self.room = self.room.saturating_sub(1);
        self.rules.push(Looked {
            rule: rule.to_string(),
            place: rule.place.clone(),
            matched,
            why: fits.err().unwrap_or_else(|| "matches".to_owned()),
        });
    }
}

fn strictness(effect: Effect) -> u8 {
    match effect {
        Effect::Allow => 0,
        Effect::Ask => 1,
        Effect::Deny => 2,
    }
}

/// What the rules looked at so far come to. Their order makes no difference.
#[derive(Default)]
struct Best<'r> {
    deny: Option<&'r Rule>,
    ask: Option<(Specificity, &'r Rule)>,
    allow: Option<(Specificity, &'r Rule)>,
    /// The most specific rule that would allow it to other people.
    others: Option<(Specificity, &'r Rule)>,
    /// A rule that names people allows the tool to this person.
    named: bool,
    /// A rule that allows the tool to named people, none of whom this is.
    not_named: Option<&'r Rule>,
}

impl<'r> Best<'r> {
    fn sort(&mut self, rule: &'r Rule, tool: &str, piece: &Piece, who: &Who) -> Result<(), String> {
        if !rule.is_about(tool) {
            return Err("it is about other tools".to_owned());
        }
        let granted = rule.effect == Effect::Allow && rule.is_granted();
        let fits = rule.fits(piece);
        let Some(people) = rule.covers(who) else {
            if granted {
                keep_first(&mut self.not_named, rule);
                if fits.is_ok() {
                    keep_greater(&mut self.others, (rule.specificity(0), rule));
                }
            }
            return Err(format!("it is not for {}", who.principal));
        };
        self.named |= granted;
        fits?;
        let specificity = rule.specificity(people);
        match rule.effect {
            Effect::Deny => keep_first(&mut self.deny, rule),
            Effect::Ask => keep_greater(&mut self.ask, (specificity, rule)),
            Effect::Allow => keep_greater(&mut self.allow, (specificity, rule)),
        }
        Ok(())
    }

    fn decision(&self) -> Option<(Effect, String, &'r Rule)> {
        let by = |effect: Effect, rule: &'r Rule| {
            let word = match effect {
                Effect::Allow => "allowed",
                Effect::Ask => "asked for",
                Effect::Deny => "denied",
            };
            Some((effect, format!("{word} by {}: {rule}", rule.place), rule))
        };
        if let Some(rule) = self.deny {
            return by(Effect::Deny, rule);
        }
        match (self.ask, self.allow) {
            (Some((ask, rule)), Some((allow, _))) if ask >= allow => by(Effect::Ask, rule),
            (_, Some((allow, rule))) => match self.others {
                // The author of the narrower rule meant exactly the people it names.
                Some((others, named)) if others > allow.of_call() && !self.named => Some((
                    Effect::Deny,
                    format!("denied by {}, which names others: {named}", named.place),
                    named,
                )),
                _ => by(Effect::Allow, rule),
            },
            (Some((_, rule)), None) => by(Effect::Ask, rule),
            (None, None) => match self.not_named {
                Some(rule) if !self.named => Some((
                    Effect::Deny,
                    format!("denied: {} allows the tool to others alone: {rule}", rule.place),
                    rule,
                )),
                _ => None,
            },
        }
    }
}

fn keep_first<'r>(held: &mut Option<&'r Rule>, rule: &'r Rule) {
    if held.is_none_or(|first| rule.place < first.place) {
        *held = Some(rule);
    }
}

fn keep_greater<'r>(
    held: &mut Option<(Specificity, &'r Rule)>,
    (specificity, rule): (Specificity, &'r Rule),
) {
    // Of two alike the one written first is named, whatever order they are looked at in.
    let better = held.is_none_or(|(best, named)| {
        specificity > best || (specificity == best && rule.place < named.place)
    });
    if better {
        *held = Some((specificity, rule));
    }
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
