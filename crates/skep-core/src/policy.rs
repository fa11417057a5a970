//! What a tool does to the world, and what is decided about it when no rule names the tool.

use crate::settings::SandboxLevel;

/// How far a tool reaches. Every tool has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Looks, and changes nothing.
    Read,
    /// Changes files of its agent.
    Write,
    /// Runs programs. A call that holds a secret is refused; one of another class runs with the
    /// secret's name in its place.
    Run,
    /// Writes to the network, or to people.
    Reach,
    /// Changes the hive itself.
    Shape,
}

/// What is to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Allow,
    /// A person decides.
    Ask,
    Deny,
}

/// One effect for each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassPolicy {
    pub read: Effect,
    pub write: Effect,
    /// Absent: allowed where it is confined, asked for where it is not.
    pub run: Option<Effect>,
    pub reach: Effect,
    pub shape: Effect,
}

impl Default for ClassPolicy {
    fn default() -> Self {
        Self {
            read: Effect::Allow,
            write: Effect::Allow,
            run: None,
            reach: Effect::Ask,
            shape: Effect::Ask,
        }
    }
}

impl ClassPolicy {
    pub fn decide(&self, class: Class, level: SandboxLevel) -> Effect {
        match class {
            Class::Read => self.read,
            Class::Write => self.write,
            Class::Run => self.run.unwrap_or(match level {
                SandboxLevel::Confined => Effect::Allow,
                SandboxLevel::Host => Effect::Ask,
            }),
            Class::Reach => self.reach,
            Class::Shape => self.shape,
        }
    }
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Run => "run",
            Self::Reach => "reach",
            Self::Shape => "shape",
        }
    }
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_policy_by_class() {
        let usual = ClassPolicy::default();
        let strict = ClassPolicy { write: Effect::Deny, run: Some(Effect::Ask), ..usual };
        let open = ClassPolicy { run: Some(Effect::Allow), reach: Effect::Allow, ..usual };
        let (confined, host) = (SandboxLevel::Confined, SandboxLevel::Host);
        let cases = [
            (usual, Class::Read, host, Effect::Allow),
            (usual, Class::Write, host, Effect::Allow),
            (usual, Class::Run, confined, Effect::Allow),
            (usual, Class::Run, host, Effect::Ask),
            (usual, Class::Reach, confined, Effect::Ask),
            (usual, Class::Shape, confined, Effect::Ask),
            (strict, Class::Read, confined, Effect::Allow),
            (strict, Class::Write, confined, Effect::Deny),
            (strict, Class::Run, confined, Effect::Ask),
            (open, Class::Run, host, Effect::Allow),
            (open, Class::Reach, host, Effect::Allow),
        ];
        for (policy, class, level, effect) in cases {
            assert_eq!(policy.decide(class, level), effect, "{class:?} {level:?} {policy:?}");
        }
    }
}
