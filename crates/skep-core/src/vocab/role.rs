//! Who may do what: one table of role × action, asked by every route and every frame.
//!
//! A credential has a role. A role reaches everything, its own part, or nothing of an action; what
//! its own part is says its [`Sight`].

use crate::vocab::ids::{AgentId, Principal, SessionKey};
use crate::vocab::words::words;

words! {
    Role {
        /// Runs the hive: everything.
        Operator = "operator",
        /// Talks to agents and sees its own conversations.
        User = "user",
        /// Reads everything but credentials and logs; changes nothing, and decides only where a
        /// rule names it.
        Viewer = "viewer",
        /// A program that brings messages in: conversations under its own prefix.
        Channel = "channel",
        /// A child of an agent's engine: reads what its own agent has said and done.
        Agent = "agent",
    }
    /// What routes and frames do. A new one is sorted under one of these, or gets its own line
    /// in [`decide`].
    Action {
        /// Who one is, and signing out.
        SeeSelf = "see_self",
        /// Which agents there are.
        ListAgents = "list_agents",
        /// Send messages and commands, stop, fork and compact: whatever changes a conversation.
        Talk = "talk",
        /// Messages, sessions, search, exports, files.
        ReadHistory = "read_history",
        /// Files of workspaces. What all conversations of an agent wrote there is nobody's own.
        ReadFiles = "read_files",
        /// Inbox, state and live events.
        Watch = "watch",
        /// Open a WebSocket; its frames are asked for one by one.
        Connect = "connect",
        ReadSettings = "read_settings",
        ReadMetrics = "read_metrics",
        ReadLogs = "read_logs",
        /// The audit trail, what was spent, calls of unknown outcome, what operators are asked.
        ReadAudit = "read_audit",
        /// List, make and revoke tokens; names in the vault, and what is in it.
        ManageTokens = "manage_tokens",
        /// Decide what calls wait for: the questions that name one as an approver.
        Decide = "decide",
        /// Grant for a time, ask again, answer agents: never who asks, unless they run the hive.
        Approve = "approve",
        /// Change the hive itself: settings, tries of providers, imports.
        Configure = "configure",
        /// End the hive; through the local socket only, whatever the role.
        Shutdown = "shutdown",
    }
    Reach {
        Nothing = "nothing",
        Own = "own",
        All = "all",
    }
}

/// The table.
pub fn decide(role: Role, action: Action) -> Reach {
    use Action::*;
    use Reach::{All, Nothing, Own};
    let [operator, user, viewer, channel, agent] = match action {
        SeeSelf => [All, All, All, All, All],
        ListAgents => [All, All, All, All, Own],
        Talk => [All, Own, Nothing, Own, Nothing],
        ReadHistory => [All, Own, All, Own, Own],
        ReadFiles => [All, Nothing, All, Nothing, Nothing],
        Watch => [All, Own, All, Own, Nothing],
        Connect => [All, Own, All, Own, Nothing],
        ReadSettings => [All, Nothing, All, Nothing, Nothing],
        ReadMetrics => [All, Nothing, All, Nothing, Nothing],
        ReadLogs => [All, Nothing, Nothing, Nothing, Nothing],
        ReadAudit => [All, Nothing, All, Nothing, Nothing],
        ManageTokens => [All, Nothing, Nothing, Nothing, Nothing],
        Decide => [All, Own, All, Nothing, Nothing],
        Approve => [All, Nothing, Nothing, Nothing, Nothing],
        Configure => [All, Nothing, Nothing, Nothing, Nothing],
        Shutdown => [All, Nothing, Nothing, Nothing, Nothing],
    };
    match role {
        Role::Operator => operator,
        Role::User => user,
        Role::Viewer => viewer,
        Role::Channel => channel,
        Role::Agent => agent,
    }
}

/// The part of the hive somebody sees. Whatever reads conversations is given one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    All,
    /// Conversations whose key begins so, of every agent; items that this principal sent.
    Keys {
        prefix: String,
        principal: Principal,
    },
    /// Everything one agent said and did.
    Agent(AgentId),
}

impl Sight {
    /// A user's conversations: their keys begin with who it is, so that two never share one.
    pub fn of_user(principal: &Principal) -> Self {
        Self::Keys { prefix: format!("{principal}/"), principal: principal.clone() }
    }

    pub fn covers_agent(&self, agent: AgentId) -> bool {
        match self {
            Self::All | Self::Keys { .. } => true,
            Self::Agent(own) => *own == agent,
        }
    }

    pub fn covers(&self, agent: AgentId, key: &SessionKey) -> bool {
        match self {
            Self::All => true,
            Self::Keys { prefix, .. } => key.as_str().starts_with(prefix.as_str()),
            Self::Agent(own) => *own == agent,
        }
    }
}

/// What a credential is made for. Whoever asks for one names the agent; it is made for that one,
/// and never for another of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<A = AgentId> {
    pub role: Role,
    /// Channels have one, nobody else.
    pub prefix: Option<String>,
    /// Children of an engine have one, nobody else.
    pub agent: Option<A>,
}

