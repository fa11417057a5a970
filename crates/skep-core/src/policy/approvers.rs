//! Who may answer a question of the policy.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rule::{GrantTo, Who};
use crate::vocab::role::Role;

/// Lists of people: whoever answers is on each. A call is asked about once, also where several
/// rules ask about parts of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Vec<Vec<String>>)]
pub struct Approvers(Vec<Vec<GrantTo>>);

impl Approvers {
    /// Adds a list; an empty one is the operators'.
    pub fn require(&mut self, list: &[GrantTo]) {
        let list = if list.is_empty() { &[GrantTo::Role(Role::Operator)] } else { list };
        if !self.0.iter().any(|known| known == list) {
            self.0.push(list.to_vec());
        }
    }

    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|list| self.require(list));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why this person may not answer, if they may not. Roles are those of now.
    pub fn refuse(&self, who: &Who) -> Option<String> {
        let role = match who.role {
            Some(role @ (Role::Operator | Role::User | Role::Viewer)) => role,
            Some(role) => {
                let role = role.as_str();
                return Some(format!("a credential of the role {role} decides nothing"));
            }
            None => return Some("this credential is not valid any more".to_owned()),
        };
        let mut required = self.clone();
        if required.is_empty() {
            required.require(&[]);
        }
        let lacks = required.0.iter().find(|list| !list.iter().any(|to| to.covers(who)))?;
        let list: Vec<String> = lacks.iter().map(GrantTo::to_string).collect();
        let name = who.name.as_deref().unwrap_or(who.principal.as_str());
        Some(format!(
            "only {} may decide this, and {name} ({}) is not among them",
            list.join(" or "),
            role.as_str()
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::vocab::ids::Principal;

    fn who(principal: &str, role: Option<Role>, name: Option<&str>) -> Who {
        Who { principal: Principal::new(principal), role, name: name.map(str::to_owned) }
    }

    fn approvers(lists: &[&[&str]]) -> Approvers {
        let mut approvers = Approvers::default();
        for list in lists {
            let list: Vec<GrantTo> = list.iter().map(|to| GrantTo::parse(to).unwrap()).collect();
            approvers.require(&list);
        }
        approvers
    }

    #[test]
    fn who_may() {
        use Role::{Agent, Channel, Operator, User, Viewer};
        let boss = who("operator", Some(Operator), None);
        let anna = who("token:1", Some(User), Some("anna"));
        let paul = who("token:2", Some(Viewer), Some("paul"));
        // Named like a role, and like somebody's principal.
        let sly = who("token:3", Some(User), Some("viewer"));
        let gone = who("token:1", None, Some("anna"));
        let bot = who("token:4", Some(Agent), Some("anna"));
        let channel = who("token:5", Some(Channel), Some("anna"));
        let all = [&boss, &anna, &paul, &sly, &gone, &bot, &channel];
        let cases: [(&[&[&str]], [bool; 7]); 8] = [
            (&[], [true, false, false, false, false, false, false]),
            (&[&[]], [true, false, false, false, false, false, false]),
            (&[&["user:anna"]], [false, true, false, false, false, false, false]),
            (&[&["user:token:1"]], [false, true, false, false, false, false, false]),
            (&[&["role:viewer"]], [false, false, true, false, false, false, false]),
            (&[&["user:viewer"]], [false, false, false, true, false, false, false]),
            (&[&["role:user", "role:operator"]], [true, true, false, true, false, false, false]),
            // Two rules ask: one of each list.
            (
                &[&["role:user"], &["user:anna", "user:paul"]],
                [false, true, false, false, false, false, false],
            ),
        ];
        for (lists, may) in cases {
            let approvers = approvers(lists);
            assert_eq!(all.map(|who| approvers.refuse(who).is_none()), may, "{lists:?}");
        }
        let why = approvers(&[&["user:anna", "role:viewer"]]).refuse(&boss).unwrap();
        let said = "only user:anna or role:viewer may decide this, and operator (operator) is not \
                    among them";
        assert_eq!(why, said);
    }

    #[test]
    fn they_are_kept_as_words() {
        let two = approvers(&[&["user:anna", "role:viewer"], &[]]);
        let text = serde_json::to_string(&two).unwrap();
        assert_eq!(text, r#"[["user:anna","role:viewer"],["role:operator"]]"#);
        assert_eq!(serde_json::from_str::<Approvers>(&text).unwrap(), two);
        assert!(serde_json::from_str::<Approvers>(r#"[["anna"]]"#).is_err());
    }
}