impl<A> Grant<A> {
    /// What is wrong with it, if anything.
    pub fn mistake(&self) -> Option<String> {
        let Self { role, prefix, agent } = self;
        let word = role.as_str();
        match (role, prefix.as_deref(), agent) {
            (Role::Channel, None, _) => Some(
                "a channel needs the prefix of its conversations, for instance discord:".to_owned(),
            ),
            (Role::Channel, Some(prefix), _) if !is_channel_prefix(prefix) => Some(format!(
                "{prefix:?} cannot be a channel's prefix: it is lower-case words, each followed by \
                 a colon, and neither token: nor ws:"
            )),
            (Role::Agent, _, None) => {
                Some("a token of the role agent needs the name of its agent".to_owned())
            }
            (Role::Channel, _, Some(_)) | (Role::Agent, Some(_), _) => {
                Some(format!("the role {word} takes a prefix or an agent, not both"))
            }
            (Role::Operator | Role::User | Role::Viewer, None, None) => None,
            (Role::Channel, Some(_), None) | (Role::Agent, None, Some(_)) => None,
            (Role::Operator | Role::User | Role::Viewer, _, _) => {
                Some(format!("the role {word} takes neither a prefix nor an agent"))
            }
        }
    }

    /// The same for the agent that was named.
    pub fn resolve<B, E>(self, agent: impl FnOnce(A) -> Result<B, E>) -> Result<Grant<B>, E> {
        let Self { role, prefix, .. } = self;
        Ok(Grant { role, prefix, agent: self.agent.map(agent).transpose()? })
    }
}

impl Grant {
    pub fn operator() -> Self {
        Self { role: Role::Operator, prefix: None, agent: None }
    }

    /// The part of the hive that is its holder's own.
    pub fn own(&self, principal: &Principal) -> Sight {
        match (self.role, &self.prefix, &self.agent) {
            (Role::Operator | Role::Viewer, _, _) => Sight::All,
            (Role::Channel, Some(prefix), _) => {
                Sight::Keys { prefix: prefix.clone(), principal: principal.clone() }
            }
            (Role::Agent, _, Some(agent)) => Sight::Agent(*agent),
            // A grant that lacks its part is none that could have been made: the least there is.
            (Role::User | Role::Channel | Role::Agent, _, _) => Sight::of_user(principal),
        }
    }
}

/// The rule of a channel's prefix: a word, a colon, and perhaps more of both. What the hive gives
/// to others itself (`token:`, `ws:`, `person:`) is not to be had.
pub fn is_channel_prefix(prefix: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let Some(words) = prefix.strip_suffix(':') else { return false };
    prefix.len() <= 64
        && words.split(':').all(word)
        && !["token", "ws", "person"].contains(&words.split(':').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_reach_everything_and_nobody_else_what_runs_the_hive() {
        for action in Action::ALL {
            assert_eq!(decide(Role::Operator, *action), Reach::All, "{action:?}");
        }
        let own = [
            Action::Approve,
            Action::ManageTokens,
            Action::Configure,
            Action::ReadLogs,
            Action::Shutdown,
        ];
        for (role, action) in Role::ALL.iter().skip(1).flat_map(|r| own.map(|a| (*r, a))) {
            assert_eq!(decide(role, action), Reach::Nothing, "{role:?} {action:?}");
        }
    }

    #[test]
    fn viewers_change_nothing() {
        assert_eq!(decide(Role::Viewer, Action::Talk), Reach::Nothing);
    }

    #[test]
    fn sight() {
        let (me, main, cto) = (Principal::new("token:1"), AgentId(1), AgentId(2));
        let key = SessionKey::new;
        let mine = Sight::of_user(&me);
        assert!(mine.covers(main, &key("token:1/main")));
        for other in ["main", "token:1", "token:11/main", "ws:1", "x/token:1/main"] {
            assert!(!mine.covers(main, &key(other)), "{other}");
        }
        let agent = Sight::Agent(cto);
        assert!(agent.covers(cto, &key("main")) && !agent.covers(main, &key("main")));
        assert!(!agent.covers_agent(main) && mine.covers_agent(main));
        assert!(Sight::All.covers(main, &key("token:1/main")));
    }

    #[test]
    fn channel_prefixes() {
        for good in ["discord:", "my-bot:", "discord:guild-7:"] {
            assert!(is_channel_prefix(good), "{good}");
        }
        let long = format!("{}:", "x".repeat(64));
        for bad in
            ["", ":", "discord", "token:", "token:1:", "ws:", "person:", "a::", "A:", "a b:", &long]
        {
            assert!(!is_channel_prefix(bad), "{bad}");
        }
    }

    #[test]
    fn grants() {
        let grant = |role, prefix: Option<&str>, agent: Option<AgentId>| Grant {
            role,
            prefix: prefix.map(str::to_owned),
            agent,
        };
        let (discord, main) = (Some("discord:"), Some(AgentId(1)));
        for role in Role::ALL.iter().copied() {
            let (wants_prefix, wants_agent) = (role == Role::Channel, role == Role::Agent);
            for (prefix, agent) in [(None, None), (discord, None), (None, main), (discord, main)] {
                let fine = prefix.is_some() == wants_prefix && agent.is_some() == wants_agent;
                let mistake = grant(role, prefix, agent).mistake();
                assert_eq!(mistake.is_none(), fine, "{role:?} {prefix:?} {agent:?} {mistake:?}");
            }
        }
        assert!(grant(Role::Channel, Some("token:"), None).mistake().is_some());
        let me = Principal::new("token:1");
        let own = |grant: Grant| grant.own(&me);
        assert_eq!(own(Grant::operator()), Sight::All);
        assert_eq!(own(grant(Role::User, None, None)), Sight::of_user(&me));
        let prefix = "discord:".to_owned();
        let keys = Sight::Keys { prefix, principal: me.clone() };
        assert_eq!(own(grant(Role::Channel, discord, None)), keys);
        assert_eq!(own(grant(Role::Agent, None, main)), Sight::Agent(AgentId(1)));
    }

    #[test]
    fn words_come_back() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(*role));
        }
    }
}
